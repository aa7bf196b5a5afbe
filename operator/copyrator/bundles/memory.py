"""What is known of a Bundle between two reconciles beside its entry: due times, work in progress.

None of it is needed for correctness: a restart loses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from copyrator.bundles.policy.resolution import DesiredVersion
from copyrator.bundles.policy.slots import Slot


@dataclass(slots=True)
class Memory:
    """State of one Bundle between two reconciles."""

    desired: DesiredVersion | None = None
    """The last one that was handled."""
    asked_since: float | None = None
    """Monotonic seconds: an answer must be at least so new; None while no poll is pending."""
    asked_for: str = ""
    """The user's request (its token) that the pending poll was begun for; empty: for none."""
    asked_at: datetime | None = None
    """The same by the wall clock."""
    again: float | None = None
    """Monotonic seconds: when to poll once more after a push (resolution.polling.SETTLED)."""
    next_poll: datetime | None = None
    slot: Slot | None = None
    """The Bundle's phase among all polls; None until its first poll is planned."""
    poll_failures: int = 0
    unsigned: int = 0
    """Polls in a row that found a version without a signature that is trusted."""
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
    """When to request the service account again, where this Bundle does it."""
    judged_at: datetime | None = None
    """When the gates were asked last."""
    plan_begun: int | None = None
    """The plan whose Job this process has created or seen: if it doesn't exist, it is lost."""
    plan_counted: int | None = None
    """The plan whose outcome the metrics have."""
    preview_begun: int | None = None
    """The same of a preview."""
    preview_asked: str = ""
    """The request for a preview for which the registry is asked."""
    preview_since: float = 0.0
    """Monotonic seconds: the registry's answers to it must be at least so new."""
    recheck_at: datetime | None = None
    """When to look again for what blocks a plan's Job, or whether a preview's time is over."""
    values_of: str | None = None
    """The failed plan's Job whose values are deleted once its outcome is in the status."""
    is_tidied: bool = False
    """This process has deleted what a former one may have left."""
    soaked: str = ""
    """The version of the Bundle for which its soak was found to be up to date."""
    remove_finalizer: str | None = None
    """The uid of the Bundle whose finalizer was removed."""
