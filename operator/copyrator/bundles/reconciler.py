"""The deploying half of the operator, as the composition root builds, starts and stops it.

Handlers call ``bundle_event``; workers call ``reconcile``; Jobs and values come from our own
watches, due polls from the scheduler. The controller has no state that it couldn't rebuild from the
API server and the registries.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import BundleKey, Key
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.bundles import cycles
from copyrator.bundles.cache import BundleCache, BundleEntry, read_entry
from copyrator.bundles.context import Clock, Context, Hasher
from copyrator.bundles.deletion import Deletions
from copyrator.bundles.deploys import Deploys
from copyrator.bundles.drift_judge import DriftJudge
from copyrator.bundles.drifts import Drifts
from copyrator.bundles.freezes import Freezes
from copyrator.bundles.gauges import publish_freezes, publish_gauges
from copyrator.bundles.health import Health
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.permission_reviews import PermissionReviews
from copyrator.bundles.plan_jobs import PlanJobs
from copyrator.bundles.plan_permissions import PlanPermissions
from copyrator.bundles.plan_queue import PlanQueue
from copyrator.bundles.plans import Plans
from copyrator.bundles.policy import verdicts
from copyrator.bundles.policy.gates import (
    Gates,
    age,
    approval,
    depends_on,
    freeze,
    promotion,
    signature,
    skip_digests,
    windows,
)
from copyrator.bundles.polls import Polls
from copyrator.bundles.previews import Previews
from copyrator.bundles.redaction import Redaction
from copyrator.bundles.references import References
from copyrator.bundles.resolutions import bring_forward
from copyrator.bundles.runs import Runs
from copyrator.bundles.seals import Seals
from copyrator.bundles.status import StaleError, StatusWriter
from copyrator.bundles.trust import TrustStore
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.workqueue.outcome import Done, Outcome, Priority, RequeueAfter

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.events import EventRecorder
    from copyrator.kube.watch.informers import InformerFactory, WatchSpec
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.oci.notifications import Push
    from copyrator.settings.config import Settings
    from copyrator.workqueue.queue import WorkQueue
    from copyrator.workqueue.scheduler import DueScheduler

log = logging.getLogger(__name__)


class BundleController:
    """Reconciles the releases of all Bundles.

    All arguments are keyword-only. ``bundles`` is an empty store that the controller fills; it is
    an argument so that others (status pages, ``why``) can read it. ``scheduler`` calls
    ``queue.add(key)`` when a key is due; ``monotonic`` is its clock. ``hasher`` may raise until the
    operator's hash key is read, so ``start`` of the copying half comes first. ``namespaces`` is the
    watch of Namespaces that the copying half has, too; its records have ``annotations``.
    ``proxies`` are the proxy variables that Jobs get. ``gates`` are those that Bundles may ask for.
    ``seen_time`` says what time an operator saw. ``reviewer`` sends access reviews of accounts,
    whose failures affect nothing else.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        reviewer: KubeClient,
        watch_pool: InformerFactory,
        namespaces: WatchSpec,
        bundles: BundleCache,
        queue: WorkQueue[Key],
        scheduler: DueScheduler[Key],
        recorder: EventRecorder,
        oci: RegistryClient,
        hasher: Hasher,
        settings: Settings,
        metrics: Metrics,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
        proxies: Mapping[str, str] | None = None,
        gates: Gates | None = None,
        seen_time: Callable[[], SeenTime] = lambda: ALL_SEEN,
    ) -> None:
        self._context = context = Context(
            client=client,
            watch_pool=watch_pool,
            bundles=bundles,
            queue=queue,
            scheduler=scheduler,
            recorder=recorder,
            oci=oci,
            hasher=hasher,
            settings=settings,
            metrics=metrics,
            clock=clock,
            monotonic=monotonic,
            proxies=proxies or {},
            seen_time=seen_time,
            gates=gates
            or Gates(
                version=(
                    skip_digests.GATE,
                    signature.gate(self._asks_signatures),
                    age.GATE,
                    promotion.GATE,
                ),
                moment=(
                    depends_on.GATE,
                    freeze.gate(self._is_frozen),
                    windows.GATE,
                    approval.GATE,
                ),
            ),
        )
        self._freezes = Freezes(context, namespaces)
        self._jobs = Jobs(context)
        self._references = References(context)
        self._trust = TrustStore(context, self._references)
        self._health = Health(context)
        self._writer = StatusWriter(context, self._health)
        self._polls = Polls(oci, self._answered, monotonic, clock, metrics)
        self._redaction = Redaction(client)
        seals = Seals(context, self._references)
        self._plan_jobs = plan_jobs = PlanJobs(
            context, self._jobs, self._references, self._redaction, seals
        )
        reviews = PermissionReviews(context, reviewer)
        self._permissions = PlanPermissions(context, reviews, seals, self._writer)
        self._plan_queue = PlanQueue(context, self._jobs)
        self._runs = Runs(
            context,
            self._jobs,
            self._references,
            self._writer,
            self._redaction,
            seals=seals,
            freezes=self._freezes,
        )
        judge = DriftJudge(context, seals)
        planning = context, plan_jobs, self._plan_queue, self._writer
        self._deploys = Deploys(
            context,
            self._references,
            self._writer,
            self._polls,
            self._runs,
            plans=Plans(*planning, seals=seals, permissions=self._permissions, judge=judge),
            drifts=Drifts(*planning, seals=seals, judge=judge),
            previews=Previews(
                *planning,
                seals=seals,
                references=self._references,
                trust=self._trust,
                polls=self._polls,
            ),
            trust=self._trust,
            freezes=self._freezes,
        )
        self._deletions = Deletions(context, self._jobs, self._writer, self._runs.ownership)

    async def start(self) -> None:
        """Begin to watch our Jobs. Await it before the queue's workers start."""
        self._jobs.start()
        self._freezes.start()
        self._trust.start()
        self._health.start()

    async def stop(self) -> None:
        """End the watches and requests in flight. The workers finish work in progress."""
        self._jobs.stop()
        self._freezes.stop()
        await self._permissions.close()
        await self._trust.stop()
        await self._health.stop()
        self._references.forget_all()
        await self._polls.close()
        await self._plan_jobs.close()
        await self._redaction.close()

    def bundle_event(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Process a Bundle from its handler; cheap, never raises."""
        try:
            self._take(body, deleted=deleted)
        except Exception as error:
            log.exception("a Bundle can't be read: %s", type(error).__name__)

    def _take(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        entry = read_entry(body, self._context.defaults)
        before = self._context.bundles.get(entry.key)
        context = self._context
        if not (context.remove(entry.key, entry.uid) if deleted else context.take(entry)):
            return
        if before is None or before.generation != entry.generation:
            self._context.memory(entry.key).changed_at = self._context.clock()
        self._context.queue.add(entry.key, Priority.URGENT if before else Priority.NORMAL)

    def publish(self) -> None:
        """Update the gauges; call it before each scrape."""
        publish_gauges(self._context, self._references.watches)
        publish_freezes(self._context, self._freezes)

    def freeze_fault(self) -> str | None:
        """Why all namespaces are frozen though nobody may have asked for it."""
        return self._freezes.fault

    def pushed(self, pushes: Sequence[Push]) -> int:
        """Poll at once for the Bundles that pushes may concern; returns their number."""
        return bring_forward(self._context, pushes)

    async def reconcile(self, key: BundleKey) -> Outcome:
        """Take a Bundle's next step; the workers' handler for Bundle keys.

        Raises:
            ApiError: the request failed; the queue retries with back-off.
            Exception: an internal error; the Bundle's status reports it; retried likewise.
        """
        try:
            with self._plan_queue.reconciling(key):
                return await self._reconcile(key)
        except ApiError:
            raise
        except Exception as error:
            await self._say_failed(key, error)
            raise

    async def _reconcile(self, key: BundleKey) -> Outcome:
        entry = self._context.bundles.get(key)
        if entry is None:
            self._forget(key)
            return Done()
        if not self._jobs.synced:
            if forbidden := self._jobs.forbidden:
                await self._say_forbidden(key, forbidden)
                # The status's former condition is written again as soon as the watch works.
                self._context.memory(key).desired = None
            return RequeueAfter(1.0, Priority.RESYNC)
        if not self._trust.ready or not (self._freezes.ready or entry.deleting):
            return RequeueAfter(1.0, Priority.RESYNC)
        self._health.follow(entry)
        try:
            if entry.deleting:
                await self._visit_deleted(entry)
            else:
                await self._visit(entry)
        except StaleError:
            return RequeueAfter(0.0)
        except Forbidden as error:
            await self._say_forbidden(key, error)
            raise
        except NotFound as error:
            if self._context.bundles.get(key) is not None:
                raise
            log.debug("%s was deleted while it was reconciled: %s", key, error)
        return Done()

    async def _say_failed(self, key: BundleKey, error: Exception) -> None:
        """An internal error at one Bundle affects that one only: its status and an Event report it.

        The queue retries with back-off; the workers log the traceback.
        """
        entry = self._context.bundles.get(key)
        if entry is None:
            return
        verdict = verdicts.failing(type(error).__name__, entry.status, deleting=entry.deleting)
        try:
            await self._writer.write(entry, entry.status, verdict, decided=False)
        except Exception as second:
            log.debug(
                "%s: the error can't be written to the status either: %s",
                key,
                type(second).__name__,
            )

    async def _say_forbidden(self, key: BundleKey, error: Forbidden) -> None:
        """Report a missing permission in the status, unless it is the one to write the status."""
        entry = self._context.bundles.get(key)
        if entry is not None:
            verdict = verdicts.forbidden(error.message, entry.status)
            with suppress(ApiError, StaleError):
                await self._writer.write(entry, entry.status, verdict)

    async def _visit(self, entry: BundleEntry) -> None:
        """A Bundle that isn't being deleted: refuse it, observe its Job, or update it."""
        entry = await self._writer.keep_soak(entry)
        spec = entry.spec
        if isinstance(spec, BundleSpec):
            spec = self._context.refusal(spec) or spec
        if isinstance(spec, InvalidSpec):
            await self._refuse(entry, BundleReason.INVALID_SPEC, str(spec))
            return
        if fault := cycles.fault(self._context.bundles, entry):
            await self._refuse(entry, BundleReason.INVALID_SPEC, fault)
            return
        if problem := self._runs.ownership.conflict(entry, spec):
            await self._refuse(entry, *problem)
            return
        entry = await self._writer.ensure_finalizer(entry)
        entry = await self._writer.note_health(entry)
        self._references.follow(entry, spec)
        entry = await self._permissions.visit(entry, spec)
        if entry.is_running:
            await self._observe(entry)
            return
        self._context.memory(entry.key).look_at = None
        await self._jobs.limit(entry, spec)
        await self._deploys.visit(entry, spec)

    async def _visit_deleted(self, entry: BundleEntry) -> None:
        """A running deploy is observed to its end first, so that its outcome is known."""
        if entry.is_running and not await self._observe(entry):
            return
        await self._deletions.visit(entry, deploy_runs=entry.is_running)

    async def _observe(self, entry: BundleEntry) -> bool:
        """Observe the recorded attempt. False: it has ended, and another reconcile follows."""
        spec = entry.spec
        if isinstance(spec, InvalidSpec):
            spec = self._context.stand_in(entry.key)
        runs = await self._runs.observe(entry, spec)
        if not runs:
            self._context.queue.add(entry.key)
        return runs

    async def _refuse(self, entry: BundleEntry, reason: BundleReason, message: str) -> None:
        """Report why the spec can't be handled; a Job of an older one is observed to its end."""
        if entry.is_running and await self._runs.has_ended(entry):
            await self._observe(entry)
            return
        invalid = reason is BundleReason.INVALID_SPEC
        status = replace(entry.status, ready=0 if invalid else entry.status.ready)
        status = replace(status, next_poll_at=None)
        await self._writer.write(entry, status, verdicts.refused(reason, message))
        self._context.memory(entry.key).desired = None
        self._context.wake_at(entry.key)

    def _asks_signatures(self, spec: BundleSpec) -> bool:
        return self._trust.concerns(spec)

    def _is_frozen(self, spec: BundleSpec) -> bool:
        return self._freezes.concerns(spec)

    def _answered(self, key: BundleKey) -> None:
        self._context.queue.add(key)

    def _forget(self, key: BundleKey) -> None:
        self._references.forget(key)
        self._health.forget(key)
        self._deploys.forget(key)
        self._permissions.forget(key)
        self._plan_queue.forget_all(key)
        self._plan_jobs.forget(key)
        self._context.forget(key)
