"""The steps of a rollout: which namespaces may get changed content, and when. Pure.

A target is *old* while it has a copy with other content than the rule wants. Only old targets wait
for a step: what is missing is created with the new content at once. Each step covers the first so
many targets, in an order that doesn't depend on what was written already, so nothing but the state
in the status is needed to continue.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from copyrator.api.rollout import Rollout, RolloutState
from copyrator.api.times import format_time


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a rule wants now, compared with its copies."""

    content: str
    targets: int
    """Namespaces that get copies."""
    old: int
    """Of these, how many are old."""


@dataclass(frozen=True, slots=True)
class TargetNamespace:
    """A namespace that gets copies."""

    name: str
    labels: Mapping[str, str]
    created: str = ""
    """creationTimestamp."""


def in_order(rollout: Rollout, targets: Iterable[TargetNamespace], began: datetime) -> list[str]:
    """Namespaces in the order of the steps: first those that are selected, then by name.

    Those that were created after a rollout `began` have the new content, and come last, so that
    they don't replace others in a step.
    """
    since, first = format_time(began), rollout.first

    def rank(one: TargetNamespace) -> tuple[bool, bool, str]:
        is_new = one.created >= since
        return is_new, first is None or not first.matches(one.labels), one.name

    return [one.name for one in sorted(targets, key=rank)]


def began(before: RolloutState | None, content: str, now: datetime) -> datetime:
    """When the rollout of a content began; now where it hasn't."""
    if before is not None and before.content == content and before.started_at is not None:
        return before.started_at
    return _whole(now)


def begin(
    rollout: Rollout, before: RolloutState | None, wanted: Wanted, now: datetime
) -> RolloutState:
    """The state for the wanted content: the known one, a new one, or a finished one."""
    if before is not None and before.content == wanted.content:
        last = len(rollout.steps)
        return before if before.step <= last else dataclasses.replace(before, step=last)
    if not wanted.old:
        return RolloutState(wanted.content)
    previous = _held_by_most(rollout, before, wanted.targets)
    if previous == wanted.content and 2 * wanted.old < wanted.targets:
        return RolloutState(wanted.content)  # a change back
    return RolloutState(wanted.content, step=1, previous=previous, started_at=_whole(now))


def _held_by_most(rollout: Rollout, before: RolloutState | None, targets: int) -> str:
    """The content that most copies had before a change."""
    if before is None:
        return ""
    if not before.running:
        return before.content
    step = min(before.step, len(rollout.steps))
    covered = rollout.totals(targets)[step - 1]
    return before.content if 2 * covered > targets else before.previous


def share(rollout: Rollout, step: int, ordered: Sequence[str]) -> Sequence[str]:
    """The namespaces that have the new content after a step."""
    return ordered[: rollout.totals(len(ordered))[step - 1]]


def portion(rollout: Rollout, step: int, ordered: Sequence[str]) -> Sequence[str]:
    """The namespaces that a step adds to those of the steps before."""
    totals = [0, *rollout.totals(len(ordered))]
    earlier = [total for total in totals[:step] if total < totals[step]]
    return ordered[max(earlier, default=0) : totals[step]]


def next_step(rollout: Rollout, step: int, targets: int) -> int:
    """The step after this one that covers more targets; 0: there is none."""
    totals = rollout.totals(targets)
    after = range(step + 1, len(totals) + 1)
    return next((one for one in after if totals[one - 1] > totals[step - 1]), 0)


def paused(state: RolloutState, now: datetime, seconds: float) -> RolloutState:
    """The same after everything of the step was written, or has failed."""
    return dataclasses.replace(state, next_at=_whole(now + timedelta(seconds=seconds)))


def _whole(moment: datetime) -> datetime:
    """Round up to whole seconds, as a status has them: a pause is never shorter than the spec's."""
    return datetime.fromtimestamp(math.ceil(moment.timestamp()), UTC)
