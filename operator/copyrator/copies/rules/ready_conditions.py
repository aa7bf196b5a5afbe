"""Builds a rule's Ready condition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from copyrator.api import names
from copyrator.api.conditions import (
    NOT_SUSPENDED,
    ConditionType,
    Health,
    ReadyCondition,
    Suspension,
    suspend,
    suspended_ready,
)
from copyrator.api.reasons.rules import FailureReason, RuleReason
from copyrator.api.rule_spec import Mode, RuleSpec
from copyrator.api.rule_status import (
    MAX_FAILURE_MESSAGE,
    CopyCounts,
    Failure,
    PlanCounts,
    RuleFacts,
    shared_message,
)
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import GROUP, count, some
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import CompiledRule
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.copies.targets.planning import Unconfirmed
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import DEFAULT_TIMING


def invalid(problem: InvalidSpec) -> ReadyCondition:
    """The spec is invalid; its copies aren't changed."""
    return ReadyCondition(Health.STALLED, RuleReason.INVALID_SPEC, str(problem))


def tenant_refused(why: str) -> ReadyCondition:
    """A tenant's rule requests more than tenants may."""
    return ReadyCondition(Health.STALLED, RuleReason.NOT_TRUSTED, why)


def not_trusted(namespace: str) -> ReadyCondition:
    """The rule is in a namespace whose rules aren't served."""
    return ReadyCondition(
        Health.STALLED,
        RuleReason.NOT_TRUSTED,
        f"only rules in the namespace {namespace} are served; move the rule there, or run the "
        "operator with --tenant-rules",
    )


def failed(error: Exception) -> ReadyCondition:
    """An internal error; its message may quote data, so it isn't reported."""
    return ReadyCondition(
        Health.RETRYING,
        RuleReason.INTERNAL_ERROR,
        f"the operator failed to reconcile this rule with {type(error).__name__}; its copies "
        "aren't changed, and it is retried; report a bug with the operator's log",
    )


def outside(namespaces: Iterable[str]) -> ReadyCondition:
    """The rule's sources are in namespaces that this operator may not read."""
    return invalid(
        InvalidSpec(
            "spec.source",
            f"this operator doesn't serve {', '.join(namespaces)}; add it to --watch-namespaces "
            "(chart: watchNamespaces)",
        )
    )


def kind_not_allowed(kind: str, api_version: str | None) -> ReadyCondition:
    """The settings leave the kind out, so the operator has no permissions for it."""
    group = (api_version or "").rpartition("/")[0]
    value = f"{kind}.{group}" if group else kind
    return ReadyCondition(
        Health.STALLED,
        RuleReason.KIND_UNAVAILABLE,
        f"this operator doesn't copy the kind {kind}: add {value} to the chart's rules.kinds "
        "(--kinds)",
    )


def kind_unavailable(error: ApiError) -> ReadyCondition:
    """The cluster serves no such kind, or several."""
    return ReadyCondition(Health.RETRYING, RuleReason.KIND_UNAVAILABLE, error.message)


def forbidden(error: Forbidden) -> ReadyCondition:
    """The operator lacks a permission; the API server's message names it."""
    return ReadyCondition(Health.RETRYING, RuleReason.FORBIDDEN, error.message)


def watch_fault(registrations: Iterable[Registration]) -> ReadyCondition | None:
    """Why the view isn't complete, or None."""
    for registration in registrations:
        failure = registration.failure
        if failure is None or registration.synced:
            continue
        if isinstance(failure, Forbidden):
            return forbidden(failure)
        if isinstance(failure, NotFound):
            return ReadyCondition(Health.RETRYING, RuleReason.KIND_UNAVAILABLE, failure.message)
        tolerance = DEFAULT_TIMING.tolerance  # of a first list as of a watch that fails later
        lasts = registration.seen or registration.reflector.failing_for >= tolerance
        return ReadyCondition(
            Health.RETRYING if lasts else Health.PROGRESSING,
            RuleReason.PROGRESSING,
            f"can't watch {registration.reflector}: {failure.message}",
        )
    return None


def waits(why: str) -> ReadyCondition:
    """There is no room for the rule's sources or their watch; it resumes when there is."""
    return ReadyCondition(Health.RETRYING, RuleReason.PROGRESSING, why)


def reading() -> ReadyCondition:
    """Not everything was listed yet."""
    return ReadyCondition(Health.PROGRESSING, RuleReason.PROGRESSING, "reading sources and copies")


def removing(left: int, failed: Sequence[Failure]) -> ReadyCondition:
    """A rule is being deleted."""
    if failed:
        numbers = f"{len(failed)} of {count(left, 'copy', 'copies')} can't be removed"
        text = _name_first(failed, numbers)
        return ReadyCondition(Health.RETRYING, RuleReason.PARTIAL_FAILURE, text)
    text = f"removing {count(left, 'copy', 'copies')}"
    return ReadyCondition(Health.PROGRESSING, RuleReason.PROGRESSING, text)


