"""Which Jobs can write no more: each has ended or is gone, and so has each of its pods."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from copyrator.api.keys import ObjectName
from copyrator.bundles.engine.job_client import JOBS_WATCH, PODS_WATCH
from copyrator.bundles.jobs.outcome import JobRecord, PodRecord, is_over, read_job
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import JOBS, PODS
from copyrator.kube.watch.informers import InformerFactory, Registration

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

POD_SUFFIX: Final = 6
"""Characters that the name of a Job's pod has after the Job's: a dash and five."""


class JobEnds:
    """The Jobs of all Bundles, by the watches that the engine has open.

    Args:
        client: asks where these don't tell.
        informers: share them.
    """

    def __init__(self, client: KubeClient, informers: InformerFactory) -> None:
        self._client = client
        self._informers = informers
        self._jobs: Registration | None = None
        self._pods: Registration | None = None
        self._open_pods: dict[ObjectName, set[str]] = {}
        """Names of pods that haven't ended, by the Job that their names tell."""
        self._changed: Callable[[ObjectName | None], None] = lambda _: None

    def start(self, changed: Callable[[ObjectName | None], None]) -> None:
        """Join the watches.

        ``changed`` is called with each change of a Job or of its pods; with None after each list
        of a watch.
        """
        self._changed, listed = changed, partial(changed, None)
        self._jobs = self._informers.acquire(JOBS_WATCH, self._job_changed, on_synced=listed)
        self._pods = self._informers.acquire(PODS_WATCH, self._pod_changed, on_synced=listed)

    def stop(self) -> None:
        """Leave them."""
        for watch in filter(None, (self._pods, self._jobs)):
            watch.release()
        self._pods = self._jobs = None

    def is_over(self, job: ObjectName) -> bool:
        """Whether a Job has ended or is gone, and no pod of it is known that hasn't ended."""
        if self._jobs is None or not self._jobs.synced:
            return False
        record: JobRecord | None = self._jobs.store.get(job)
        return (record is None or record.is_finished) and job not in self._open_pods

    async def has_ended(self, job: ObjectName) -> bool:
        """Whether a Job is over, with each of its pods.

        They are asked for where no pods are watched, and where the watch doesn't have the Job: it
        may be silent since before that was created.

        Raises:
            ApiError: they can't be read.
        """
        if not self.is_over(job) or self._jobs is None:
            return False
        is_known = self._jobs.store.get(job) is not None
        if is_known and self._pods is not None and self._pods.synced:
            return True
        if not is_known:
            with suppress(NotFound):
                found = read_job(await self._client.get(JOBS, job.namespace, job.name))
                if found is not None and not found.is_finished:
                    return False
        selector = f"batch.kubernetes.io/job-name={job.name}"
        pages = self._client.list_pages(PODS, job.namespace, label_selector=selector)
        async with aclosing(pages):
            async for page in pages:
                if any(not is_over(pod) for pod in page.items):
                    return False
        return True

    def _job_changed(self, job: ObjectName, _old: object, _new: object) -> None:
        self._changed(job)

    def _pod_changed(self, name: ObjectName, _old: object, new: PodRecord | None) -> None:
        job = ObjectName(name.namespace, name.name[:-POD_SUFFIX])
        pods = self._open_pods.setdefault(job, set())
        if new is None or new.is_over:
            pods.discard(name.name)
        else:
            pods.add(name.name)
        if not pods:
            del self._open_pods[job]
        self._changed(job)
