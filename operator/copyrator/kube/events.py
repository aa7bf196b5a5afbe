"""Kubernetes Events about our objects: few, bounded, and never blocking their caller.

core/v1 Events, because `kubectl describe` and the dashboards show their count and times best. An
Event's name is a hash of its content, so that a repetition raises a count, also after a restart and
from two replicas, where client-go would create a new object.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from copyrator.api.reasons import AnyReason, Reason, Severity
from copyrator.api.text import format_time
from copyrator.kube.errors import AlreadyExists, ApiError, NamespaceTerminating, NotFound
from copyrator.kube.resources import EVENTS
from copyrator.workqueue.fairness import FairQueue

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.metrics import Metrics

log = logging.getLogger(__name__)

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

EventType = Literal["Normal", "Warning"]


def event_type(reason: AnyReason) -> EventType:
    """By the severity of the reason, where the case doesn't say otherwise."""
    is_fault = isinstance(reason, Reason) and reason.severity in (
        Severity.WARNING,
        Severity.FAILURE,
    )
    return "Warning" if is_fault else "Normal"


REPEAT_SECONDS = 60.0
"""An Event's count is raised at most this often; repetitions in between are added up."""

MEMORY = 256
"""Different Events that are remembered, at 700 bytes each. One that was forgotten and is repeated
is found by its name."""

BURST = 25
REFILL_SECONDS = 12.0
"""Per object: BURST Events at once, then one per REFILL_SECONDS."""

QUEUE = 256
"""Events waiting to be written, of all namespaces, which take turns. When it is full, the last one
of the namespace with the most is dropped and counted."""

MESSAGE_LIMIT = 1024
"""The API server's limit for an Event's message."""

TERMINATING_SECONDS = 60.0
"""After a namespace has refused an Event because it is terminating: pause until the next try."""

FALLBACK_NAMESPACE = "default"
"""Namespace of the Events about cluster-scoped objects, as the API server requires."""

NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an Event is about; `namespace` is empty for cluster-scoped kinds."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any], api_version: str = "", kind: str = "") -> ObjectRef:
        """Of an object as the API returned it (in lists apiVersion and kind are left out)."""
        meta = body["metadata"]
        return cls(
            api_version or str(body.get("apiVersion", "")),
            kind or str(body.get("kind", "")),
            str(meta.get("namespace") or ""),
            str(meta["name"]),
            str(meta.get("uid") or ""),
        )


@dataclass(slots=True)
class _PendingEvent:
    """One Event and the number of its repetitions."""

    regarding: ObjectRef
    type: EventType
    reason: str
    message: str
    annotations: Mapping[str, str]
    first: datetime
    last: datetime
    count: int = 1
    written: bool = False
    queued: bool = False
    wrote_at: float = float("-inf")

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or FALLBACK_NAMESPACE

    @property
    def name(self) -> str:
        parts = self.regarding.uid, self.type, self.reason, self.message, *self.annotations.values()
        said = "\n".join(parts)
        digest = hashlib.blake2b(said.encode(), digest_size=8).hexdigest()
        return f"{self.regarding.name[:230].rstrip('.-')}.{digest}"


COMPONENT: Final = "copyrator"
"""Who reports the Events."""


