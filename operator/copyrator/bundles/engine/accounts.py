"""What keeps a Job from starting: its pods, the objects they mount, a missing service account.

A pod that waits for a ConfigMap or Secret to mount doesn't report it, nor does a Job whose pod is
refused: both only emit Events, which the operator may not list. So the objects are requested.

The operator may get a service account but not watch any, so a missing one is requested again with
growing pauses, once for all Bundles of the account. Meanwhile a Bundle without its account costs as
much as one that is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import PollStates
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.step import Change, Step
from copyrator.bundles.jobs.job import ADDED_VOLUME, login_secret
from copyrator.bundles.jobs.outcome import (
    Blocked,
    JobRecord,
    find_blocked_pod,
    has_started,
    mounts_of,
)
from copyrator.bundles.jobs.pod import VALUES_VOLUME
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import CONFIGMAPS, SECRETS, SERVICEACCOUNTS

LONGEST_PAUSE: Final = 300.0
"""Seconds between two requests at most; less where the Bundle's interval is shorter."""


@dataclass(slots=True)
class _MissingAccount:
    """An account that is missing."""

    text: str
    checked_at: float
    """Monotonic seconds, as `next_check`."""
    next_check: float
    wait: float
    waiting: set[BundleKey] = field(default_factory=set)


@dataclass(slots=True)
class AccountMemory:
    """The missing service account of a Bundle's Jobs."""

    check_at: datetime | None = None
    """When it is requested again; None where another Bundle does so, or it isn't missing."""


class ServiceAccountChecker:
    """The service accounts that were found missing, for all Bundles."""

    def __init__(self, context: Context, poll_states: PollStates) -> None:
        self._context = context
        self._poll_states = poll_states
        self._missing: dict[tuple[str, str], _MissingAccount] = {}
        context.memories.on_drop(self._leave)

    def is_awaited(self, key: BundleKey) -> bool:
        """Whether a Bundle's account was missing when it was looked for last."""
        return self._context.memories.find(key, AccountMemory) is not None

    def check_at(self, key: BundleKey) -> datetime | None:
        """When a missing account is requested again; None where another Bundle does so."""
        memory = self._context.memories.find(key, AccountMemory)
        return memory.check_at if memory is not None else None

    async def check(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Check whether an account that was missing exists now: then decide again.

        An account that isn't recorded as missing any more was found, or its request was forbidden.
        """
        is_recorded = (spec.namespace, spec.service_account) in self._missing
        if is_recorded and await self.missing(entry, spec):
            return Step(entry, due=(self.check_at(entry.key),))
        self._context.memories.forget(entry.key, AccountMemory)
        self._poll_states.decide_again(entry.key, spec.interval)
        return Step(entry)

    async def missing(
        self, entry: BundleEntry, spec: BundleSpec, *, recheck: bool = False
    ) -> str | None:
        """The message for the status where the account is missing, else None.

        The API server is requested only when a check is due.

        With `recheck` it is requested in any case, except right after another Bundle did. The
        Bundle whose request failed is requeued for the next one; all waiting Bundles are
        requeued once the account exists.
        """
        account = spec.namespace, spec.service_account
        now, timing = self._context.monotonic(), self._context.timing
        memories = self._context.memories
        memory = memories.find(entry.key, AccountMemory)
        if memory and memory.check_at is not None and memory.check_at <= self._context.clock():
            memory.check_at = None  # unless it sends this request, another Bundle has
        found = self._missing.get(account)
        if found and now < (
            found.checked_at + timing.account_sharing if recheck else found.next_check
        ):
            found.waiting.add(entry.key)
            memories.of(entry.key, AccountMemory)
            return found.text
        is_due = found is None or now >= found.next_check
        if found and is_due:
            found.next_check = now + found.wait  # no other Bundle requests it meanwhile
        try:
            text = await missing_account(self._context.client, spec)
        except Forbidden:
            self._requeue_waiting(entry.key, account)  # unknown from now on: each Bundle reports it
            raise
        found = self._missing.get(account)
        if text is None:
            self._requeue_waiting(entry.key, account)
            memories.forget(entry.key, AccountMemory)
            return None
        memory = memories.of(entry.key, AccountMemory)
        if found is None:
            wait = timing.account_recheck / 2
            found = self._missing[account] = _MissingAccount(text, now, now, wait)
        if is_due:
            found.wait = min(found.wait * 2, LONGEST_PAUSE, max(spec.interval, 1.0))
            found.next_check = now + found.wait
            memory.check_at = self._context.clock() + timedelta(seconds=found.wait)
        found.checked_at = now
        found.waiting.add(entry.key)
        return text

    def _requeue_waiting(self, finder: BundleKey, account: tuple[str, str]) -> None:
        """Remove the account; requeue the Bundles that wait for it, except the finder."""
        found = self._missing.pop(account, None)
        if found is not None:
            for key in found.waiting - {finder}:
                self._context.schedule.changed(key, Change.ACCOUNT)

    def _leave(self, key: BundleKey) -> None:
        """Remove a Bundle that was deleted."""
        for account, found in list(self._missing.items()):
            found.waiting.discard(key)
            if not found.waiting:
                del self._missing[account]


async def find_blocked(
    client: KubeClient, jobs: JobClient, job: JobRecord, spec: BundleSpec
) -> Blocked | None:
    """Why a Job that hasn't ended makes no progress; None where it does or the cause is unknown."""
    pods = await jobs.output.pods(job)
    jobs.record_pods(job, pods)
    if blocked := find_blocked_pod(pods):
        return blocked
    if has_started(pods):
        return None
    if not pods:
        reason, text = BundleReason.SERVICE_ACCOUNT_MISSING, await missing_account(client, spec)
        if text is None:
            reason = BundleReason.JOB_UNSCHEDULABLE
            text = "it has no pod; its Events may name the cause, such as a quota or policy: "
            text += f"kubectl -n {job.namespace} describe job {job.name}"
        return Blocked(reason, text)
    for mount in mounts_of(pods):
        resource = SECRETS if mount.secret else CONFIGMAPS
        try:
            await client.get(resource, job.namespace, mount.name)
        except NotFound:
            if mount.volume == ADDED_VOLUME or mount.name.startswith(f"{job.name}-"):
                is_login = mount.name == login_secret(job.name)
                what = "the registry's credentials" if is_login else "what was planned"
                text = f"Secret {job.namespace}/{mount.name} with {what} was deleted"
                return Blocked(BundleReason.PLAN_CHANGED, text)
            is_values = mount.volume.startswith(VALUES_VOLUME)
            return Blocked(
                BundleReason.VALUES_MISSING if is_values else BundleReason.AUTHENTICATION_FAILED,
                f"{resource.kind} {job.namespace}/{mount.name}, which its pod mounts, doesn't "
                "exist; create it, or remove it from the spec",
            )
    return None


async def missing_account(client: KubeClient, spec: BundleSpec) -> str | None:
    """The message for the status where the service account of the Jobs doesn't exist, else None.

    Raises:
        ApiError: it can't be read.
    """
    try:
        await client.get(SERVICEACCOUNTS, spec.namespace, spec.service_account)
    except NotFound:
        return (
            f"ServiceAccount {spec.namespace}/{spec.service_account}, which werf runs as, "
            "doesn't exist; create it and grant it the permissions that the bundle needs"
        )
    return None
