"""Logins of clouds for Jobs: each Job of a Bundle with ``spec.provider`` has a Secret of its own.

It has a token for the registry, and is written before the Job is created. While the Job's pod
hasn't started, it is written anew at two thirds of the token's life; a pod that runs keeps what it
has. It is deleted with the Job's outcome (jobs/sealed.py).

No reconcile waits for a cloud: a task asks for the login, and the Bundle is requeued at its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import cancel_all
from copyrator.bundles.engine.feature import Feature, JobPendingError, Parts
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.step import Change
from copyrator.bundles.features.login.fields import LoginSpec
from copyrator.bundles.features.login.identity import identity_of
from copyrator.bundles.jobs.job import DeployOrder, login_secret
from copyrator.bundles.jobs.outcome import Blocked, Excuse, JobRecord, has_started
from copyrator.bundles.jobs.pod import Login
from copyrator.bundles.jobs.redaction import WithheldError
from copyrator.bundles.jobs.werf_error import refuses_login
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.resources import JOBS
from copyrator.oci.auth import CloudIdentity, CloudLogin, Credential, docker_config, remedy_of
from copyrator.oci.errors import RegistryError

log = logging.getLogger(__name__)

RETRY: Final = 30.0
"""Seconds between two tries to renew a Job's login, at least."""
_AT_ONCE: Final = 0.05
"""Seconds in which a login that is known already is there."""
_KEPT: Final = 60.0
"""Seconds for which a login that was waited for is used."""


@dataclass(slots=True)
class WrittenLogin:
    """A Job's login of a cloud."""

    expires: datetime
    renew_at: datetime
    """When it is renewed, if the Job's pod hasn't started by then."""
    identity: CloudIdentity
    """Whose."""
    is_whole: bool = False
    """Whether this process wrote the first one, so that all are in ``contents``."""
    contents: tuple[bytes, ...] = field(default=(), repr=False)
    """What this process has written into its Secret, or has tried to, the last one at the end."""
    present: Credential | None = None
    """What it has written last; None: that isn't known."""
    failures: int = 0
    """How often in a row its Secret couldn't be written."""
    fault: Blocked | None = None
    """Why there is no other although it has expired, or its Secret can't be written."""


@dataclass(slots=True)
class LoginMemory:
    """The logins of a cloud that a Bundle's Jobs have."""

    task: asyncio.Task[CloudLogin] | None = None
    """Asks for the present one, or has got it."""
    identity: CloudIdentity | None = None
    """Whose."""
    ended_at: float = 0.0
    """Monotonic seconds when a task that was waited for has ended."""
    written: dict[str, WrittenLogin] = field(default_factory=dict)
    """By the Job's name."""

    def cancel(self) -> None:
        """End the task."""
        if self.task is not None:
            self.task.cancel()
            self.task = None


