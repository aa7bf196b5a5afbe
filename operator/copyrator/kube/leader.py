"""Leader election: acquires the Lease, renews it, and stops leading in time.

Not the library's (docs/adr/0007-lease.md). Its requests have a client of their own, so that neither
a full queue of writes nor the circuit breaker delays them.

``Lease`` decides and is pure: the time is an argument. As in client-go, the clocks of two machines
are never compared: a holder counts as gone when its record hasn't changed for its whole duration by
the observer's own monotonic clock. The holder's own deadline (`Terms.deadline`) is shorter and
counts from before the renewal was sent, so that at no moment two replicas both lead.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from copyrator.api import names
from copyrator.api.seen_time import SeenTime, parse_seen
from copyrator.api.text import format_micro_time, format_time, parse_time
from copyrator.kube.errors import AlreadyExists, ApiError, ConflictError, NotFound
from copyrator.kube.resources import LEASES

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


@dataclass(frozen=True, slots=True)
class Terms:
    """Durations in seconds; only tests use others than the defaults."""

    duration: int = 10
    """Other replicas may take over so long after the last renewal that they have read."""
    deadline: float = 7.0
    """The holder stops leading so long after it sent the last renewal."""
    renew: float = 2.0
    """Between two renewals."""
    answer: float = 3.0
    """Timeout of a request: a connection that hangs costs one try, not the Lease."""
    retry: float = 0.5
    """Between two tries of a renewal that failed."""
    look: float = 1.0
    """Between two reads by a standby."""


DEFAULT_TERMS = Terms()


class Lease:
    """The Lease as last read by one replica."""

    def __init__(self, namespace: str, name: str, identity: str, terms: Terms) -> None:
        self.namespace = namespace
        self.name = name
        self.identity = identity
        self.holder = ""
        """Its holder when it last existed; empty: none."""
        self.exists = False
        self.webhook: str | None = None
        """URL of our own webhook, published to the other replicas while we hold the Lease."""
        self.seen_time: SeenTime | None = None
        """The time in which a leader renewed it, as last read; None: that isn't known."""
        self._terms = terms
        self._metadata: dict[str, Any] = {"namespace": namespace, "name": name}
        self._spec: dict[str, Any] = {}
        self._changed_at = 0.0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_ours(self) -> bool:
        """Whether we were its holder when it was last read."""
        return self.holder == self.identity

    @property
    def holders_webhook(self) -> str | None:
        """URL of its holder's webhook, when it was last read."""
        annotations = self._metadata.get("annotations") or {}
        return annotations.get(names.ANN_WEBHOOK) if self.holder else None

    def seen(self, body: Mapping[str, Any] | None, now: float) -> None:
        """Record the result of a read or a write; None: there is no Lease.

        A deleted Lease is no evidence about its holder, who may still lead and create it again.
        """
        self.exists = body is not None
        if body is None:
            return
        metadata, spec = dict(body["metadata"]), dict(body.get("spec") or {})
        metadata.pop("managedFields", None)
        if spec != self._spec:  # changed metadata is no renewal
            self._changed_at = now
        self._metadata, self._spec = metadata, spec
        self.holder = str(spec.get("holderIdentity") or "")
        seen = (metadata.get("annotations") or {}).get(names.ANN_SEEN_TIME)
        self.seen_time = parse_seen(seen, parse_time(spec.get("renewTime")))

    def doubt(self, now: float) -> None:
        """Restart the count of seconds without a renewal."""
        self._changed_at = now

    def free_in(self, now: float) -> float:
        """Seconds until we may acquire it: 0 when no other replica holds it (any more)."""
        if self.is_ours or not self.holder:
            return 0.0
        duration = self._spec.get("leaseDurationSeconds") or self._terms.duration
        return max(self._changed_at + duration - now, 0.0)

    def claim(self, now: datetime) -> dict[str, Any]:
        """The object that acquires or renews it.

        Written with the resourceVersion that was read: of two candidates the first one wins.
        """
        stamp, before = format_micro_time(now), None
        if self.exists or self.is_ours:
            before = parse_time(self._spec.get("renewTime"))
        spec = {**self._spec, "holderIdentity": self.identity, "renewTime": stamp}
        spec["leaseDurationSeconds"] = self._terms.duration
        if not self.is_ours:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = int(self._spec.get("leaseTransitions") or 0) + 1
        known = self.seen_time
        seen = (known or SeenTime()).renewed_at(before if known else None, now)
        return self._object(spec, self.webhook, seen)

    def surrender(self, now: datetime) -> dict[str, Any]:
        """The object that releases it, so that another replica need not wait."""
        before = parse_time(self._spec.get("renewTime"))
        seen = self.seen_time.renewed_at(before, now) if self.seen_time else None
        return self._object(
            {**self._spec, "holderIdentity": "", "renewTime": format_micro_time(now)}, None, seen
        )

    def _object(
        self, spec: dict[str, Any], webhook: str | None, seen: SeenTime | None
    ) -> dict[str, Any]:
        metadata = self._metadata
        if not self.exists:
            metadata = {"namespace": self.namespace, "name": self.name}
        annotations = dict(metadata.get("annotations") or {})
        annotations.pop(names.ANN_WEBHOOK, None)
        if webhook is not None:
            annotations[names.ANN_WEBHOOK] = webhook
        annotations.pop(names.ANN_SEEN_TIME, None)
        if seen is not None:
            annotations[names.ANN_SEEN_TIME] = seen.format()
        if annotations or metadata.get("annotations"):
            metadata = {**metadata, "annotations": annotations}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }


