"""The operator's Jobs: their cache, their creation, the output of their pods, and their ends.

Also what Helm has stored of the releases that they deployed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from copyrator.api import names
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.text import format_time
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.step import Change
from copyrator.bundles.jobs.outcome import (
    BUNDLE_TERMINATION_MESSAGE,
    JobRecord,
    PodRecord,
    has_started,
    is_owned,
    printed_digests,
    read_job,
    read_pod,
)
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER, GRACE_OF_OTHERS, LOGIN_CONTAINER, LONG_TTL
from copyrator.bundles.jobs.revisions import Revision, read_revision
from copyrator.bundles.jobs.werf_error import has_error, strip_colours
from copyrator.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from copyrator.kube.resources import JOBS, PODS, SECRETS
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import WatchSpec

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


BUNDLE_LOG_BYTES: Final = 16 * 1024
"""Bytes of a pod's log that are read: 2 KB of it go into the status."""

BUNDLE_PODS: Final = 4
"""Pods of a Job that are read. A Job has one."""

BUNDLE_LABELLED_PODS: Final = 40
"""Pods with a Job's label that are looked through for its own: anyone may give a pod that label."""


log = logging.getLogger(__name__)

_LOG_TIMEOUT: Final = 10.0
HEALTH_SECONDS: Final = 2.0
"""Seconds between two checks whether the watch of Jobs is forbidden."""
_PODS_AT_ONCE: Final = 2
"""Concurrent reads; a pod may have 1.5 MB."""
_TAIL_LINES: Final = (80, 8, 1)
"""Numbers of lines that are requested from a log's end: fewer where the lines are too long."""