class LoginFeature(Feature):
    """The logins of all Bundles' Jobs."""

    spec = LoginSpec
    writes_secrets = True

    def connect(self, parts: Parts) -> None:
        """Be told of Secrets that are removed."""
        self._jobs, self._seals = parts.of(JobClient), parts.of(SealStore)
        self._seals.on_removed(self._forget)
        self.context.memories.on_drop(self._cancel)

    async def stop(self) -> None:
        """End all requests for logins."""
        memories = self.context.memories.each(LoginMemory)
        await cancel_all([one.task for _, one in memories if one.task is not None])

    def credential(self, spec: BundleSpec) -> Credential | None:
        """A token of the Bundle's identity, which is got where it is used."""
        identity = self._identity(spec)
        return None if identity is None else Credential(cloud=identity)

    async def prepare(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Make sure that there is a login.

        Raises:
            JobPendingError: it was asked for.
            RegistryError: there is none.
        """
        if (identity := self._identity(spec)) is not None:
            await self._get(entry.key, identity)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """Write the Job's Secret; returns the order with its expiry.

        Raises:
            JobPendingError: the cloud's login was asked for.
            RegistryError: there is none.
            ApiError: the Secret can't be written.
        """
        if (identity := self._identity(spec)) is None:
            return order
        login = await self._get(entry.key, identity)
        known = self._memory(entry.key).written.get(job)
        if known is None:
            known = WrittenLogin(login.expires, login.expires, identity, is_whole=True)
        await self._write(entry, spec, job, login, known)
        marks = {**order.marks, names.ANN_LOGIN_EXPIRES: format_time(login.expires)}
        return replace(order, login=Login.SELECTED, marks=marks)

    async def attend(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> datetime | None:
        """Renew the login of an unfinished Job where that is due; returns when it is due again.

        None: its pod has started, or it has no login of a cloud, or another than the spec has by
        now, or the cloud was asked for one.

        Raises:
            ApiError: its pods can't be read now, or the Job or its Secret can't be written.
        """
        identity = self._identity(spec)
        known = None if identity is None else self._find(entry.key, job, identity)
        if known is None or known.identity != identity or entry.deleting:
            return None
        if job.started or job.given_up or job.deleting:
            return None
        if self.context.clock() < known.renew_at:
            return known.renew_at
        pods = await self._jobs.output.pods(job)
        self._jobs.record_pods(job, pods)
        if has_started(pods):
            known.fault = None
            return None
        try:
            login = await self._get(entry.key, known.identity)
        except JobPendingError:
            return None
        except RegistryError as error:
            self._record_error(known, spec, error)
        else:
            await self._renew(entry, spec, job, login)
        return known.renew_at

    async def _renew(
        self, entry: BundleEntry, spec: BundleSpec, job: JobRecord, login: CloudLogin
    ) -> None:
        known = self._memory(entry.key).written[job.name]
        if login.credential == known.present:  # the cloud gives no other now
            known.renew_at = self._renew_at(login)
            return
        if not _is_renewed(job):  # on record before it is
            marks = {"uid": job.uid, "annotations": {names.ANN_LOGIN_RENEWED: "true"}}
            body = {"metadata": marks}
            await self.context.client.patch(JOBS, job.namespace, job.name, body)
        try:
            await self._write(entry, spec, job.name, login, known)
        except ApiError as error:
            if error.transient:
                raise
            self._record_write_error(known, error)
        else:
            log.info("%s: the login of Job %s was renewed", entry.key, job.name)

    def _record_write_error(self, known: WrittenLogin, error: ApiError) -> None:
        """Try again later; until then the Secret may not exist, which doesn't end the Job."""
        known.failures += 1
        delay = timedelta(seconds=retry_delay(RETRY, known.failures))
        known.renew_at = self.context.clock() + delay
        is_forbidden = isinstance(error, Forbidden)
        reason = BundleReason.FORBIDDEN if is_forbidden else BundleReason.JOB_UNSCHEDULABLE
        known.fault = Blocked(reason, f"its login can't be renewed: {error.message}")

    def _record_error(self, known: WrittenLogin, spec: BundleSpec, error: RegistryError) -> None:
        """Try again later; once the token has expired, that is why the Job makes no progress."""
        now = self.context.clock()
        known.renew_at = now + timedelta(seconds=max(error.retry_after or 0.0, RETRY))
        if now >= known.expires:
            text = (
                f"its token for {spec.registry} expired at {format_time(known.expires)}, and there "
                f"is no other: {error.message}"
            )
            known.fault = Blocked(error.reason, text)

    def hinders(self, key: BundleKey, job: JobRecord) -> Blocked | None:
        """Why a Job that waits has no token that can be used; None where it has one."""
        known = self._written(key, job)
        return known.fault if known is not None and not job.started else None

    def excuse(
        self, key: BundleKey, job: JobRecord, error: str, *, is_refused: bool
    ) -> Excuse | None:
        """That its token had expired, which isn't the version's fault; else what the account lacks.

        The latter only where that is known.
        """
        known = self._written(key, job)
        if text := find_expiry(error, _expiry(known, job), job.finished):
            return Excuse(f": {text}", BundleReason.TOKEN_EXPIRED)
        if known is None or not is_refused:
            return None
        remedy = remedy_of(Credential(cloud=known.identity), known.identity.registry.host)
        return Excuse(f"; {remedy}") if remedy else None

    def secrets(self, key: BundleKey, job: JobRecord) -> Mapping[str, Sequence[bytes]]:
        """What a Job's pod may have as its login, whatever its Secret has now: for redactions.

        Raises:
            WithheldError: it isn't known.
        """
        known = self._written(key, job)
        name, was_renewed = login_secret(job.name), _is_renewed(job)
        if known is not None:
            was_renewed = not known.is_whole and (was_renewed or bool(known.contents))
        if was_renewed:
            raise WithheldError(
                f"the token in Secret {name}, which the log may contain, was renewed, and the "
                "operator has been restarted since"
            )
        return {} if known is None else {name: known.contents}

    def _identity(self, spec: BundleSpec) -> CloudIdentity | None:
        return identity_of(spec, self.context.settings)

    async def _get(self, key: BundleKey, identity: CloudIdentity) -> CloudLogin:
        """The present login of an identity.

        Raises:
            JobPendingError: it was asked for.
            RegistryError: there is none.
        """
        memory = self._memory(key)
        is_late = self.context.monotonic() > memory.ended_at + _KEPT
        if memory.task is None or memory.identity != identity or (memory.task.done() and is_late):
            memory.cancel()
            memory.identity = identity
            memory.task = asyncio.create_task(
                self.context.oci.login(identity), name=f"login for {key}"
            )
            await asyncio.wait((memory.task,), timeout=_AT_ONCE)
            if not memory.task.done():
                memory.task.add_done_callback(partial(self._handle_end, key))
        if not memory.task.done():
            raise JobPendingError
        task, memory.task = memory.task, None
        return task.result()

    def _handle_end(self, key: BundleKey, task: asyncio.Task[CloudLogin]) -> None:
        memory = self.context.memories.find(key, LoginMemory)
        if task.cancelled() or memory is None:
            return
        task.exception()  # raised where the result is taken
        memory.ended_at = self.context.monotonic()
        self.context.schedule.changed(key, Change.PREPARED)

    def _written(self, key: BundleKey, job: JobRecord) -> WrittenLogin | None:
        memory = self.context.memories.find(key, LoginMemory)
        return memory.written.get(job.name) if memory is not None else None

    def _find(self, key: BundleKey, job: JobRecord, identity: CloudIdentity) -> WrittenLogin | None:
        """What is known of a Job's login: after a restart by its annotations."""
        written = self._memory(key).written
        expires = _first_expiry(job)
        if job.name not in written and expires is not None:
            now = self.context.clock()
            created = job.created or now
            at = now if _is_renewed(job) else created + (expires - created) * 2 / 3
            written[job.name] = WrittenLogin(expires, at, identity)
        return written.get(job.name)

    async def _write(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: str,
        login: CloudLogin,
        known: WrittenLogin,
    ) -> None:
        """Write a Job's Secret; what it may have had before stays known."""
        credential, content = login.credential, docker_config(login.credential, spec.registry)
        known.contents = tuple(dict.fromkeys((*known.contents, content.encode())))
        self._memory(entry.key).written[job], known.present = known, None
        await self._seals.write_login(entry, spec, job, credential, login.expires)
        known.expires, known.renew_at = login.expires, self._renew_at(login)
        known.present, known.fault, known.failures = credential, None, 0

    def _renew_at(self, login: CloudLogin) -> datetime:
        """At two thirds of its life, however often others have it renewed."""
        now = self.context.clock()
        return now + max((login.expires - now) * 2 / 3, timedelta(seconds=RETRY))

    def _memory(self, key: BundleKey) -> LoginMemory:
        return self.context.memories.of(key, LoginMemory)

    def _cancel(self, key: BundleKey) -> None:
        if (memory := self.context.memories.find(key, LoginMemory)) is not None:
            memory.cancel()

    def _forget(self, key: BundleKey, is_removed: Callable[[str], bool]) -> None:
        """Forget the logins of Jobs whose Secrets were removed."""
        if (memory := self.context.memories.find(key, LoginMemory)) is not None:
            kept = {job: one for job, one in memory.written.items() if not is_removed(job)}
            memory.written = kept


def _is_renewed(job: JobRecord) -> bool:
    """Whether its login was written anew, so that its pod may have the former one."""
    return job.mark(names.ANN_LOGIN_RENEWED) is not None


def _first_expiry(job: JobRecord) -> datetime | None:
    """When its first token expires; None: it has none."""
    return parse_time(job.mark(names.ANN_LOGIN_EXPIRES))


def _expiry(known: WrittenLogin | None, job: JobRecord) -> datetime | None:
    """When a Job's token expires; None where it has none, or that isn't known."""
    if known is not None and known.present is not None:
        return known.expires
    return None if _is_renewed(job) else _first_expiry(job)


def find_expiry(error: str, expires: datetime | None, ended: datetime | None) -> str | None:
    """That a token of a cloud had expired when the registry refused it; None where it hadn't.

    Args:
        error: of ``find_error``.
        expires: when the Job's token expires; None: it has none, or that isn't known.
        ended: when the Job ended.
    """
    if expires is None or ended is None or ended < expires or not refuses_login(error):
        return None
    return (
        f"the token in the Job's Secret had expired at {format_time(expires)}; the next Job gets a "
        "new one. If it happens again, let the cloud's tokens live longer, or find out what makes "
        "the Job take so long"
    )


FEATURE = LoginFeature
