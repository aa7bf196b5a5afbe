"""Leader election: acquires the Lease, renews it, and stops leading in time.

Not the library's (docs/adr/0007-lease.md). Its requests have a client of their own, so that neither
a full queue of writes nor the circuit breaker delays them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from copyrator.api.seen_time import SeenTime
from copyrator.api.times import format_time
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import AlreadyExists, ApiError, ConflictError, NotFound
from copyrator.kube.leader.lease import DEFAULT_TERMS, Lease, Terms
from copyrator.kube.resources import LEASES

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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.lease = Lease(namespace, name, identity, terms)
        self._client = client
        self._terms = terms
        self._clock = clock
        self._now = now
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
        body = make(self._now())
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
