"""A Bundle that is being deleted: uninstall its release, or let it go and say what stays behind."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec, DeletionPolicy
from copyrator.api.bundle_status import Outcome
from copyrator.api.fields import InvalidSpec
from copyrator.bundles import verdicts
from copyrator.bundles.job import JobKind, build_uninstall_job
from copyrator.bundles.observation import JobRecord, blocked_by, ending_of
from copyrator.bundles.schedule import retry_delay
from copyrator.kube.errors import ApiError, NamespaceTerminating, NotFound
from copyrator.kube.events import NORMAL, WARNING, ObjectRef
from copyrator.kube.resources import NAMESPACES, SERVICEACCOUNTS
from copyrator.reconcile.bundle_context import Context
from copyrator.reconcile.bundle_jobs import Jobs
from copyrator.reconcile.bundle_status import StatusWriter
from copyrator.registry.bundles import BundleEntry

log = logging.getLogger(__name__)

_FIRST_RETRY: Final = 10.0
_LOOK_AGAIN: Final = 15.0


class Deletions:
    """The visit to a Bundle that has a deletionTimestamp."""

    def __init__(self, context: Context, jobs: Jobs, writer: StatusWriter) -> None:
        self._context = context
        self._jobs = jobs
        self._writer = writer

    async def visit(self, entry: BundleEntry, *, deploy_runs: bool) -> None:
        """Do what is next on the way to letting the Bundle go."""
        if not {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF} & set(entry.finalizers):
            return
        if await self._is_free(entry):
            await self._writer.let_go(entry)
            return
        if deploy_runs or self._deploy_runs(entry):
            text = "A deploy still runs; the release is uninstalled when it has ended"
            await self._writer.write(entry, entry.status, verdicts.uninstalling(text))
            return
        await self._uninstall(entry, self._uninstallable(entry))

    async def _is_free(self, entry: BundleEntry) -> bool:
        """Tell whether there is nothing to uninstall, or nobody wants or can do it."""
        if entry.annotations.get(names.ANN_FORCE_DELETE) == "true":
            return self._orphan(entry, "force-delete")
        if not entry.has_release:
            return True
        if isinstance(entry.spec, BundleSpec):
            if entry.spec.deletion_policy is DeletionPolicy.ORPHAN:
                return self._orphan(entry, "policy")
            owner = self._context.bundles.sharing_release(entry)[0]
            if owner.key != entry.key and not entry.status.deployed.digest:
                return True
        if await self._is_namespace_going(entry.key.namespace):
            return self._orphan(entry, "namespace-terminating")
        return False

    async def _is_namespace_going(self, namespace: str) -> bool:
        try:
            body = await self._context.client.get(NAMESPACES, None, namespace)
        except NotFound:
            return True
        return "deletionTimestamp" in body["metadata"]

    def _orphan(self, entry: BundleEntry, cause: str) -> bool:
        """Let go of a release without uninstalling it, and say so where somebody may look."""
        if not entry.has_release:
            return True
        spec = self._uninstallable(entry)
        text = (
            f"Release {spec.project_namespace}/{spec.release} of Bundle {entry.key.namespace}/"
            f"{entry.key.name} stays behind ({cause}): nothing uninstalls it any more"
        )
        log.warning("%s: %s", entry.key, text)
        self._context.metrics.orphaned_releases.labels(cause).inc()
        namespace = ObjectRef("v1", "Namespace", "", entry.key.namespace)
        self._context.recorder.record(namespace, WARNING, "ReleaseOrphaned", text)
        return True

    def _deploy_runs(self, entry: BundleEntry) -> bool:
        jobs = self._jobs.of(entry.key, entry.uid)
        return any(job.kind is JobKind.DEPLOY and not job.done for job in jobs)

    async def _uninstall(self, entry: BundleEntry, spec: BundleSpec) -> None:
        jobs = [job for job in self._jobs.of(entry.key, entry.uid) if job.kind is JobKind.UNINSTALL]
        jobs.sort(key=lambda job: job.attempt)
        if any(job.complete for job in jobs):
            await self._finish(entry, jobs)
            return
        last = jobs[-1] if jobs else None
        if last is not None and not last.done:
            await self._wait_for(entry, last)
            return
        if last is not None:
            if await self._must_wait(entry, last, len(jobs)):
                return
            self._count(last)
        await self._begin(entry, spec, (last.attempt if last else 0) + 1)

    async def _finish(self, entry: BundleEntry, jobs: list[JobRecord]) -> None:
        """The release is gone: let the Jobs go in time, and the Bundle now."""
        for job in jobs:
            await self._jobs.cut_ttl(job, self._context.settings.jobs_ttl)
        self._count(next(job for job in jobs if job.complete))
        reference = ObjectRef(
            names.BUNDLE_API_VERSION,
            names.BUNDLE_KIND,
            entry.key.namespace,
            entry.key.name,
            entry.uid,
        )
        self._context.recorder.record(
            reference, NORMAL, "Uninstalled", f"Release {entry.key.name} is uninstalled"
        )
        log.info("%s: its release is uninstalled", entry.key)
        await self._writer.let_go(entry)

    def _count(self, job: JobRecord) -> None:
        metrics = self._context.metrics
        metrics.deploys.labels("uninstall", "succeeded" if job.complete else "failed").inc()
        if job.created is not None and job.finished is not None:
            seconds = (job.finished - job.created).total_seconds()
            metrics.deploy_seconds.labels("uninstall").observe(max(seconds, 0.0))

    async def _wait_for(self, entry: BundleEntry, job: JobRecord) -> None:
        now = self._context.clock()
        text = f"Uninstalling by Job {job.name}"
        verdict = verdicts.uninstalling(text)
        if job.created and now - job.created > timedelta(seconds=_LOOK_AGAIN):
            blocked = blocked_by(await self._jobs.pods(job))
            if blocked is not None:
                verdict = verdicts.uninstall_failed(f"{text} waits: {blocked.message}")
        await self._writer.write(entry, entry.status, verdict)
        self._context.wake_at(entry.key, now + timedelta(seconds=_LOOK_AGAIN))

    async def _must_wait(self, entry: BundleEntry, job: JobRecord, failures: int) -> bool:
        """After a failure: say what went wrong, and tell whether it is too early to try again."""
        now = self._context.clock()
        due = (job.finished or job.created or now) + timedelta(
            seconds=retry_delay(_FIRST_RETRY, failures)
        )
        if now >= due:
            return False
        pods = await self._jobs.pods(job)
        ending = ending_of(job, pods)
        why = await self._jobs.log_tail(pods) or ending.message
        verdict = verdicts.uninstall_failed(
            f"Uninstalling failed {failures} times, the last time by Job {job.name}: {why[-512:]}"
        )
        await self._writer.write(entry, entry.status, verdict)
        self._context.wake_at(entry.key, due)
        return True

    async def _begin(self, entry: BundleEntry, spec: BundleSpec, attempt: int) -> None:
        body = build_uninstall_job(spec, entry.uid, attempt)
        name = body["metadata"]["name"]
        again = self._context.clock() + timedelta(seconds=_LOOK_AGAIN)
        if not await self._has_account(spec):
            text = (
                f"Uninstalling waits for ServiceAccount {spec.namespace}/{spec.service_account}, "
                "which doesn't exist; make it"
            )
            await self._writer.write(entry, entry.status, verdicts.uninstall_failed(text))
            self._context.wake_at(entry.key, again)
            return
        verdict = verdicts.uninstalling(f"Uninstalling by Job {name}")
        entry = await self._writer.write(entry, entry.status, verdict)
        try:
            await self._jobs.create(body)
        except NamespaceTerminating:
            self._orphan(entry, "namespace-terminating")
            await self._writer.let_go(entry)
            return
        except ApiError as error:
            if error.transient:
                raise
            text = f"The API server refuses the Job that would uninstall: {error.message}"
            await self._writer.write(entry, entry.status, verdicts.uninstall_failed(text))
        self._context.wake_at(entry.key, again)

    async def _has_account(self, spec: BundleSpec) -> bool:
        try:
            await self._context.client.get(SERVICEACCOUNTS, spec.namespace, spec.service_account)
        except NotFound:
            return False
        return True

    def _uninstallable(self, entry: BundleEntry) -> BundleSpec:
        """The spec to uninstall by: where the release really is, even if the spec is broken now."""
        deployed = entry.status.deployed.namespace
        if isinstance(entry.spec, InvalidSpec):
            defaults = self._context.defaults
            return BundleSpec(
                namespace=entry.key.namespace,
                name=entry.key.name,
                registry="",
                repo="",
                project_namespace=deployed or entry.key.namespace,
                service_account=defaults.service_account,
                werf_image=f"{defaults.werf_image}:{defaults.werf_version}",
            )
        return replace(entry.spec, project_namespace=deployed) if deployed else entry.spec


def is_running(entry: BundleEntry) -> bool:
    """An attempt is on record that has no outcome yet."""
    return entry.status.attempted.outcome == Outcome.RUNNING
