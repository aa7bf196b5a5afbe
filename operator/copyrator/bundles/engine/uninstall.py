"""Uninstalls the releases of Bundles that are being deleted, or reports that they are kept.

By Jobs, one at a time until one succeeds; failures are reported. Then the finalizer is removed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from copyrator.api import names, structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import ReadyCondition
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import format_duration, format_time, times
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.accounts import find_blocked, missing_account
from copyrator.bundles.engine.attempt import ReleaseOwnership
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.job_client import JobClient, is_stored
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader, TargetAccess
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.status import BundlePatcher
from copyrator.bundles.engine.step import Step
from copyrator.bundles.jobs.job import UNINSTALL_DEADLINE, UninstallOrder, build_uninstall_job
from copyrator.bundles.jobs.outcome import (
    Ending,
    JobRecord,
    add_cause,
    add_missing_permissions,
    ending_of,
    exit_code,
    secrets_of,
)
from copyrator.bundles.jobs.pod import LONG_TTL, JobKind
from copyrator.bundles.jobs.redaction import Redactor, WithheldError
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.werf_error import find_error, remove_template_text
from copyrator.kube.errors import ApiError, Forbidden, NamespaceTerminating, NotFound
from copyrator.kube.events import ObjectRef
from copyrator.kube.resources import NAMESPACES

log = logging.getLogger(__name__)

_DRIVER: Final = "HELM_DRIVER"
"""Variable of ``spec.env`` by which Helm stores releases elsewhere than in Secrets."""


@dataclass(slots=True)
class UninstallMemory:
    """What was done of a Bundle's deletion."""

    finished: str = ""
    """The uid of the Bundle whose finalizer was removed, so that it is removed once."""