class EventRecorder:
    """Accepts Events at any time and writes them in a task of its own (`run`)."""

    def __init__(
        self,
        client: KubeClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        instance: str = COMPONENT,
        metrics: Metrics | None = None,
        serves: Callable[[str], bool] = lambda _namespace: True,
    ) -> None:
        self._client = client
        self._serves = serves
        self._instance = instance
        self._clock = clock
        self._now = now
        self._metrics = metrics
        self._events: OrderedDict[tuple[ObjectRef | str, ...], _PendingEvent] = OrderedDict()
        self._buckets: OrderedDict[ObjectRef, tuple[float, float]] = OrderedDict()
        self._terminating: dict[str, float] = {}
        self._queue: FairQueue[_PendingEvent] = FairQueue(QUEUE)

    def record(
        self,
        regarding: ObjectRef,
        reason: AnyReason,
        message: str,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
        *,
        type_: EventType | None = None,
    ) -> None:
        """Record an Event about an object. Never waits, never raises.

        An equal message raises a count; a long one is truncated at a word. Without a type it is
        that of the reason.
        """
        type_ = type_ or event_type(reason)
        if len(message) > MESSAGE_LIMIT:
            end = message.rfind(" ", MESSAGE_LIMIT // 2, MESSAGE_LIMIT)
            message = f"{message[: end if end > 0 else MESSAGE_LIMIT - 1]}…"
        key = regarding, type_, reason, message, *annotations.values()
        pending = self._events.get(key)
        if pending is None:
            if not self._allowed(regarding):
                return self._drop("rate_limit")
            now = self._now()
            pending = self._events[key] = _PendingEvent(
                regarding, type_, reason, message, annotations, first=now, last=now
            )
            if len(self._events) > MEMORY:
                self._events.popitem(last=False)
        else:
            self._events.move_to_end(key)
            pending.count += 1
            pending.last = self._now()
        if not pending.queued and self._clock() - pending.wrote_at >= REPEAT_SECONDS:
            pending.queued = True
            if given_up := self._queue.put(pending.namespace, pending):
                given_up.queued = False
                self._drop("queue_full")
        return None

    async def run(self) -> None:
        """Write Events until cancelled."""
        while True:
            pending = await self._queue.get()
            await self._write(pending)
            self._queue.done()

    async def flush(self, seconds: float) -> None:
        """Wait up to `seconds` until the queued Events are written (for shutdown and tests)."""
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            log.info("Events not written before shutdown: %d", len(self._queue))

    async def _write(self, pending: _PendingEvent) -> None:
        pending.queued = False
        if not self._serves(pending.namespace):
            return self._drop("out_of_scope")
        if self._clock() < self._terminating.get(pending.namespace, float("-inf")):
            return self._drop("namespace_terminating")
        pending.wrote_at = self._clock()
        count = pending.count
        try:
            if pending.written:
                await self._raise_count(pending, count)
            else:
                await self._create(pending, count)
        except NamespaceTerminating:
            self._terminating = {
                name: until for name, until in self._terminating.items() if until > self._clock()
            }
            self._terminating[pending.namespace] = self._clock() + TERMINATING_SECONDS
            self._drop("namespace_terminating")
        except ApiError as error:
            log.debug("an Event about %s isn't written: %s", pending.regarding.name, error.reason)
            self._drop(type(error).__name__)
        except Exception as error:
            log.warning("an Event can't be written: %s", type(error).__name__)
            self._drop("internal")
        else:
            pending.written = True
            if self._metrics:
                self._metrics.events_recorded.labels(pending.type, pending.reason).inc()
        return None

    async def _create(self, pending: _PendingEvent, count: int) -> None:
        try:
            await self._client.create(EVENTS, pending.namespace, self._body(pending, count))
        except AlreadyExists:
            # An earlier process, or the other replica, has created the same Event.
            there = await self._client.get(EVENTS, pending.namespace, pending.name)
            said = int(there.get("count") or 0)
            pending.count += said
            count += said
            await self._raise_count(pending, count)

    async def _raise_count(self, pending: _PendingEvent, count: int) -> None:
        patch = {"count": count, "lastTimestamp": format_time(pending.last)}
        try:
            await self._client.patch(EVENTS, pending.namespace, pending.name, patch)
        except NotFound:
            await self._client.create(EVENTS, pending.namespace, self._body(pending, count))

    def _body(self, pending: _PendingEvent, count: int) -> dict[str, Any]:
        about = pending.regarding
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": pending.name,
                "namespace": pending.namespace,
                **({"annotations": dict(pending.annotations)} if pending.annotations else {}),
            },
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": pending.type,
            "reason": pending.reason,
            "message": pending.message,
            "count": count,
            "firstTimestamp": format_time(pending.first),
            "lastTimestamp": format_time(pending.last),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
        }

    def _allowed(self, regarding: ObjectRef) -> bool:
        """A token bucket for each object."""
        now = self._clock()
        tokens, since = self._buckets.pop(regarding, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        allowed = tokens >= 1.0
        self._buckets[regarding] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > MEMORY:
            self._buckets.popitem(last=False)
        return allowed

    def _drop(self, cause: str) -> None:
        if self._metrics:
            self._metrics.events_dropped.labels(cause).inc()
