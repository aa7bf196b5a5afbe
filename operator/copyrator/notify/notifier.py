"""Tells people what happens to Bundles and rules, as ``copyrator-notifications`` asks for it.

Only the leader does. It looks at each status that is stored in the caches, so nothing waits for it.
Without the ConfigMap it has one watch, and looks at nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.keys import BundleKey, RuleKey
from copyrator.api.names import ANN_NOTIFY_TEST
from copyrator.api.reasons.notices import NoticeEvent
from copyrator.api.text import format_time
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry
from copyrator.bundles.words import load_words
from copyrator.copies.rules.rules import Rule, RuleCache
from copyrator.kube.errors import ApiError, NotFound
from copyrator.kube.events import ObjectRef
from copyrator.kube.resources import BUNDLES, CONFIGMAPS, RULES, SECRETS
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.notify import marks as stored
from copyrator.notify.config import (
    CONFIG_MAP,
    NO_CONFIG,
    Config,
    Entry,
    SecretRef,
    SubjectKind,
    read_config,
)
from copyrator.notify.lane import Lane, NotifyTiming
from copyrator.notify.marks import ToldMarks
from copyrator.notify.messages import Message, build_message, test_message
from copyrator.notify.sending import Order, SendResult, send
from copyrator.notify.transitions import (
    FAULTS,
    ObjectIdentity,
    ObjectState,
    Transition,
    bundle_state,
    rule_state,
)
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.isolated import Isolated, IsolatedError, IsolatedPool

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.events import EventRecorder
    from copyrator.metrics import Metrics

log = logging.getLogger(__name__)

_CALL_SECONDS: Final = 45.0
"""Of one message with the start of the child process; a library may wait twice."""
_CALL_CPU_SECONDS: Final = 20
_CALL_MEMORY: Final = 768 * 1024 * 1024
"""Of address space: Apprise's 190 services are loaded together."""
_CHILDREN: Final = 2
"""Of entries whose last message was sent; each holds 31 to 58 MB while it runs."""
_MOST_CHILDREN: Final = 5
"""With those whose message takes long."""
_PATIENCE: Final = 1.0
"""Seconds that a message waits for another one before it has a child process of its own."""
_LONG: Final = 3.0
"""Seconds after which a message takes long: another child process takes the place of its own."""
_START_SECONDS: Final = 5.0
"""For the watch of the ConfigMap when the operator starts."""
_MARKED: Final = 200
"""Marks that are set before those over the limit are dropped."""
_OUTCOMES: Final = ("sent", "failed", "dropped")


@dataclass(frozen=True, slots=True)
class _ConfigMap:
    """As its watch caches it."""

    resource_version: str
    data: Any
    test: str


def read_config_map(body: Mapping[str, Any]) -> _ConfigMap:
    """Decode the ConfigMap for a watch; a module's function, so that equal watches are shared."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    data = body.get("data")
    return _ConfigMap(
        str(metadata.get("resourceVersion", "")),
        data if isinstance(data, Mapping) else {},
        str(annotations.get(ANN_NOTIFY_TEST) or "")[:256],
    )


def make_isolated() -> Isolated:
    """The child process that sends messages."""
    return Isolated(cpu_seconds=_CALL_CPU_SECONDS, memory=_CALL_MEMORY, wall_seconds=_CALL_SECONDS)


@dataclass(slots=True)
class _Sight:
    """An object's state that hasn't been looked at."""

    state: ObjectState
    before: tuple[str, ...] | None
    """IDs of what held when it was seen before; None: it wasn't."""