def summarized(
    compiled: CompiledRule,
    summary: RuleSummary,
    sources: int,
    unused: str,
    edit: Unconfirmed | None = None,
) -> ReadyCondition:
    """A rule is served, or paused; `edit` is one whose deletions wait for a confirmation."""
    spec = compiled.spec
    if paused := _paused(spec):
        return paused
    if edit is not None and edit.generation == compiled.rule.generation:
        return _unconfirmed(compiled, summary, edit)
    if spec.source is not None and sources == 0:
        return ReadyCondition(
            Health.RETRYING, RuleReason.SOURCE_NOT_FOUND, missing_source(spec, unused)
        )
    barrier = compiled.barrier
    return (
        (barrier and barrier.blocked(_up_to_date(summary)))
        or _incomplete(summary, barrier.progress if barrier else "")
        or _right(compiled, summary)
    )


def _incomplete(summary: RuleSummary, progress: str) -> ReadyCondition | None:
    """Some copies aren't as wanted: they have failed, wait at a barrier, or are due."""
    if wrong := _wrong(summary):
        is_all = summary.desired and not summary.ready and not summary.pending
        reason = RuleReason.ALL_FAILED if is_all else RuleReason.PARTIAL_FAILURE
        if summary.contested:
            reason = RuleReason.CONFLICT_PERSISTS
        text = f"{wrong}; {progress}" if progress else wrong
        return ReadyCondition(Health.RETRYING, reason, text)
    if progress:
        text = f"{progress}: {_up_to_date(summary)}"
        return ReadyCondition(Health.PROGRESSING, RuleReason.ROLLING_OUT, text)
    if summary.pending or summary.unwanted:
        return ReadyCondition(
            Health.PROGRESSING,
            RuleReason.PROGRESSING,
            f"{_up_to_date(summary)}; {count(len(summary.unwanted), 'is', 'are')} to be removed",
        )
    return None


def _unconfirmed(compiled: CompiledRule, summary: RuleSummary, edit: Unconfirmed) -> ReadyCondition:
    """An edit would delete more copies than it may; its other writes are made."""
    rule = compiled.rule
    deleted = len(summary.unwanted) if edit.copies is None else len(edit.copies)
    had = count(edit.had, "copy that the rule had", "copies that the rule had")
    besides = _wrong(summary) or _up_to_date(summary)
    return ReadyCondition(
        Health.STALLED,
        RuleReason.DELETION_UNCONFIRMED,
        f"generation {rule.generation} of the rule would delete {deleted} of {had}, more than "
        f"spec.maxDelete allows ({compiled.spec.max_delete}%); none is deleted. Correct the rule, "
        f"or confirm: copyrator confirm-delete rule {rule.owner} (annotation "
        f'{names.ANN_CONFIRM_DELETE}: "{rule.generation}"). {besides}',
    )


def _wrong(summary: RuleSummary) -> str:
    """What is wrong with some copies, by the first of them; empty where nothing is."""
    failing = _failing(summary) if summary.failed or summary.conflicts or summary.stuck else ""
    if not summary.contested:
        return failing
    number = count(len(summary.contested), "copy is", "copies are")
    text = f"{number} changed back by other clients: {summary.contest}"
    return f"{text}. {failing}" if failing else text


def _paused(spec: RuleSpec) -> ReadyCondition | None:
    if spec.suspend:
        return ReadyCondition(Health.PAUSED, RuleReason.SUSPENDED)
    if spec.mode is Mode.PLAN:
        return ReadyCondition(
            Health.PAUSED,
            RuleReason.PLANNED,
            "spec.mode is Plan: nothing is written; status.plan has the planned changes",
        )
    return None


_REFUSALS: Final = (RuleReason.INVALID_SPEC, RuleReason.NOT_TRUSTED, RuleReason.KIND_UNAVAILABLE)
"""Reasons why a rule isn't served, whether it is suspended or not."""


def keep_ready(rule: Rule, condition: ReadyCondition) -> tuple[Suspension | None, ReadyCondition]:
    """What Ready was, and is: of a suspended rule it keeps its status, unless the rule is refused.

    The spec of an edit that isn't valid may suspend it or not, so that ends nothing.
    """
    recorded = rule.status.suspension
    kept = None if recorded == NOT_SUSPENDED else recorded
    if rule.deleting:
        return None, condition
    if isinstance(rule.spec, InvalidSpec):
        return kept, condition
    if not rule.spec.suspend:
        return None, condition
    if condition.health is Health.STALLED and condition.reason in _REFUSALS:
        return kept, condition
    if kept is None:
        kept = suspend(
            rule.status.condition(ConditionType.READY),
            observed=rule.status.observed_generation,
            generation=rule.generation,
            edits=1,
        )
    is_edited = rule.generation > (kept.generation or 0)
    return kept, suspended_ready(kept, RuleReason.SUSPENDED, is_edited=is_edited)