class PodReader:
    """Reads the pods of Jobs, and their logs."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def pods(self, job: JobRecord) -> list[dict[str, Any]]:
        """The pods that a Job owns, newest last: others may have its label, too."""
        found: list[dict[str, Any]] = []
        count = 0
        selector = f"batch.kubernetes.io/controller-uid={job.uid}"
        pages = self._client.list_pages(
            PODS, job.namespace, label_selector=selector, limit=_PODS_AT_ONCE
        )
        async with aclosing(pages):
            async for page in pages:
                found.extend(pod for pod in page.items if is_owned(pod, job.uid))
                count += len(page.items)
                if len(found) >= BUNDLE_PODS or count >= BUNDLE_LABELLED_PODS:
                    break
        found = found[:BUNDLE_PODS]
        return sorted(found, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))

    async def printed_digests(self, pods: list[dict[str, Any]]) -> tuple[str, ...]:
        """The digests that werf pulled, by the first lines of its log; empty without a log."""
        return printed_digests(await self.log(pods, limit_bytes=BUNDLE_LOG_BYTES))

    async def log_end(self, pods: list[dict[str, Any]]) -> str:
        """The last lines of werf's log; the termination message where the log can't be read.

        The API truncates the end of longer output, so fewer lines are requested then, unless the
        first line of werf's error would be missing.
        """
        most = BUNDLE_LOG_BYTES
        text = ""
        for lines in _TAIL_LINES:
            longer, text = text, await self.log(pods, tail_lines=lines, limit_bytes=most)
            if has_error(longer) and not has_error(text):
                text = longer
                break
            if len(text.encode()) < most:
                break
        return strip_colours(text or _termination_message(pods))

    async def log(self, pods: list[dict[str, Any]], **limits: int) -> str:
        """The log of werf's container in the newest pod; empty where it can't be read."""
        if not pods:
            return ""
        try:
            async with asyncio.timeout(_LOG_TIMEOUT):
                return await self.read_log(pods[-1], **limits)
        except (ApiError, TimeoutError) as error:
            log.debug("the log of pod %s can't be read: %s", pods[-1]["metadata"]["name"], error)
            return ""

    async def read_log(self, pod: Mapping[str, Any], **limits: int) -> str:
        """The log of werf's container.

        Raises:
            ApiError: it can't be read.
        """
        metadata = pod["metadata"]
        return await self._client.read_log(
            metadata["namespace"], metadata["name"], DEPLOY_CONTAINER, **limits
        )


RENEWED: Final = timedelta(days=1)
"""After this the deadline of a Job that is kept is moved again."""


JOBS_WATCH: Final = WatchSpec(
    resource=JOBS, label_selector=names.LABEL_JOB_KIND, decode=read_job, reserved=True
)
PODS_WATCH: Final = WatchSpec(
    resource=PODS, label_selector=names.LABEL_JOB_KIND, decode=read_pod, reserved=True
)


class JobClient:
    """All Jobs of all Bundles, from one watch, and the ends of werf in their pods, from another."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.output = PodReader(context.client)
        """What the Jobs' pods are, and print."""
        self._by_bundle: dict[BundleKey, dict[str, JobRecord]] = {}
        self._registration: Registration | None = None
        self._pods: Registration | None = None
        self._ended: dict[tuple[str, str], PodRecord] = {}
        """By namespace and the Job's uid: pods where werf ended and containers of others run."""
        self._health: asyncio.Task[None] | None = None
        self.further_changed: Callable[[BundleKey, str, bool], None] | None = None
        """Called with each change of a feature's Job: its Bundle, its name, whether it ended."""

    def start(self) -> None:
        """Open the watches. That of pods is only needed where others inject containers."""
        informers = self._context.informers
        self._registration = informers.acquire(
            JOBS_WATCH, self._changed, on_synced=self._requeue_all
        )
        self._pods = informers.acquire(PODS_WATCH, self._pod_changed)
        self._health = asyncio.create_task(self._check_health(), name="health of the Jobs' watch")

    def stop(self) -> None:
        """End the watches."""
        if self._health is not None:
            self._health.cancel()
            self._health = None
        for watch in filter(None, (self._pods, self._registration)):
            watch.release()
        self._pods = self._registration = None

    @property
    def synced(self) -> bool:
        """Whether the watch is up to date; a Job that it doesn't have is requested nevertheless."""
        return self._registration is not None and self._registration.synced

    @property
    def forbidden(self) -> Forbidden | None:
        """The missing permission because of which Jobs can't be watched; None where they can be."""
        failure = self._registration.failure if self._registration else None
        return failure if isinstance(failure, Forbidden) else None

    def of(self, key: BundleKey, uid: str) -> list[JobRecord]:
        """The Jobs of a Bundle, by its uid."""
        found = self._by_bundle.get(key, {}).values()
        return [job for job in found if job.bundle_uid == uid]

    def record_pods(self, job: JobRecord, pods: Sequence[Mapping[str, Any]]) -> None:
        """Record what a Job's pods tell, newest last: its own status may not, or not any more."""
        jobs = self._by_bundle.get(BundleKey(job.namespace, job.bundle), {})
        known = jobs.get(job.name)
        if has_started(pods) and known is not None and known.uid == job.uid:
            jobs[job.name] = replace(known, started=True)
        if pods:  # where the pods can't be watched, for want of the permission
            self._record_end(read_pod(pods[-1]))

    async def find(self, key: BundleKey, uid: str, name: str) -> JobRecord | None:
        """A Job by its name, requested where the watch doesn't have it; None where none exists."""
        known = self._by_bundle.get(key, {}).get(name)
        if known is None:
            try:
                known = read_job(await self._context.client.get(JOBS, key.namespace, name))
            except NotFound:
                return None
            known = known and known.with_end(self._ended.get((known.namespace, known.uid)))
        return known if known is not None and known.bundle_uid == uid else None

    async def create(self, body: Mapping[str, Any]) -> JobRecord | None:
        """Create a Job, or return the existing one of this name and this Bundle.

        Returns:
            None where another owner's Job has the name.
        """
        metadata = body["metadata"]
        try:
            made = await self._context.client.create(JOBS, metadata["namespace"], body)
        except AlreadyExists:
            made = await self._context.client.get(JOBS, metadata["namespace"], metadata["name"])
        record = read_job(made)
        uid = metadata["annotations"][names.ANN_BUNDLE_UID]
        return record if record is not None and record.bundle_uid == uid else None

    async def set_ttl(
        self, job: JobRecord, seconds: int | None, *, grace: int = GRACE_OF_OTHERS
    ) -> None:
        """Set the TTL of a Job whose outcome is recorded; ``seconds`` None: it is kept.

        Where containers of others keep its pod running, its deadline ends it: ``grace`` seconds
        later, or LONG_TTL after it was last kept. One that a queue has taken back would run werf
        again when it is resumed, so it is given up.
        """
        if not job.done or job.deleting:
            return
        if job.is_held and job.suspended:
            await self.give_up(job)
            return
        now = self._context.clock()
        passed = max(int((now - (job.began or job.created or now)).total_seconds()), 0)
        if seconds is None:
            if job.is_held and (job.deadline or 0) - passed < LONG_TTL - RENEWED.total_seconds():
                kept = passed + LONG_TTL
                spec: dict[str, Any] = {"activeDeadlineSeconds": kept}
                await self._change(job, replace(job, deadline=kept), spec)
            return
        spec, annotations = {"ttlSecondsAfterFinished": seconds}, {}
        if job.ended is not None and job.is_held and not (job.is_let_go or job.given_up):
            spec["activeDeadlineSeconds"] = passed + grace
            annotations = {names.ANN_WERF_ENDED: format_time(job.ended)}
        elif job.ttl == seconds:
            return
        changed = replace(job, ttl=seconds, is_let_go=job.is_let_go or bool(annotations))
        await self._change(job, changed, spec, annotations)

    async def _change(
        self,
        job: JobRecord,
        changed: JobRecord,
        spec: Mapping[str, Any],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Patch a Job that has ended."""
        marks = {"uid": job.uid, **({"annotations": annotations} if annotations else {})}
        patch = {"spec": spec, "metadata": marks}
        try:
            await self._context.client.patch(JOBS, job.namespace, job.name, patch)
        except ApiError as error:  # where it is refused, finished Jobs are kept for longer
            if error.transient:
                raise
            log.debug("Job %s/%s can't be changed: %s", job.namespace, job.name, error)
            return
        jobs = self._by_bundle.get(BundleKey(job.namespace, job.bundle), {})
        if jobs.get(job.name) == job:  # the watch may be slower than the next reconcile
            jobs[job.name] = changed

    async def give_up(self, job: JobRecord, why: str = "true") -> None:
        """Have the Job controller end a Job; an annotation has the cause.

        One that is suspended has no deadline until it is resumed, so that is done, too, without
        any pods.
        """
        if job.given_up:
            return
        marks = {"uid": job.uid, "annotations": {names.ANN_GIVEN_UP: why}}
        spec: dict[str, Any] = {"activeDeadlineSeconds": 1}
        if job.suspended:
            spec |= {"parallelism": 0, "suspend": False}
        patch = {"spec": spec, "metadata": marks}
        try:
            await self._context.client.patch(JOBS, job.namespace, job.name, patch)
        except NotFound:
            return

    async def end_further(self, key: BundleKey, uid: str, but: Collection[str | None] = ()) -> None:
        """End a Bundle's Jobs that neither deploy nor uninstall, except those named ``but``."""
        for job in self.of(key, uid):
            if job.kind.is_further and job.name not in but and not job.done:
                await self.give_up(job)

    def count(
        self, what: str, outcome: str, began: datetime | None, ended: datetime | None
    ) -> None:
        """Count the outcome of a Job, and the seconds that it took, where these are known."""
        metrics = self._context.metrics
        metrics.deploys.labels(what, outcome).inc()
        if began is not None and ended is not None:
            metrics.deploy_seconds.labels(what).observe(max((ended - began).total_seconds(), 0.0))

    def _changed(self, _name: ObjectName, old: JobRecord | None, new: JobRecord | None) -> None:
        record = new or old
        if record is None or not record.bundle:
            return
        key = BundleKey(record.namespace, record.bundle)
        jobs = self._by_bundle.setdefault(key, {})
        if new is None:
            jobs.pop(record.name, None)
            self._ended.pop((record.namespace, record.uid), None)
            if not jobs:
                del self._by_bundle[key]
        else:
            known = jobs.get(new.name)
            if known is not None and known.uid == new.uid:
                had_started = known.started and not new.suspended  # its pod is deleted then
                new = replace(new, started=new.started or had_started).with_end(known)
            new = jobs[new.name] = new.with_end(self._ended.get((new.namespace, new.uid)))
        self._report_change(record, has_ended=new is None or new.done)

    def _report_change(self, job: JobRecord, *, has_ended: bool) -> None:
        key = BundleKey(job.namespace, job.bundle)
        if job.kind.is_further and self.further_changed is not None:
            self.further_changed(key, job.name, has_ended)
        self._context.schedule.changed(key, Change.JOB)

    def _pod_changed(self, _name: ObjectName, old: PodRecord | None, new: PodRecord | None) -> None:
        if new is not None:
            self._record_end(new)
        elif old is not None:
            self._ended.pop((old.namespace, old.job_uid), None)

    def _record_end(self, pod: PodRecord) -> None:
        """Record that werf has ended in a Job's pod: from now on the Job counts as ended."""
        if pod.ended is None:
            return
        self._ended[pod.namespace, pod.job_uid] = pod
        jobs = self._by_bundle.get(BundleKey(pod.namespace, pod.bundle), {})
        for name, job in jobs.items():
            if job.uid == pod.job_uid and not job.done:
                jobs[name] = job.with_end(pod)
                self._report_change(job, has_ended=True)

    async def _check_health(self) -> None:
        """Requeue all Bundles when the watch becomes forbidden, so that they report it.

        When the watch works again, its own callback requeues them.
        """
        missing = False
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            before, missing = missing, not self.synced and self.forbidden is not None
            if missing and not before:
                self._requeue_all()

    def _requeue_all(self) -> None:
        for entry in self._context.bundles:
            self._context.schedule.changed(entry.key, Change.JOBS_LISTED)


async def is_stored(client: KubeClient, namespace: str, release: str) -> bool:
    """Whether Helm has a record of the release.

    Raises:
        ApiError: its Secrets can't be listed.
    """
    async for _ in _list_stored(client, namespace, release):
        return True
    return False


async def stored_revisions(client: KubeClient, namespace: str, release: str) -> list[Revision]:
    """The stored revisions of a release, in no order.

    Raises:
        ApiError: they can't be listed.
    """
    found = [read_revision(metadata) async for metadata in _list_stored(client, namespace, release)]
    return [revision for revision in found if revision]


async def _list_stored(
    client: KubeClient, namespace: str, release: str
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the metadata of the Secrets that Helm reads as revisions: it selects by labels only."""
    selector = f"owner=helm,name={release}"
    pages = client.list_pages(SECRETS, namespace, label_selector=selector, metadata_only=True)
    async for page in pages:
        for body in page.items:
            yield body["metadata"]


def _termination_message(pods: list[dict[str, Any]]) -> str:
    status = pods[-1].get("status") or {} if pods else {}
    for container in (
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ):
        if container.get("name") not in (DEPLOY_CONTAINER, LOGIN_CONTAINER):
            continue
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("message") and not str(ended["message"]).startswith("{"):
            return str(ended["message"])[-BUNDLE_TERMINATION_MESSAGE:]
    return ""
