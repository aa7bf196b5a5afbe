"""State of a Bundle between two reconciles beside its entry: due times and work in progress.

None of it is needed for correctness: a restart loses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from copyrator.api.keys import BundleKey
from copyrator.bundles.policy.resolution import DesiredVersion
from copyrator.bundles.policy.slots import Slot


@dataclass(slots=True)
class Memory:
    """State of one Bundle between two reconciles."""

    desired: DesiredVersion | None = None
    """The last desired version that was handled."""
    asked_since: float | None = None
    """Monotonic seconds of the oldest answer that is accepted; None while no poll is pending."""
    asked_for: str = ""
    """The token of the user's request for which the pending poll was begun; empty: none."""
    asked_at: datetime | None = None
    """When the pending poll was begun, by the wall clock."""
    again: float | None = None
    """Monotonic seconds of the second poll after a push (BundleTiming.poll_after_push)."""
    next_poll: datetime | None = None
    slot: Slot | None = None
    """The Bundle's poll times; None until its first poll is scheduled."""
    poll_failures: int = 0
    unsigned: int = 0
    """Number of consecutive polls that found a version without a trusted signature."""
    changed_at: datetime | None = None
    """When a user last edited the Bundle."""
    creating: int | None = None
    """The attempt whose Job this process began to create without knowing yet that it exists."""
    begun: int | None = None
    """The attempt whose Job this process has created or seen: if it doesn't exist, it is lost."""
    answered_at: float = 0.0
    """Monotonic seconds of the last successful poll; at first, of the first reconcile."""
    settled: tuple[object, ...] | None = None
    """The Bundle's version, the resolution and the values' hash for which there was nothing to do:
    with the same again no decision is needed.
    """
    settled_without_account: tuple[object, ...] | None = None
    """The same where only the service account is missing."""
    account_at: datetime | None = None
    """When to request the missing service account again; None where another Bundle does so."""
    judged_at: datetime | None = None
    """When the gates were evaluated last."""
    plan_begun: int | None = None
    """The plan whose Job this process has created or seen: if it doesn't exist, it is lost."""
    plan_counted: int | None = None
    """The plan whose outcome was counted in the metrics."""
    preview_begun: int | None = None
    """The preview whose Job this process has created or seen."""
    preview_asked: str = ""
    """The token of the preview request for which the registry is polled."""
    preview_since: float = 0.0
    """Monotonic seconds of the oldest answer that is accepted for it."""
    recheck_at: datetime | None = None
    """When to reconcile again: for a plan's blocked Job, an expired preview, a check for drift."""
    values_of: str | None = None
    """The failed plan's Job whose values are deleted once its outcome is in the status."""
    is_tidied: bool = False
    """Whether this process has deleted Secrets that a former one may have left."""
    consented: tuple[str | None, ...] = ()
    """What was last written to ``status.consent``: the resourceVersion then, state and by."""
    soaked: str = ""
    """The Bundle's resourceVersion at which ``status.soak`` was up to date."""
    remove_finalizer: str | None = None
    """The uid of the Bundle whose finalizer was removed, so that it is removed once."""


class Memories(dict[BundleKey, Memory]):
    """The state of all Bundles, by their keys; created at its first use, except by ``get``."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic

    def __missing__(self, key: BundleKey) -> Memory:
        memory = self[key] = Memory(answered_at=self._monotonic())
        return memory