@functools.cache
def default_identity() -> str:
    """An identity that no other replica has, the same for the whole life of the process.

    In a pod it is the pod's name, so that a container that restarts there renews its own Lease at
    once; elsewhere two processes may share a host.
    """
    host = socket.gethostname()
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return host
    return f"{host}-{uuid.uuid4().hex[:8]}"


log = logging.getLogger(__name__)

_NEVER = float("-inf")
_STILL = "the process was suspended"

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Monotonic seconds; on Linux they include the time in which the machine was suspended."""
    return time.clock_gettime(_CLOCK)


class Elector:
    """One replica's candidacy; ``client`` is used by it alone and closed with it.

    Attributes:
        lease: the Lease as last read.
        fault: why leading is suspended, None while it isn't.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms = DEFAULT_TERMS,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.lease = Lease(namespace, name, identity, terms)
        self._client = client
        self._terms = terms
        self._clock = clock
        self.fault: str | None = None
        self._until = _NEVER
        self._read_at = clock()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        """Whether this replica leads at this moment."""
        return self._clock() < self._until

    @property
    def pause(self) -> float:
        """Seconds until the next read."""
        free_in = self.lease.free_in(self._clock())
        return min(self._terms.look, free_in) if free_in else self._terms.look

    async def attempt(self) -> bool:
        """Read the Lease, and acquire it if no other replica holds it; return whether we lead.

        Raises:
            ApiError: it can't be read or written.
        """
        before, read_at = self.lease.holder, self._read_at
        await self._read()
        if self._clock() - read_at > self._terms.deadline:
            # Without reads there is no evidence that it wasn't renewed, and the holder may have
            # been cut off too: an outage of the API server must not change the leader.
            self.lease.doubt(self._clock())
        if self.lease.free_in(self._clock()) > 0:
            if self.lease.holder != before:
                log.info("On standby: %s leads (Lease %s)", self.lease.holder, self.lease)
            return False
        try:
            await self._write(self.lease.claim)
        except (ConflictError, AlreadyExists, NotFound) as error:
            if isinstance(error, NotFound) and not self.lease.exists:
                raise  # there is no such namespace
            return False  # another replica was first
        if self.leads:
            log.info("Leading as %s (Lease %s)", self.lease.identity, self.lease)
        return self.leads

    def keep(self, on_change: Callable[[bool], None], on_lost: Callable[[], None]) -> None:
        """Renew from now on.

        Args:
            on_change: called with False when the Lease wasn't renewed in time, and with True when
                it was renewed later without another holder meanwhile: all caches are still valid.
            on_lost: called once, when another replica holds the Lease.
        """
        self._keeper = asyncio.create_task(
            self._keep(on_change, on_lost), name="the renewal of the Lease"
        )

    async def close(self) -> None:
        """Release the Lease if we still lead; from now on no write is sent."""
        if self._keeper:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
        led, self._until = self.leads, _NEVER
        if led:
            try:
                await self._write_ours(self.lease.surrender)
            except ApiError as error:
                log.warning("The Lease %s can't be released: %s", self.lease, error)
            else:
                log.info("Released the Lease %s", self.lease)
        self._until = _NEVER
        await self._client.close()

    async def _keep(self, on_change: Callable[[bool], None], on_lost: Callable[[], None]) -> None:
        try:
            await self._renew_until_lost(on_change)
            reason = f"{self.lease.holder or 'no replica'} holds the Lease {self.lease}"
        except Exception as error:  # a bug of ours; leading without renewing would be worse
            log.exception("The renewal of the Lease %s failed", self.lease)
            reason = type(error).__name__
        self._until = _NEVER
        log.error("Leadership lost: %s", reason)
        on_lost()

    async def _renew_until_lost(self, on_change: Callable[[bool], None]) -> None:
        terms = self._terms
        pause, error = terms.renew, _STILL
        while True:
            left = self._until - self._clock()
            await asyncio.sleep(min(pause, left) if left > 0 else pause)
            if not self.leads and self.fault is None:
                self.fault = (
                    f"the Lease {self.lease} wasn't renewed for {terms.deadline:g} s ({error})"
                )
                log.error("Leadership suspended, nothing is written: %s", self.fault)
                on_change(False)
            try:
                if not await self._write_ours(self.lease.claim):
                    return
            except ApiError as failure:
                pause, error = terms.retry if self.leads else terms.look, str(failure)
                continue
            pause, error = terms.renew, _STILL
            if self.leads and self.fault is not None:
                self.fault = None
                log.info(
                    "Leading again: the Lease %s is renewed, no other replica held it", self.lease
                )
                on_change(True)

    async def _write_ours(self, make: Callable[[datetime], Mapping[str, Any]]) -> bool:
        """Write a Lease that we hold; return False when another replica holds it."""
        try:
            await self._write(make)
        except (ConflictError, AlreadyExists, NotFound):
            await self._read()
            if not self.lease.is_ours:
                return False
            await self._write(make)  # it was deleted, or its metadata changed
        return True

    async def _read(self) -> None:
        try:
            body = await self._request("GET", self.lease.name)
        except NotFound:
            body = None
        self._read_at = self._clock()
        self.lease.seen(body, self._read_at)

    async def _write(self, make: Callable[[datetime], Mapping[str, Any]]) -> None:
        sent, before = self._clock(), self.lease.seen_time
        body = make(datetime.now(UTC))
        if self.lease.exists:
            answer = await self._request("PUT", self.lease.name, body)
        else:
            answer = await self._request("POST", None, body)
        self.lease.seen(answer, self._clock())
        if self.lease.is_ours:
            self._until = sent + self._terms.deadline
            self._log_gap(before)

    def _log_gap(self, before: SeenTime | None) -> None:
        """Log a gap in the Lease's renewals: ``spec.promoteFrom`` doesn't count that time."""
        found = self.lease.seen_time
        if before is None or found is None or found.gaps == before.gaps or not found.gaps:
            return
        gap = found.gaps[-1]
        log.info(
            "No replica renewed the Lease from %s to %s: this time doesn't count for "
            "spec.promoteFrom of Bundles",
            format_time(gap.start),
            format_time(gap.end),
        )

    async def _request(self, method: str, name: str | None, body: Any = None) -> dict[str, Any]:
        left = self._until - self._clock()
        answer: dict[str, Any] = await self._client.request(
            method,
            LEASES.path(self.lease.namespace, name),
            body=body,
            timeout=min(self._terms.answer, left) if left > 0 else self._terms.answer,
        )
        return answer