def no_targets(compiled: CompiledRule) -> str:
    """Why a valid rule with sources requires no copy at present."""
    targets, spec = compiled.targets, compiled.spec
    if len(targets):
        why = f"the rule matches {count(len(targets), 'namespace')}, but requires no copy there: "
        return why + (
            "a source isn't copied into its own namespace, nor where its annotation "
            f"{names.ANN_ALLOW_TO} doesn't allow it"
        )
    text = f"the rule matches no namespace: its targets are {spec.targets.to_string()}"
    if targets.tenant is None:
        return text
    return f"{text}, if they accept {targets.tenant} by the annotation {names.ANN_ALLOW_FROM}"


def _right(compiled: CompiledRule, summary: RuleSummary) -> ReadyCondition:
    """Everything is as wanted, some of it in objects of others."""
    if not summary.desired:
        return ReadyCondition(Health.READY, RuleReason.NO_TARGETS, no_targets(compiled))
    if not summary.satisfied:
        text = f"{count(summary.ready, 'copy is', 'copies are')} up to date"
        return ReadyCondition(Health.READY, RuleReason.SYNCED, text)
    return ReadyCondition(
        Health.READY,
        RuleReason.SATISFIED,
        f"{count(summary.ready - summary.satisfied, 'copy is', 'copies are')} up to date; "
        f"{count(summary.satisfied, 'other object has', 'other objects have')} the desired content",
    )


def _up_to_date(summary: RuleSummary) -> str:
    desired = count(summary.desired, "copy", "copies")
    verb = "is" if 1 in (summary.ready, summary.desired) else "are"
    return f"{summary.ready} of {desired} {verb} up to date"


def _failing(summary: RuleSummary) -> str:
    """The first failure by name, and how many there are: ``b/x: Forbidden, 1 of 3: …``."""
    numbers = []
    if number := summary.failed + summary.conflicts:
        numbers.append(f"{number} of {summary.desired}")
    if summary.stuck:
        numbers.append(f"{summary.stuck} can't be removed")
    others = [one for one in summary.samples if one.reason is not FailureReason.CONFLICT_PERSISTS]
    return _name_first(others, ", ".join(numbers))


def _name_first(failures: Sequence[Failure], numbers: str) -> str:
    """The first failure by name, with how many there are.

    A missing permission comes first, because only granting it helps; what is the same in many
    namespaces is said once for all.
    """
    first = min(failures, key=lambda one: (one.reason is not FailureReason.FORBIDDEN, one))
    said = shared_message(first.namespace, first.message)
    spaces = {
        one.namespace
        for one in failures
        if (one.reason, shared_message(one.namespace, one.message)) == (first.reason, said)
    }
    if len(spaces) >= GROUP:
        return f"{some(spaces, 'namespaces')}: {first.reason}, {numbers}: {said}"
    where = f"{first.namespace}/{first.name}" if first.name else first.namespace
    differs = f" (differs in {', '.join(first.differs)})" if first.differs else ""
    message = first.message[:MAX_FAILURE_MESSAGE]
    return f"{where}: {first.reason}{differs}, {numbers}: {message}"


def missing_source(spec: RuleSpec, unused: str) -> str:
    """Why a rule has no source; `unused`: why it isn't what matches."""
    assert spec.source is not None
    source = spec.source
    where = f"{', '.join(source.namespaces)}{source.cluster}"
    if unused:
        return unused
    if source.name:
        return f"there is no {source.kind} {source.name} in {where}"
    selector = source.selector.to_string() if source.selector else ""
    return f"no {source.kind} in {where} matches {selector or 'the selector'}"


def facts(spec: RuleSpec, summary: RuleSummary, *, sources: int, targets: int) -> RuleFacts:
    """The counts of a status."""
    sources_known = spec.source is None or sources > 0
    plan = None
    if spec.mode is Mode.PLAN and not spec.suspend:
        plan = PlanCounts(
            create=summary.missing,
            update=summary.pending - summary.missing,
            delete=len(summary.unwanted),
        )
    return RuleFacts(
        sources=sources,
        targets=targets,
        copies=CopyCounts(
            desired=summary.desired,
            ready=summary.ready,
            satisfied=summary.satisfied,
            failed=summary.failed,
            conflicts=summary.conflicts + len(summary.contested),
            pending=summary.pending,
        ),
        failures=summary.samples,
        plan=plan,
        synced=sources_known and summary.desired == summary.ready and not summary.unwanted,
    )
