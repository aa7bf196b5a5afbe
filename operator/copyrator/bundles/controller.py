"""The Bundle controller, as the composition root builds, starts and stops it.

Handlers call ``bundle_event``; workers call ``reconcile``; Jobs and values come from its own
watches, due polls from the scheduler. All of the controller's state can be rebuilt from the API
server and the registries. ``publish`` sets the gauges of all Bundles.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import PAUSES, ConditionType
from copyrator.api.keys import BundleKey, Key
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.text import parse_time
from copyrator.bundles.engine.accounts import ServiceAccountChecker
from copyrator.bundles.engine.attempt import AttemptRunner, ReleaseOwnership
from copyrator.bundles.engine.bundle import BundleCache, Memories, read_entry
from copyrator.bundles.engine.choose import PollStates, VersionResolver, bring_forward
from copyrator.bundles.engine.context import BundleTiming, Context, Hasher
from copyrator.bundles.engine.deploy import Deployer
from copyrator.bundles.engine.feature import Features, Parts
from copyrator.bundles.engine.gate import Gates
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.reconciler import BundleReconciler
from copyrator.bundles.engine.references import ReferenceReader, ReferenceWatcher
from copyrator.bundles.engine.registry import RegistryPoller
from copyrator.bundles.engine.schedule import Clock, Schedule
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.status import BundlePatcher, StatusWriter
from copyrator.bundles.engine.step import Change
from copyrator.bundles.engine.uninstall import Uninstaller
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.features import load
from copyrator.bundles.fields import bundle_reasons
from copyrator.bundles.jobs.redaction import Redactor
from copyrator.bundles.plans.planning import Planning
from copyrator.workqueue.isolated import Isolated
from copyrator.workqueue.queue import Outcome as ReconcileOutcome

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.events import EventRecorder
    from copyrator.kube.watch.informers import InformerFactory
    from copyrator.kube.watch.reflector import WatchSpec
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.oci.notifications import Push
    from copyrator.settings.config import Settings
    from copyrator.workqueue.queue import DueScheduler, WorkQueue

OPENSHIFT: Final = "security.openshift.io"
"""API group of the SCCs: those that admit Jobs reject pods that name other ids than a namespace's
range has, and give them."""


def publish_gauges(context: Context, watches: ReferenceWatcher, poll_states: PollStates) -> None:
    """Set the gauges of all Bundles, of the objects that they name, and the oldest poll's age."""
    known = bundle_reasons()  # a status can be forged, and must not add other labels
    reasons, pending = Counter[str](), Counter[str]()
    quarantined, unpolled, oldest = 0, 0, 0.0
    for entry in context.bundles:
        status = entry.status
        reason = status.ready_reason
        reasons[reason if reason in known else "Unknown"] += 1
        update = status.condition(ConditionType.UPDATE_PENDING)
        pending[(update.is_true and update.reason) or ""] += 1
        failed = status.attempted.outcome == Outcome.FAILED and reason not in PAUSES
        quarantined += failed and status.attempted.next_retry_at is None
        unpolled += bool(status.failed_polls.count) and not entry.deleting
        polled = isinstance(entry.spec, BundleSpec) and not entry.is_paused and not entry.deleting
        if polled:
            oldest = max(oldest, poll_states.unpolled_seconds(entry.key))
    gauge = context.metrics.bundles
    gauge.clear()
    for reason, count in reasons.items():
        gauge.labels(reason).set(count)
    gauge = context.metrics.updates_pending
    gauge.clear()
    for reason, count in pending.items():
        if reason in known:
            gauge.labels(reason).set(count)
    context.metrics.bundles_quarantined.set(quarantined)
    context.metrics.bundles_poll_failed.set(unpolled)
    context.metrics.oldest_poll_seconds.set(oldest)
    _publish_waits(context)
    for scope, count in watches.count().items():
        context.metrics.bundle_references.labels(scope).set(count)


def _publish_waits(context: Context) -> None:
    """Set the gauges of waiting Bundles: number by gate, longest wait.

    Suspended ones are counted by the reason of their Ready condition alone.
    """
    known = {gate.name for gate in context.gates}
    waiting: Counter[str] = Counter()
    now, longest = context.clock(), 0.0
    for entry in context.bundles:
        if not entry.status.gates or entry.status.ready_reason in PAUSES:
            continue
        names = entry.status.open_gates
        if (first := next((name for name in names if name in known), None)) is None:
            continue
        waiting[first] += 1
        if (since := _waits_since(entry.status)) is not None:
            longest = max(longest, (now - since).total_seconds())
    gauge = context.metrics.bundles_waiting
    gauge.clear()
    for name, count in waiting.items():
        gauge.labels(name).set(count)
    context.metrics.oldest_wait_seconds.set(longest)


def _waits_since(status: BundleStatus) -> datetime | None:
    found = status.condition(ConditionType.UPDATE_PENDING)
    return parse_time(found.last_transition_time) if found.is_true else None


log = logging.getLogger(__name__)


