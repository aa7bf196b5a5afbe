"""The delays and timeouts of the Bundle controller that its tests shorten."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTiming:
    """Durations in seconds where nothing else is said; only tests use others than the defaults."""

    poll_retry: float = 15.0
    """Before the first retry of a failed poll, doubling up to the Bundle's interval."""
    poll_error_sharing: float = 5.0
    """Age that an answer may have for the retry of a failed poll: less than `poll_retry`."""
    poll_report: float = 3.0
    """After so long the status reports that a registry hasn't answered."""
    poll_after_push: float = 2.0
    """After a push until a second poll: distribution sends the notification before it sets the tag,
    so the first answer may have the old digest."""
    chart_timeout: float = 60.0
    """Timeout of reading one chart."""

    job_handover: float = 10.0
    """What another process may take to create the Job of an attempt that it has recorded."""
    job_blocked: float = 10.0
    """What a Job may take to start before its pods are read for the cause."""
    job_recheck: float = 30.0
    """Between two reads of the pods of a Job that hasn't ended."""
    account_recheck: float = 15.0
    """Before a missing account is requested again; the next wait is twice as long."""
    account_sharing: float = 1.0
    """For so long a response also serves a Bundle that checks for the first time."""
    uninstall_retry: float = 10.0
    """Before an uninstall that failed is retried, doubling."""
    uninstall_recheck: float = 15.0
    """Between two checks of an uninstall's Job that hasn't ended."""

    plan_requeue: float = 30.0
    """After so long a Bundle that waits in the queue of plans is reconciled again."""
    plan_log_timeout: float = 10.0
    """Timeout of reading a plan's log."""
    plan_log_retry: float = 10.0
    """Between two tries to read a plan's log."""
    plan_log_patience: float = 120.0
    """After the Job's end an unreadable log is requested again for so long: its node may become
    Ready again."""
    review_timeout: float = 5.0
    """Timeout of one review of a plan's permissions."""
    review_pause: float = 15.0
    """Without such reviews after one that failed or was forbidden, doubling."""
    review_longest_pause: float = 600.0
    drift_tidied: timedelta = timedelta(minutes=1)
    """After a check's end a new process removes for so long what an earlier one left; later the
    Bundle's next check removes it."""

    consent_fresh: float = 570.0
    """Age up to which a permission counts: ten minutes, less the time of a reconcile."""
    consent_pause: float = 15.0
    """Before consent is asked for again after a denial or a failure, doubling."""
    consent_longest_pause: float = 300.0
    consent_asked: float = 1.0
    """For so long such an answer also serves a user's request."""

    health_settle: float = 1.0
    """For so long further changes of a release's objects are collected."""
    health_status: float = 10.0
    """After a write until the next one that changes the condition's status or reason."""
    health_message: float = 60.0
    """The same where only the message changes."""
    health_grace: float = 600.0
    """After so long an object that isn't current is unhealthy, unless a deploy runs: a
    Deployment's default progress deadline. The time restarts with a new generation."""
    health_watch_check: float = 5.0
    """Between two checks whether watches work, are forbidden, or may be retried."""
    health_watch_settle: float = 0.05
    """For so long further changes are collected before the watches are arranged."""
    health_watch_retry: float = 15.0
    """Before a place that is forbidden is retried, doubling."""
    health_watch_longest_retry: float = 600.0

    reference_settle: float = 0.05
    """After a change further changes are collected for so long before the watches are arranged."""
    reference_check: float = 2.0
    """Between two checks whether a watch is forbidden, or may be retried."""
    reference_retry: float = 15.0
    """Before a forbidden scope is retried, doubling."""
    reference_longest_retry: float = 600.0
