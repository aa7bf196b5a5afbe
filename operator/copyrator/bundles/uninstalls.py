"""Uninstall Jobs: one at a time until one succeeds; failures are reported."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from enum import Enum, auto

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.blocked import find_blocked, missing_account
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.policy import ready_conditions
from copyrator.bundles.policy.jobs.manifest import JobKind
from copyrator.bundles.policy.jobs.uninstall import build_uninstall_job
from copyrator.bundles.policy.observation import JobRecord, ending_of
from copyrator.bundles.policy.report import log_tail
from copyrator.bundles.policy.schedule import retry_delay
from copyrator.bundles.status import StatusWriter
from copyrator.kube.errors import ApiError, NamespaceTerminating
from copyrator.kube.events import NORMAL

log = logging.getLogger(__name__)


class Progress(Enum):
    """The state of an uninstall."""

    UNDER_WAY = auto()
    DONE = auto()
    REFUSED = auto()
    """The namespace is Terminating, so that no Job can be created in it."""


class Uninstalls:
    """Uninstalls the releases of Bundles that are being deleted."""

    def __init__(self, context: Context, jobs: Jobs, writer: StatusWriter) -> None:
        self._context = context
        self._recheck = timedelta(seconds=context.timing.uninstall_recheck)
        self._jobs = jobs
        self._writer = writer

    async def visit(self, entry: BundleEntry, spec: BundleSpec) -> Progress:
        """Create the Job, wait for it, or create another one; returns the uninstall's state."""
        jobs = [job for job in self._jobs.of(entry.key, entry.uid) if job.kind is JobKind.UNINSTALL]
        jobs.sort(key=lambda job: job.attempt)
        if any(job.complete for job in jobs):
            await self._finish(entry, jobs)
            return Progress.DONE
        last = jobs[-1] if jobs else None
        if last is not None and not last.done:
            await self._wait_for(entry, spec, last)
            return Progress.UNDER_WAY
        if last is not None:
            failed = [job for job in jobs if not job.given_up]
            if not last.given_up and await self._must_wait(entry, last, len(failed)):
                return Progress.UNDER_WAY
            self._count(last)
        return await self._begin(entry, spec, (last.attempt if last else 0) + 1)

    async def _finish(self, entry: BundleEntry, jobs: Sequence[JobRecord]) -> None:
        """Report that the release is uninstalled, and set the TTL of its Jobs."""
        for job in jobs:
            await self._jobs.set_ttl(job, self._context.settings.jobs_ttl)
        self._count(next(job for job in jobs if job.complete))
        text = f"Release {entry.key.name} is uninstalled"
        self._context.record(entry, NORMAL, "Uninstalled", text)
        log.info("%s: its release is uninstalled", entry.key)

    def _count(self, job: JobRecord) -> None:
        metrics = self._context.metrics
        metrics.deploys.labels("uninstall", "succeeded" if job.complete else "failed").inc()
        if job.created is not None and job.finished is not None:
            seconds = (job.finished - job.created).total_seconds()
            metrics.deploy_seconds.labels("uninstall").observe(max(seconds, 0.0))

    async def _wait_for(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> None:
        now = self._context.clock()
        text = f"Uninstalling with Job {job.name}"
        verdict = ready_conditions.uninstalling(text)
        if job.created and now - job.created > self._recheck:
            blocked = await find_blocked(self._context.client, self._jobs, job, spec)
            if blocked is not None:
                verdict = ready_conditions.uninstall_failed(f"{text} is blocked: {blocked.message}")
                if entry.generation != job.generation:
                    await self._jobs.give_up(job)  # the edited spec may fix it
        await self._writer.write(entry, entry.status, verdict)
        self._context.schedule.requeue_at(entry.key, now + self._recheck)

    async def _must_wait(self, entry: BundleEntry, job: JobRecord, failures: int) -> bool:
        """After a failure: report it, and return whether it is too early to retry."""
        now = self._context.clock()
        due = (job.finished or job.created or now) + timedelta(
            seconds=retry_delay(self._context.timing.uninstall_retry, failures)
        )
        if now >= due:
            return False
        pods = await self._jobs.pods(job)
        ending = ending_of(job, pods)
        why = log_tail(await self._jobs.log_end(pods)) or ending.message
        verdict = ready_conditions.uninstall_failed(
            f"Uninstalling failed {ready_conditions.times(failures)}, the last time in "
            f"Job {job.name}: {why[-512:]}"
        )
        await self._writer.write(entry, entry.status, verdict)
        self._context.schedule.requeue_at(entry.key, due)
        return True

    async def _begin(self, entry: BundleEntry, spec: BundleSpec, attempt: int) -> Progress:
        again = self._context.clock() + self._recheck
        if refused := self._context.refusal(spec):
            await self._report_failed(entry, f"Uninstalling is blocked: {refused}")
            return Progress.UNDER_WAY
        if missing := await missing_account(self._context.client, spec):
            await self._report_failed(entry, f"Uninstalling is blocked: {missing}")
            self._context.schedule.requeue_at(entry.key, again)
            return Progress.UNDER_WAY
        body = build_uninstall_job(spec, entry.uid, entry.generation, attempt)
        verdict = ready_conditions.uninstalling(f"Uninstalling with Job {body['metadata']['name']}")
        entry = await self._writer.write(entry, entry.status, verdict)
        try:
            await self._jobs.create(body)
        except NamespaceTerminating:
            return Progress.REFUSED
        except ApiError as error:
            if error.transient:
                raise
            text = f"The API server rejected the uninstall Job: {error.message}"
            await self._report_failed(entry, text)
        self._context.schedule.requeue_at(entry.key, again)
        return Progress.UNDER_WAY

    async def _report_failed(self, entry: BundleEntry, text: str) -> None:
        await self._writer.write(entry, entry.status, ready_conditions.uninstall_failed(text))
