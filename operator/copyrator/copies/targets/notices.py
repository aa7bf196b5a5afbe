"""Warning Events in target namespaces, for their owners: why a copy is missing.

Only of rules that may copy there, so never of a rule that the namespace doesn't accept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from copyrator.api.rule_status import Failure, FailureReason
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.kube.events import WARNING, ObjectRef
from copyrator.kube.resources import Resource

if TYPE_CHECKING:
    from copyrator.copies.context import CopyContext
    from copyrator.copies.rules.rules import Rule


def notify_owners(context: CopyContext, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
    """Record Events of templates that can't be rendered; failed writes record their own."""
    if state.phase is not RulePhase.SERVING or state.compiled is None:
        return
    resource = context.kinds[state.compiled.resource].resource
    for sample in summary.samples:
        if sample.reason is FailureReason.TEMPLATE_ERROR:
            notify_owner(context, rule, resource, sample)


def notify_owner(context: CopyContext, rule: Rule, resource: Resource, failure: Failure) -> None:
    """Record an Event about a copy that can't be written, within the limits."""
    namespace = failure.namespace
    if failure.reason is FailureReason.NOT_ACCEPTED or namespace == rule.key.namespace:
        return
    notice = namespace, rule.owner, failure.reason.value
    if not context.notices.take(notice, context.monotonic()):
        return
    name = failure.name or rule.key.name
    ref = ObjectRef(resource.api_version, resource.kind, namespace, name)
    fights = failure.reason is FailureReason.CONFLICT_PERSISTS
    problem = "can't keep this copy as it wants it" if fights else "can't write this copy"
    text = f"the rule {rule.owner} {problem}: {failure.message}"
    context.recorder.record(ref, WARNING, failure.reason.value, text)
