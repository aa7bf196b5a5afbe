"""The part of a rule's Ready condition about its rollout."""

from __future__ import annotations

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.rollout import RolloutState
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import RuleReason
from copyrator.api.times import format_time
from copyrator.copies.cache.compiled_rule import CompiledRule


def progress(spec: RuleSpec, rollout: RolloutState | None) -> str:
    """``rollout step 2 of 4, the next one is due at …``; empty where none is in progress."""
    if rollout is None or not rollout.running or spec.rollout is None:
        return ""
    steps = len(spec.rollout.steps)
    text = f"rollout step {rollout.step} of {steps}"
    if rollout.next_at is None:
        return f"{text}, being written"
    due = "it ends" if rollout.step == steps else "the next one is due"
    return f"{text}, {due} at {format_time(rollout.next_at)}"


def stopped(
    compiled: CompiledRule, copies: str, rollout: RolloutState | None
) -> ReadyCondition | None:
    """A consumer isn't healthy with the new content: its recovery or a user continues it."""
    if rollout is None or rollout.stopped is None or compiled.spec.rollout is None:
        return None
    who, lacks = rollout.stopped.consumer, rollout.stopped.message
    return ReadyCondition(
        Health.STALLED,
        RuleReason.ROLLOUT_STOPPED,
        f"{who.kind} {who.namespace}/{who.name} isn't healthy since its copy was changed"
        f"{f' ({lacks})' if lacks else ''}; the rollout is stopped at step {rollout.step} of "
        f"{len(compiled.spec.rollout.steps)}: {copies}. It continues when that recovers, and "
        "starts over when the source changes; to continue nevertheless: copyrator rollout resume "
        f"rule {compiled.rule.owner}",
    )