class Notifier:
    """The entries, and what each of them is to be told.

    All arguments are keyword-only. ``client`` sends requests whose failures affect nothing else;
    its writes must fail once this replica doesn't lead. ``isolated`` makes the child processes:
    each starts with a message, and ends when it has been idle.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        informers: InformerFactory,
        bundles: BundleCache,
        rules: RuleCache,
        recorder: EventRecorder,
        metrics: Metrics,
        namespace: str,
        clock: Callable[[], datetime],
        leads: Callable[[], bool] = lambda: True,
        isolated: Callable[[], Isolated] = make_isolated,
        timing: NotifyTiming | None = None,
    ) -> None:
        self._client = client
        self._informers = informers
        self._bundles = bundles
        self._rules = rules
        self._recorder = recorder
        self._metrics = metrics
        self._namespace = namespace
        self._words = load_words()
        self._clock = clock
        self._leads = leads
        self._quick = IsolatedPool(
            isolated, _CHILDREN, _MOST_CHILDREN, patience=_PATIENCE, long=_LONG
        )
        self._slow = isolated()
        """For entries whose last message failed: a receiver that hangs for long delays no other."""
        self._failing: set[str] = set()
        self._timing = timing or NotifyTiming()
        self._watch: Registration | None = None
        self._config = NO_CONFIG
        self._read: str | None = None
        """The version of the ConfigMap that ``_config`` is of."""
        self._marks: ToldMarks | None = None
        self._lanes: dict[str, Lane] = {}
        self._sights: OrderedDict[str, _Sight] = OrderedDict()
        """By the object's uid."""
        self._seen: dict[str, tuple[str, ...]] = {}
        """IDs of what held when an object was seen last, by its uid; nothing that takes the
        collection of garbage long."""
        self._news = asyncio.Event()
        self._saving = asyncio.Lock()
        self._changes = 0
        self._saved = 0
        """The number of the last change of the marks that is written."""
        self._marks_fail = False
        """They can't be read or written: nothing is sent."""
        self._task: asyncio.Task[None] | None = None
        self._tests: set[asyncio.Task[None]] = set()
        self._search: asyncio.Task[None] | None = None
        """For objects that were deleted while no operator ran."""

    # --- start and stop -------------------------------------------------------------------------

    async def start(self) -> None:
        """Watch the ConfigMap.

        Call it when the caches are complete: of a fault that was told, whose object isn't there,
        the end is told. And before the workers write: what holds now is looked at.
        """
        synced = asyncio.Event()
        config = WatchSpec(
            resource=CONFIGMAPS,
            namespace=self._namespace,
            name=CONFIG_MAP,
            decode=read_config_map,
            reserved=True,
        )
        self._watch = self._informers.acquire(
            config, lambda *_: self._news.set(), on_synced=synced.set
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                await synced.wait()
        try:
            await self._follow()
        except Exception as error:  # the operator works without notifications
            log.exception("notifications: internal error: %s", type(error).__name__)
        self._news.set()
        self._task = asyncio.create_task(self._run(), name="notifications")

    async def stop(self) -> None:
        """End; what wasn't told is told by the next leader."""
        self._bundles.observer = None
        self._rules.observer = None
        if self._watch is not None:
            self._watch.release()
        tasks = [*self._tests, *(one for one in (self._task, self._search) if one is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in self._lanes.values():
            await lane.stop()
        await self._quick.close()
        await self._slow.close()

    async def _run(self) -> None:
        while True:
            unread = self._config.entries and self._marks is None
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.save_retry if unread else None):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._follow()
                await self._look()
            except Exception as error:
                log.exception("notifications: internal error: %s", type(error).__name__)
                await asyncio.sleep(self._timing.save_retry)
                self._news.set()

    # --- configuration --------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Read the ConfigMap and the marks, if they changed or weren't read."""
        watch = self._watch
        found = next(iter(watch.store.values()), None) if watch is not None else None
        version = None if found is None else found.resource_version
        if version != self._read:
            data = None if found is None else found.data
            self._read = version
            self._take(await asyncio.to_thread(read_config, data))
            await self._look_at_all()
            if self._search is not None:
                self._search.cancel()
                self._search = None
        if self._config.entries and self._marks is None:
            await self._read_marks()
        if self._marks is not None and self._search is None:
            search = self._find_deleted(self._marks)
            self._search = asyncio.create_task(search, name="notifications: deleted objects")
        if found is not None and found.test and self._marks is not None:
            self._begin_test(found.test)

    def _take(self, config: Config) -> None:
        """Use a configuration: end the lanes of removed entries, begin those of new ones."""
        if config.faults and config.faults != self._config.faults:
            text = "; ".join(config.faults)
            log.warning("notifications: ConfigMap %s/%s: %s", self._namespace, CONFIG_MAP, text)
            self._recorder.record(self._about, NoticeEvent.INVALID, text)
        self._config = config
        self._metrics.notification_faults.set(len(config.faults))
        names = {entry.name for entry in config.entries}
        for name in self._lanes.keys() - names:
            lane = self._lanes.pop(name)
            self._spawn(lane.stop())
            self._failing.discard(name)
            for outcome in _OUTCOMES:
                self._metrics.notifications.remove(name, outcome)
            self._metrics.notifications_failing.remove(name)
        dropped = self._metrics.notifications
        for entry in config.entries:
            if (known := self._lanes.get(entry.name)) is not None:
                known.use(entry)
                continue
            self._lanes[entry.name] = Lane(
                entry,
                send=self._send,
                told=self._told,
                on_failed=self._failed,
                on_dropped=lambda entry: dropped.labels(entry.name, "dropped").inc(),
                timing=self._timing,
            )
            for outcome in _OUTCOMES:
                self._metrics.notifications.labels(entry.name, outcome)
            self._metrics.notifications_failing.labels(entry.name).set(int(self._marks_fail))
        observing = bool(config.entries)
        self._bundles.observer = self._bundle_seen if observing else None
        self._rules.observer = self._rule_seen if observing else None
        if not observing:
            self._seen.clear()
            self._sights.clear()
        if self._marks is not None:
            self._follow_marks(self._marks)

    def _follow_marks(self, marks: ToldMarks) -> None:
        """Begin the marks of new entries; those of removed ones are kept while there are faults."""
        keep = bool(self._config.faults)
        if marks.follow(self._config.entries, format_time(self._clock()), keep=keep):
            self._spawn(self._save())

    @property
    def _about(self) -> ObjectRef:
        return ObjectRef("v1", "ConfigMap", self._namespace, CONFIG_MAP)

    # --- objects --------------------------------------------------------------------------------

    def _bundle_seen(self, entry: BundleEntry, is_there: bool = True) -> None:
        subject = ObjectIdentity(SubjectKind.BUNDLE, entry.key.namespace, entry.key.name, entry.uid)
        if not is_there:
            self._deletion_seen(subject)
            return
        deleting = entry.deleting
        self._state_seen(
            subject, lambda: bundle_state(subject, entry.status, self._words, deleting=deleting)
        )

    def _rule_seen(self, rule: Rule, is_there: bool = True) -> None:
        subject = ObjectIdentity(SubjectKind.RULE, rule.key.namespace, rule.key.name, rule.uid)
        if not is_there:
            self._deletion_seen(subject)
        elif not rule.deleting:
            self._state_seen(subject, lambda: rule_state(subject, rule.status))

    def _deletion_seen(self, subject: ObjectIdentity) -> None:
        self._seen.pop(subject.uid, None)
        self._sights[subject.uid] = _Sight(ObjectState(subject, is_deleted=True), None)
        self._news.set()

    def _state_seen(self, subject: ObjectIdentity, read: Callable[[], ObjectState]) -> None:
        """Have a state looked at; takes little time, and never raises."""
        try:
            state = read()
        except Exception as error:  # the caches' users mustn't fail by it
            log.exception("notifications: a status can't be read: %s", type(error).__name__)
            return
        waiting = self._sights.get(subject.uid)
        before = self._seen.get(subject.uid) if waiting is None else waiting.before
        self._seen[subject.uid] = tuple(one.id for one in state.holding)
        self._sights[subject.uid] = _Sight(state, before)
        self._news.set()

    async def _look_at_all(self) -> None:
        if not self._config.entries:
            return
        self._seen.clear()  # what other entries were shown: the time decides
        self._sights.clear()
        pause = TimeSlice().pause
        for entry in self._bundles:
            self._bundle_seen(entry)
            await pause()
        for rule in self._rules:
            self._rule_seen(rule)
            await pause()

    async def _find_deleted(self, marks: ToldMarks) -> None:
        """Look at the objects that were deleted while no operator ran, or an entry had a fault."""
        pause = TimeSlice().pause
        for subject in marks.open_subjects:
            found = self._found(*subject.place)
            if found is not None:
                is_gone = found.uid != subject.uid
            else:
                is_gone = await self._is_gone(subject)
            if is_gone:
                self._deletion_seen(subject)
            await pause()

    async def _is_gone(self, subject: ObjectIdentity) -> bool:
        """Whether an object that isn't cached is gone; False where it can't be read.

        It needn't be: watchNamespaces may have changed, and what can't be parsed isn't cached.
        """
        resource = BUNDLES if subject.kind is SubjectKind.BUNDLE else RULES
        while True:
            pages = self._client.list_pages(
                resource,
                subject.namespace,
                field_selector=f"metadata.name={subject.name}",
                metadata_only=True,
            )
            try:
                found = [body async for page in pages for body in page.items]
            except ApiError as error:
                if not error.transient:
                    return False
                await asyncio.sleep(self._timing.save_retry)
            else:
                return all(body["metadata"].get("uid") != subject.uid for body in found)

    async def _look(self) -> None:
        """Find what each entry is to be told, once the marks are read."""
        if self._marks is None:
            return
        pause = TimeSlice().pause
        while self._sights:
            _, sight = self._sights.popitem(last=False)
            for name, lane in self._lanes.items():
                if name in self._marks.entries:
                    for one in self._marks.untold(lane.entry, sight.state, sight.before):
                        lane.put(one)
            await pause()

    def _found(self, kind: SubjectKind, namespace: str, name: str) -> BundleEntry | Rule | None:
        if kind is SubjectKind.BUNDLE:
            return self._bundles.get(BundleKey(namespace, name))
        return self._rules.get(RuleKey(namespace, name))

    # --- messages -------------------------------------------------------------------------------

    async def _send(self, entry: Entry, transitions: list[Transition], brief: bool) -> SendResult:
        # In a thread: of 10,000 transitions it takes 0.1 s.
        message = await asyncio.to_thread(build_message, self._config, transitions, brief=brief)
        return await self._deliver(entry, message)

    async def _deliver(self, entry: Entry, message: Message) -> SendResult:
        if not self._leads():
            return SendResult("this replica doesn't lead")
        try:
            url = (await self._secret(entry.url_from)).decode().strip()
            key = None if entry.sign_with is None else await self._secret(entry.sign_with)
            source = f"/copyrator/{self._namespace}"
            ca = os.environ.get("SSL_CERT_FILE", "")
            order = Order(url, key, source, urllib.request.getproxies_environment(), ca)
            child = self._slow if entry.name in self._failing else self._quick
            answer = await child.call(send, entry.name, order, message)
        except ApiError as error:
            return SendResult(f"its Secret can't be read: {error.reason}")
        except _SecretError as error:
            return SendResult(str(error))
        except UnicodeDecodeError:
            return SendResult("its Secret isn't text")
        except IsolatedError as error:
            return SendResult(str(error))
        return answer

    async def _secret(self, ref: SecretRef) -> bytes:
        """The value of a key of a Secret; read each time, so that a rotated one is used."""
        body = await self._client.get(SECRETS, self._namespace, ref.secret_name)
        where = f"Secret {self._namespace}/{ref.secret_name}"
        raw = (body.get("data") or {}).get(ref.key)
        if not isinstance(raw, str):
            raise _SecretError(f"{where} has no key {ref.key}; add it")
        try:
            value = base64.b64decode(raw, validate=True)
        except binascii.Error:
            raise _SecretError(f"{where}: the key {ref.key} isn't valid base64") from None
        if not value.strip():
            raise _SecretError(f"{where}: the key {ref.key} is empty")
        return value

    async def _told(self, entry: Entry, transitions: list[Transition]) -> None:
        """Record that an entry was told. A fault may have ended meanwhile: it's looked at again."""
        self._metrics.notifications.labels(entry.name, "sent").inc()
        self._metrics.notifications_failing.labels(entry.name).set(0)
        self._failing.discard(entry.name)
        marks, now = self._marks, format_time(self._clock())
        if marks is None:
            return
        pause = TimeSlice().pause
        for i, one in enumerate(transitions):
            marks.mark(entry.name, one, now)
            if i % _MARKED == 0:
                marks.prune()
            await pause()
        marks.prune()
        if marks.record_result(entry.name, "sent", now):
            log.info("notifications: entry %s: messages are sent", entry.name)
        await self._save()
        for one in transitions:
            if one.about in FAULTS and not one.resolved:
                self._look_again(one.subject)
                await pause()

    def _look_again(self, subject: ObjectIdentity) -> None:
        found = self._found(*subject.place)
        if found is None or found.uid != subject.uid:
            self._deletion_seen(subject)
        elif isinstance(found, Rule):
            self._rule_seen(found)
        else:
            self._bundle_seen(found)

    def _failed(self, entry: Entry, failures: int, answer: SendResult) -> None:
        """Count a failure; the first one of several is logged, recorded and stored."""
        self._metrics.notifications.labels(entry.name, "failed").inc()
        self._metrics.notifications_failing.labels(entry.name).set(1)
        self._failing.add(entry.name)
        marks = self._marks
        differs = marks is not None and marks.record_result(
            entry.name, answer.fault, format_time(self._clock())
        )
        if failures > 1:
            return
        text = f"entry {entry.name}: a message failed and is tried again: {answer.fault}"
        log.warning("notifications: %s", text)
        self._recorder.record(self._about, NoticeEvent.FAILED, text)
        if differs:
            self._spawn(self._save())

    # --- tests ----------------------------------------------------------------------------------

    def _begin_test(self, request: str) -> None:
        """Send the test that an annotation asks for: ``NAME TIME``."""
        name, _, at = request.partition(" ")
        entry, marks = self._config.entry(name), self._marks
        known = None if marks is None else marks.entries.get(name)
        if entry is None or known is None or known.tested == request:
            return
        known.tested, known.test_result = request, ""  # it may be stored before the result is
        self._spawn(self._test(entry, request, at[:40]))

    async def _test(self, entry: Entry, request: str, at: str) -> None:
        answer = await self._deliver(entry, test_message(entry.name, at))
        outcome = "failed" if answer.fault else "sent"
        self._metrics.notifications.labels(entry.name, outcome).inc()
        known = None if self._marks is None else self._marks.entries.get(entry.name)
        if known is not None:
            known.tested, known.test_result = request, answer.fault or "sent"
            await self._save()
        lane = self._lanes.get(entry.name)
        if lane is not None and entry.name in self._failing and not answer.fault:
            lane.retry()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work, name="notifications, once")
        self._tests.add(task)
        task.add_done_callback(self._tests.discard)

    # --- marks ----------------------------------------------------------------------------------

    async def _read_marks(self) -> None:
        """Read the marks; where they can't be used they begin anew, and nothing old is told."""
        marks = ToldMarks()
        try:
            body = await self._client.get(CONFIGMAPS, self._namespace, stored.CONFIG_MAP)
            marks = ToldMarks.read(body.get("data"))
        except NotFound:
            pass
        except ApiError as error:
            self._marks_failed(f"the marks can't be read, nothing is sent: {error.message}")
            return
        except ValueError:
            log.warning("notifications: %s isn't readable; it begins anew", stored.CONFIG_MAP)
        self._marks_worked()
        self._marks = marks
        self._follow_marks(marks)
        self._news.set()

    async def _save(self) -> None:
        """Write the marks; tried until it succeeds, as long as this replica leads."""
        self._changes += 1
        version = self._changes
        async with self._saving:
            while self._marks is not None and self._saved < version and self._leads():
                saving = self._changes
                try:
                    await self._write(self._marks.to_data())
                    self._saved = saving
                    self._marks_worked()
                except ApiError as error:
                    fault = f"the marks can't be written, nothing more is sent: {error.message}"
                    self._marks_failed(fault)
                    await asyncio.sleep(self._timing.save_retry)

    def _marks_failed(self, fault: str) -> None:
        """Say it once, and have the alert show it for each entry."""
        for name in self._lanes:
            self._metrics.notifications_failing.labels(name).set(1)
        if not self._marks_fail:
            self._marks_fail = True
            log.warning("notifications: %s", fault)
            self._recorder.record(self._about, NoticeEvent.FAILED, fault)

    def _marks_worked(self) -> None:
        if self._marks_fail:
            self._marks_fail = False
            for name in self._lanes:
                self._metrics.notifications_failing.labels(name).set(int(name in self._failing))

    async def _write(self, data: Mapping[str, str]) -> None:
        try:
            await self._client.patch(CONFIGMAPS, self._namespace, stored.CONFIG_MAP, {"data": data})
        except NotFound:
            metadata = {"name": stored.CONFIG_MAP, "namespace": self._namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self._client.create(CONFIGMAPS, self._namespace, body)


class _SecretError(Exception):
    """A Secret that can't be used; the message has nothing of its values."""