class BundleController:
    """Reconciles the releases of all Bundles.

    All arguments are keyword-only. ``bundles`` is an empty store that the controller fills; it is
    an argument so that others (status pages, ``why``) can read it. ``scheduler`` calls
    ``queue.add(key)`` when a key is due; ``monotonic`` is its clock. ``hasher`` may raise until the
    operator's hash key is read, so the rule controller has to be started first. ``namespaces`` is
    the watch of Namespaces that the rule controller shares; its records have ``annotations``.
    ``proxies`` are the proxy variables that Jobs get. ``gates`` are those that Bundles may have.
    ``seen_time`` returns the periods in which an operator ran. ``reviewer`` sends access reviews of
    accounts, whose failures affect nothing else. ``isolated`` makes the child processes in which
    untrusted input is read.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        reviewer: KubeClient,
        informers: InformerFactory,
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
        timing: BundleTiming | None = None,
        isolated: Callable[[], Isolated] = Isolated,
        proxies: Mapping[str, str] | None = None,
        gates: Gates | None = None,
        seen_time: Callable[[], SeenTime] = lambda: ALL_SEEN,
    ) -> None:
        timing, memories = timing or BundleTiming(), Memories()
        self._context = context = Context(
            client=client,
            reviewer=reviewer,
            informers=informers,
            namespaces=namespaces,
            bundles=bundles,
            memories=memories,
            schedule=Schedule(
                queue,
                scheduler,
                bundles,
                memories,
                clock=clock,
                monotonic=monotonic,
            ),
            recorder=recorder,
            oci=oci,
            hasher=hasher,
            settings=settings,
            metrics=metrics,
            clock=clock,
            monotonic=monotonic,
            timing=timing,
            proxies=proxies or {},
            seen_time=seen_time,
        )
        for one in load("metrics"):
            metrics.of(one.METRICS)  # so that they are there before anything is counted
        self._features = features = Features(
            tuple(one.FEATURE(context) for one in load("feature")), memories
        )
        context.gates = gates or features.gates
        bundles.on_change = features.changed
        self._jobs = jobs = JobClient(context)
        self._references = references = ReferenceReader(
            context, features.target, features.credential
        )
        patches = BundlePatcher(context)
        writer = StatusWriter(context, patches, features)
        self._judging = judging = isolated()
        self._polls = polls = RegistryPoller(context, self._answered)
        self._poll_states = poll_states = PollStates(context)
        resolver = VersionResolver(context, polls, poll_states, features)
        searching = isolated()
        self._redaction = redaction = Redactor(client, searching)
        seals = SealStore(context, features)
        attached = AttachedReader(oci, judging)
        shared = references, attached, jobs, seals, redaction, searching
        self._plans = plans = Planning(context, Parts(*shared, poll_states, features))
        features.connect(*shared, polls, poll_states, plans)
        ownership = ReleaseOwnership(context, jobs)
        attempts = AttemptRunner(
            context=context,
            jobs=jobs,
            references=references,
            patches=patches,
            redaction=redaction,
            seals=seals,
            features=features,
            poll_states=poll_states,
            ownership=ownership,
        )
        accounts = ServiceAccountChecker(context, poll_states)
        self._reconciler = BundleReconciler(
            context=context,
            patches=patches,
            writer=writer,
            jobs=jobs,
            features=features,
            references=references,
            seals=seals,
            accounts=accounts,
            poll_states=poll_states,
            resolver=resolver,
            deployer=Deployer(
                context=context,
                patches=patches,
                resolver=resolver,
                accounts=accounts,
                attempts=attempts,
                features=features,
            ),
            attempts=attempts,
            uninstaller=Uninstaller(
                context=context,
                jobs=jobs,
                patches=patches,
                ownership=ownership,
                references=references,
                seals=seals,
                redaction=redaction,
                features=features,
            ),
        )

    async def start(self) -> None:
        """Open the watches. Await it before the queue's workers start.

        Raises:
            ApiError: the API groups can't be listed.
        """
        served = await self._context.client.request("GET", "/apis")
        groups = {group.get("name") for group in served.get("groups") or ()}
        if OPENSHIFT in groups:
            self._context.without_ids()
        self._jobs.start()
        self._plans.start()
        for feature in self._features:
            feature.start()

    async def stop(self) -> None:
        """End the watches and requests in flight. The workers finish work in progress."""
        self._jobs.stop()
        for feature in self._features:
            await feature.stop()
        await self._plans.close()
        self._references.close()
        await self._polls.close()
        await self._judging.close()
        await self._redaction.close()

    def bundle_event(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Process an event of a Bundle from its handler; takes little time and never raises."""
        try:
            self._take(body, deleted=deleted)
        except Exception as error:
            log.exception("a Bundle can't be read: %s", type(error).__name__)

    def _take(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        entry = read_entry(body, self._context.defaults)
        before = self._context.bundles.get(entry.key)
        bundles, schedule = self._context.bundles, self._context.schedule
        if not (bundles.remove(entry.key, entry.uid) if deleted else bundles.take(entry)):
            return
        if before is None or before.generation != entry.generation:
            self._poll_states.edited(entry.key)
        schedule.changed(entry.key, Change.EDITED if before else Change.CREATED)

    def publish(self) -> None:
        """Update the gauges; call it before each scrape."""
        publish_gauges(self._context, self._references.watches, self._poll_states)
        for feature in self._features:
            feature.publish()

    @property
    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Further checks of ``/readyz`` by name; each returns what is wrong, None: nothing."""
        return dict(item for feature in self._features for item in feature.checks.items())

    def pushed(self, pushes: Sequence[Push]) -> int:
        """Poll at once for the Bundles that pushes may concern; returns their number."""
        return bring_forward(self._context, pushes)

    async def reconcile(self, key: BundleKey) -> ReconcileOutcome:
        """Take a Bundle's next step; the workers' handler for Bundle keys.

        Raises:
            ApiError: the request failed; the queue retries with back-off.
            Exception: an internal error; the Bundle's status reports it; retried likewise.
        """
        return await self._reconciler.reconcile(key)

    def _answered(self, key: BundleKey) -> None:
        self._context.schedule.changed(key, Change.ANSWER)
