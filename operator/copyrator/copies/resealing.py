"""`copyrator reseal rule`: on request, a rule takes over once what has its marks and no seal."""

from __future__ import annotations

from copyrator.api import names
from copyrator.copies.cache.rules import Rule
from copyrator.copies.context import CopyContext
from copyrator.copies.rule_state import RulePhase, RuleState
from copyrator.copies.summarize import RuleSummary
from copyrator.kube.resources import RULES
from copyrator.workqueue.outcome import Priority


def queue_unsealed(
    context: CopyContext, state: RuleState, rule: Rule, summary: RuleSummary
) -> None:
    """Queue the objects with the rule's marks and no valid seal to be read, at low priority."""
    keys = list(summary.unsealed)
    if state.take_reseal(rule.reseal):
        keys += summary.refused
    for key in keys:
        context.queue.add(key, Priority.RESYNC, respect_backoff=True)


async def end_request(
    context: CopyContext, state: RuleState, rule: Rule, summary: RuleSummary
) -> None:
    """Remove the request from the rule when nothing is left to do.

    Raises:
        ConflictError: the rule has changed.
        ApiError: the rule can't be written.
    """
    left = summary.unsealed or summary.refused or state.phase is not RulePhase.SERVING
    if left or not state.reseals(rule.reseal):
        return
    patch = {
        "metadata": {
            "uid": rule.uid,
            "resourceVersion": rule.resource_version,
            "annotations": {names.ANN_RULE_RESEAL_AT: None},
        }
    }
    answer = await context.home.client.patch(RULES, rule.key.namespace, rule.key.name, patch)
    rule.reseal = None
    rule.resource_version = answer["metadata"]["resourceVersion"]
