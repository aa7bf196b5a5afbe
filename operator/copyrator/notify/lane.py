"""What waits to be told to one entry, and the task that sends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from copyrator.notify.config import Entry
from copyrator.notify.sending import SendResult
from copyrator.notify.transitions import Transition, slot_of

NOTIFICATIONS_WAITING: Final = 10_000  # limit: notifications
"""Transitions that wait to be told to one entry; beyond it the oldest are dropped, and counted."""


@dataclass(frozen=True, slots=True)
class NotifyTiming:
    """Seconds."""

    settle: float = 2.0
    """After the first of several transitions, before they are one message."""
    retries: tuple[float, ...] = (5.0, 60.0, 120.0, 300.0, 600.0)
    """Pauses after failures in a row; the last one is repeated."""
    save_retry: float = 10.0
    """After marks couldn't be written."""


Send = Callable[[Entry, list[Transition]], Awaitable[SendResult]]
"""Sends one message."""
Told = Callable[[Entry, list[Transition]], Awaitable[None]]
"""Records that they were told."""


class Lane:
    """One entry's queue: of each object and kind of transition the newest one.

    Args:
        entry: it may be replaced by another one of its name.
        send: returns the outcome.
        told: is awaited before the next message is sent.
        on_failed: is called with the number of failures in a row, and the answer.
        on_dropped: is called for each transition over the limit.
        timing: the pauses.
    """

    def __init__(
        self,
        entry: Entry,
        *,
        send: Send,
        told: Told,
        on_failed: Callable[[Entry, int, SendResult], None],
        on_dropped: Callable[[Entry], None],
        timing: NotifyTiming,
    ) -> None:
        self.entry = entry
        self._send = send
        self._told = told
        self._on_failed = on_failed
        self._on_dropped = on_dropped
        self._timing = timing
        self._pending: dict[str, Transition] = {}
        self._news = asyncio.Event()
        self._sent_at = float("-inf")
        self._task = asyncio.create_task(self._run(), name=f"notifications of {entry.name}")

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, transition: Transition) -> None:
        """Have it told, unless the same one waits already."""
        slot = slot_of(transition.subject, transition.about)
        waiting = self._pending.pop(slot, None)
        if waiting is not None and (waiting.id, waiting.resolved) == (
            transition.id,
            transition.resolved,
        ):
            transition = waiting
        self._pending[slot] = transition
        if len(self._pending) > NOTIFICATIONS_WAITING:
            del self._pending[next(iter(self._pending))]
            self._on_dropped(self.entry)
        self._news.set()

    async def stop(self) -> None:
        """End; what waits is told by the next leader."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._news.wait()
            self._news.clear()
            pause = self._sent_at + self.entry.min_interval - time.monotonic()
            await asyncio.sleep(max(self._timing.settle, pause))
            if not (batch := dict(self._pending)):
                continue
            answer = await self._send(self.entry, list(batch.values()))
            if answer.fault:
                retries = self._timing.retries
                pause = retries[min(failures, len(retries) - 1)]
                failures += 1
                self._on_failed(self.entry, failures, answer)
                await asyncio.sleep(max(pause, answer.retry_after))
                self._news.set()
                continue
            failures, self._sent_at = 0, time.monotonic()
            for slot, one in batch.items():
                if self._pending.get(slot) is one:
                    del self._pending[slot]
            await self._told(self.entry, list(batch.values()))
            if self._pending:
                self._news.set()