@dataclass(eq=False, kw_only=True)
class Uninstaller:
    """Reconciles Bundles with a deletionTimestamp."""

    context: Context
    jobs: JobClient
    patches: BundlePatcher
    ownership: ReleaseOwnership
    references: ReferenceReader
    seals: SealStore
    redaction: Redactor
    features: Features

    @property
    def _recheck(self) -> timedelta:
        return timedelta(seconds=self.context.timing.uninstall_recheck)

    async def uninstall(self, entry: BundleEntry) -> Step:
        """Take the next step towards removing the finalizer."""
        memory = self.context.memories.find(entry.key, UninstallMemory)
        held = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF} & set(entry.finalizers)
        if not held or (memory is not None and memory.finished == entry.uid):
            return Step(entry)
        if any(job.kind.is_further for job in self.jobs.of(entry.key, entry.uid)):
            spared = [one.spares(entry) for one in self.features.offering(Feature.spares)]
            await self.jobs.end_further(entry.key, entry.uid, spared)
        if cause := await self._skip_cause(entry):
            self._orphan(entry, cause)
            return await self._remove_finalizer(entry)
        running = (job.kind for job in self.jobs.of(entry.key, entry.uid) if not job.done)
        if entry.status.attempted.is_running or JobKind.DEPLOY in running:
            text = "A deploy is running; the deletion continues when it has ended"
            return Step(entry, entry.status, ready_conditions.uninstalling(text))
        if await self._has_nothing_to_uninstall(entry):
            return await self._remove_finalizer(entry)
        return await self._run_job(entry, self._uninstallable(entry))

    async def _remove_finalizer(self, entry: BundleEntry) -> Step:
        """Remove the finalizer, once: the cached Bundle has it until the event of its deletion."""
        spec = self._uninstallable(entry)
        for one in self.features.known_to(spec, entry.status, Feature.release):
            await one.release(entry, spec)
        await self.patches.remove_finalizer(entry)
        self.context.memories.of(entry.key, UninstallMemory).finished = entry.uid
        return Step(entry)

    async def _skip_cause(self, entry: BundleEntry) -> str:
        """Why its release isn't uninstalled, whatever the spec says; empty: it is."""
        if entry.annotations.get(names.ANN_FORCE_DELETE) == "true":
            return "force-delete"
        try:
            body = await self.context.client.get(NAMESPACES, None, entry.key.namespace)
        except NotFound:
            return "namespace-terminating"
        return "namespace-terminating" if "deletionTimestamp" in body["metadata"] else ""

    async def _has_nothing_to_uninstall(self, entry: BundleEntry) -> bool:
        """Whether there is no release to uninstall, or it is to be kept."""
        if not _has_release(entry.status):
            return True
        if entry.orphans:
            self._orphan(entry, "policy")
            return True
        spec = self._uninstallable(entry)
        release = spec.release_key._replace(server=_server_of(entry.status) or "")
        owner = self.context.bundles.owner(release)
        if owner is not None and owner.key != entry.key and owner.holds(release):
            if self.ownership.uninstalls(entry):
                return False  # its Job began while it owned the release; the new owner waits for it
            text = (
                f"Release {release} isn't uninstalled: it belongs to Bundle "
                f"{owner.key.namespace}/{owner.key.name}"
            )
            self.context.record(entry, BundleEvent.RELEASE_KEPT, text)
            return True
        return not entry.status.has_deployed and await self._is_never_installed(entry)

    async def _is_never_installed(self, entry: BundleEntry) -> bool:
        """Whether all attempts failed before Helm stored a release.

        Then no uninstall Job is needed, which might be unable to start for the same cause.
        """
        spec = self._uninstallable(entry)
        if _server_of(entry.status) is not None:
            return False  # the operator has no access there
        if isinstance(entry.spec, BundleSpec) and _DRIVER in entry.spec.env:
            return False  # of a gated Bundle too, which may have had no gate when it deployed
        client = self.context.client
        try:
            return not await is_stored(client, spec.project_namespace, spec.release)
        except Forbidden:  # bundles.allowedSecrets of the chart
            return False

    def _orphan(self, entry: BundleEntry, cause: str) -> None:
        """Report a release that isn't uninstalled: log, metric and an Event on the namespace."""
        if not _has_release(entry.status):
            return
        release = self._uninstallable(entry).release_key
        release = release._replace(server=_server_of(entry.status) or "")
        text = (
            f"Release {release} of Bundle {entry.key.namespace}/{entry.key.name} is orphaned "
            f"({cause}): the operator doesn't uninstall it"
        )
        log.warning("%s: %s", entry.key, text)
        self.context.metrics.orphaned_releases.labels(cause).inc()
        namespace = ObjectRef("v1", "Namespace", "", entry.key.namespace)
        self.context.recorder.record(namespace, BundleEvent.RELEASE_ORPHANED, text)

    def _uninstallable(self, entry: BundleEntry) -> BundleSpec:
        """The spec for the uninstall, with the release's namespace by the status.

        What was deployed before spec.kubeConfig was set is in the operator's own cluster.
        """
        spec = self.context.spec_of(entry)
        if _server_of(entry.status) is None:
            spec = spec.in_own_cluster()
        where = entry.status.deployed.namespace or entry.status.attempted.namespace
        return structs.replace(spec, project_namespace=where) if where else spec

    # --- the Jobs ---------------------------------------------------------------------------------

    async def _run_job(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Create the Job, wait for it, create another one, or finish."""
        jobs = [job for job in self.jobs.of(entry.key, entry.uid) if job.kind is JobKind.UNINSTALL]
        jobs.sort(key=lambda job: job.attempt)
        if (done := next((job for job in jobs if job.complete), None)) is not None:
            return await self._finish(entry, jobs, done)
        last = jobs[-1] if jobs else None
        if last is not None and not last.done:
            return await self._wait_for(entry, spec, last)
        if last is not None:
            pods = [] if last.given_up else await self.jobs.output.pods(last)
            # Containers of others run on, or have failed.
            if last.succeeded or exit_code(pods) == 0:
                return await self._finish(entry, jobs, last)
            failures = sum(not job.given_up for job in jobs)
            if not last.given_up and (
                wait := await self._find_wait(entry, spec, last, pods, failures)
            ):
                await self.jobs.set_ttl(last, None)  # its pod tells why until the next attempt
                return wait
            self.jobs.count("uninstall", "failed", last.created, last.finished)
            await self.jobs.set_ttl(last, LONG_TTL)
        return await self._begin(entry, spec, (last.attempt if last else 0) + 1)

    async def _finish(self, entry: BundleEntry, jobs: Sequence[JobRecord], done: JobRecord) -> Step:
        """Report that the release is uninstalled, and set the TTL of its Jobs."""
        for job in jobs:
            await self.jobs.set_ttl(job, self.context.settings.jobs_ttl)
        self.jobs.count("uninstall", "succeeded", done.created, done.finished)
        text = f"Release {entry.key.name} is uninstalled"
        self.context.record(entry, BundleEvent.UNINSTALLED, text)
        log.info("%s: its release is uninstalled", entry.key)
        return await self._remove_finalizer(entry)

    async def _wait_for(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> Step:
        now = self.context.clock()
        text = f"Uninstalling with Job {job.name}"
        verdict = _running(job.name)
        if spec.is_remote and not job.started:
            with suppress(MissingReferenceError):  # the Job may have its copy already
                access = (await self._access(entry, spec)).kubeconfig
                if access is not None:
                    await self.seals.write_kubeconfig(entry, job.name, access, job)
        if job.suspended:
            text = f"{text}, {ready_conditions.SUSPENDED}"
            if entry.generation != job.generation:
                await self.jobs.give_up(job)
            return Step(entry, entry.status, ready_conditions.uninstalling(text))
        began = job.began or job.created
        if began and now - began > self._recheck:
            blocked = await find_blocked(self.context.client, self.jobs, job, spec)
            if blocked is not None:
                verdict = ready_conditions.uninstall_failed(f"{text} is blocked: {blocked.message}")
                if entry.generation != job.generation:
                    await self.jobs.give_up(job)  # the edited spec may fix it
        return Step(entry, entry.status, verdict, due=(now + self._recheck,))

    async def _find_wait(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        failures: int,
    ) -> Step | None:
        """After a failure: report it where it is too early to retry."""
        now = self.context.clock()
        due = (job.finished or job.created or now) + timedelta(
            seconds=retry_delay(self.context.timing.uninstall_retry, failures)
        )
        if now >= due:
            return None
        log_end = await self.jobs.output.log_end(pods)
        account: ServiceAccount | None = ServiceAccount.of(spec)
        if spec.is_remote:
            pods, log_end, account = *await self._redacted(job, pods, log_end), None
        ending = ending_of_uninstall(job, pods, log_end, account)
        verdict = ready_conditions.uninstall_failed(
            f"Uninstalling failed {times(failures)}, the last time in "
            f"Job {job.name}: {ending.message}. Next attempt at {format_time(due)}"
        )
        attempted = structs.replace(entry.status.attempted, missing=ending.missing)
        return Step(entry, structs.replace(entry.status, attempted=attempted), verdict, due=(due,))

    async def _redacted(
        self, job: JobRecord, pods: list[dict[str, Any]], log_end: str
    ) -> tuple[list[dict[str, Any]], str]:
        """Messages of pods and the log without the credential of another cluster.

        Its API server may send that back in an error.
        """
        ends = [
            (one.get("state") or {}).get("terminated") or {}
            for pod in pods
            for one in (pod.get("status") or {}).get("containerStatuses") or ()
        ]
        texts = [log_end, *(str(end.get("message") or "") for end in ends)]
        try:
            texts = await self.redaction.redacted(job.namespace, secrets_of(pods), texts)
        except WithheldError as error:
            texts = [error.in_place_of_log(job.namespace, job.name)] * len(texts)
        for end, text in zip(ends, texts[1:], strict=True):
            end["message"] = text
        return pods, texts[0]

    async def _begin(self, entry: BundleEntry, spec: BundleSpec, attempt: int) -> Step:
        again = self.context.clock() + self._recheck
        if refused := self.context.refusal(spec):
            verdict = ready_conditions.uninstall_failed(f"Uninstalling is blocked: {refused}")
            return Step(entry, entry.status, verdict)
        if missing := await missing_account(self.context.client, spec):
            verdict = ready_conditions.uninstall_failed(f"Uninstalling is blocked: {missing}")
            return Step(entry, entry.status, verdict, due=(again,))
        try:
            target = await self._access(entry, spec)
        except MissingReferenceError as error:
            verdict = ready_conditions.uninstall_failed(f"Uninstalling is blocked: {error}")
            return Step(entry, entry.status, verdict, due=(again,))
        order = UninstallOrder(
            spec=target.spec, uid=entry.uid, generation=entry.generation, attempt=attempt
        )
        for one in self.features.known_to(target.spec, entry.status, Feature.uninstall):
            shaped = await one.uninstall(entry, target.spec, order)
            if isinstance(shaped, Step):
                return shaped
            order = shaped
        if target.kubeconfig is not None:
            sealed = self.seals.sealed_kubeconfig(entry, order.job, target.kubeconfig)
            order = replace(order, kubeconfig=sealed)
        body = build_uninstall_job(order)
        create = partial(self._create_job, body, target)
        return Step(entry, entry.status, _running(order.job), effect=create, due=(again,))

    async def _access(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The access to the cluster that the release was deployed to.

        Raises:
            MissingReferenceError: the spec has none.
        """
        server = _server_of(entry.status)
        if server is not None and not spec.is_remote:
            what = "the Bundle has no spec.kubeConfig: name the Secret with its kubeconfig again"
            if isinstance(entry.spec, InvalidSpec):
                what = f"the spec isn't valid: {entry.spec}"
            raise MissingReferenceError(f"the release is in the cluster of {server}, and {what}")
        target = await self.references.in_cluster(entry, spec)
        if target.spec.server != (server or ""):
            raise MissingReferenceError(
                f"the release is in the cluster of {server}, and spec.kubeConfig now stands for "
                f"{target.spec.server}: put the former kubeconfig back"
            )
        return target

    async def _create_job(
        self, body: dict[str, Any], target: TargetAccess, entry: BundleEntry
    ) -> Step:
        try:
            job = await self.jobs.create(body)
            if job is not None and target.kubeconfig is not None:
                # The Job waits for it, and owns it, so that none is left without.
                await self.seals.write_kubeconfig(entry, job.name, target.kubeconfig, job)
        except NamespaceTerminating:
            self._orphan(entry, "namespace-terminating")
            return await self._remove_finalizer(entry)
        except ApiError as error:
            if error.transient:
                raise
            text = f"The API server rejected the uninstall Job: {error.message}"
            return Step(entry, entry.status, ready_conditions.uninstall_failed(text))
        return Step(entry)


def _server_of(status: BundleStatus) -> str | None:
    """The API server of the release; None: the operator's own."""
    there = status.deployed if status.has_deployed else status.attempted
    return there.server


def _running(job: str) -> ReadyCondition:
    """Ready where a Job uninstalls; equal as long as it does."""
    longest = format_duration(UNINSTALL_DEADLINE)
    return ready_conditions.uninstalling(
        f"Uninstalling with Job {job}; it is ended after {longest}"
    )


def ending_of_uninstall(
    job: JobRecord,
    pods: Sequence[Mapping[str, Any]],
    log_end: str,
    account: ServiceAccount | None,
) -> Ending:
    """Why an uninstall's Job failed, and the permissions that werf names as missing.

    Args:
        job: one that failed.
        pods: its pods, newest last; a Job's deadline deletes them.
        log_end: the end of the newest one's log.
        account: of the Job; None in another cluster.
    """
    ending, log_end = ending_of(job, pods), remove_template_text(find_error(log_end))
    ending = replace(ending, message=remove_template_text(ending.message))
    is_werfs = ending.reason in (BundleReason.TIMED_OUT, BundleReason.DEPLOY_FAILED)
    if job.failed == "DeadlineExceeded" and is_werfs:
        text = f"it was ended by its deadline, {format_duration(UNINSTALL_DEADLINE)} for each"
        return Ending(Outcome.INTERRUPTED, BundleReason.TIMED_OUT, f"{text} uninstall. {_HELD}")
    ending = add_missing_permissions(ending, log_end, account)
    if ending.is_raw or not ending.missing:
        ending = add_cause(ending, log_end)
    if _NOT_DELETED.search(ending.message):
        return replace(ending, message=f"{ending.message}. {_HELD}")
    if _MAY_NOT_DELETE in ending.message:
        why = "the service account may lack the permission to delete objects of the release"
        return replace(ending, message=f"{ending.message}: {why}")
    return ending


_NOT_DELETED: Final = re.compile(
    r'poll resource "[^"]{1,400}": (?:timed out|context deadline exceeded)|action timed out after'
)
"""werf 3's words (kubedog, ``dynamic_absence_tracker.go``; nelm, ``release_uninstall.go``)."""
_HELD: Final = (
    "An object of the release may have a finalizer that nothing removes, or the service account "
    "may not list and watch its kind"
)
_MAY_NOT_DELETE: Final = "failed to delete release:"
"""werf 2's words where the service account may not delete an object: which isn't said."""


def _has_release(status: BundleStatus) -> bool:
    """Whether a release may exist: an attempt was made, or the original operator deployed."""
    return bool(status.attempted.attempt or status.has_deployed)
