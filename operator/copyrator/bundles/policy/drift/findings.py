"""What has drifted: the operations of a plan beyond those that every plan of the chart has. Pure.

The plan is of exactly what is deployed. Hooks and random values are in each plan, also right after
a deploy; so it is compared with the plan that was made then, the baseline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from copyrator.api.drift import Drift
from copyrator.bundles.policy.plans.operations import Operation, OperationType

_HOOK_TYPES: Final = {
    OperationType.CREATE: OperationType.RECREATE,
    OperationType.RECREATE: OperationType.CREATE,
}
"""A hook's object is created where it was deleted after its run, else recreated."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The operations that a check found, without those of the baseline and ignored ones."""

    drifted: tuple[Operation, ...] = ()
    unseen: tuple[Operation, ...] = ()
    """Blind applies: their dry runs were refused, so what they would change isn't known."""


def findings(
    operations: Iterable[Operation], baseline: Collection[Operation], drift: Drift
) -> Findings:
    """Compare a plan of what is deployed with the baseline.

    Args:
        operations: the plan's ``effects``.
        baseline: those of the plan made right after the deploy.
        drift: names the objects that are ignored.
    """
    usual = set(baseline)
    usual |= {
        replace(one, type=_HOOK_TYPES[one.type]) for one in baseline if one.type in _HOOK_TYPES
    }
    new = [one for one in operations if one not in usual and not is_ignored(one, drift)]
    return Findings(
        tuple(one for one in new if one.type is not OperationType.APPLY),
        tuple(one for one in new if one.type is OperationType.APPLY),
    )


def is_ignored(operation: Operation, drift: Drift) -> bool:
    """Whether ``spec.drift.ignore`` names the operation's object."""
    return any(
        one.kind == operation.kind and one.names.matches(operation.name) for one in drift.ignore
    )


def object_of(text: str) -> str:
    """The object of an operation's text, ``NAMESPACE:GROUP:KIND:NAME``."""
    return text.partition(" ")[2]
