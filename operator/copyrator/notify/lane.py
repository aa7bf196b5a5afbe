"""What waits to be told to one entry, and the task that sends it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from copyrator.notify.config import Entry
from copyrator.notify.sending import SendResult
from copyrator.notify.transitions import Transition, slot_of

NOTIFICATIONS_WAITING: Final = 10_000
"""Transitions that wait to be told to one entry; beyond it the oldest are dropped, and counted."""

_OF_CONTENT: Final = frozenset({400, 403, 405, 406, 413, 415, 422})
"""HTTP statuses by which a server or a filter before it refuses what is in a message."""
_TRIES: Final = 2
"""Of a message whose content is refused, before others' text is left out of it."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotifyTiming:
    """Seconds."""

    settle: float = 2.0
    """After the first of several transitions, before they are one message."""
    retries: tuple[float, ...] = (5.0, 60.0, 120.0, 300.0, 600.0)
    """Pauses after failures in a row; the last one is repeated."""
    save_retry: float = 10.0
    """After marks couldn't be written."""


Send = Callable[[Entry, list[Transition], bool], Awaitable[SendResult]]
"""Sends one message; True: without others' text."""
Told = Callable[[Entry, list[Transition]], Awaitable[None]]
"""Records that they were told."""


@dataclass(slots=True)
class Lane:
    """One entry's queue: of each object and kind of transition the newest one."""

    entry: Entry
    """``use`` replaces it by another one of its name."""
    send: Send
    told: Told
    """Is awaited before the next message is sent."""
    on_failed: Callable[[Entry, int, SendResult], None]
    """Is called with the number of failures in a row, and the answer."""
    on_dropped: Callable[[Entry], None]
    """Is called for each transition over the limit."""
    timing: NotifyTiming
    _pending: OrderedDict[str, Transition] = field(default_factory=OrderedDict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _sent_at: float = float("-inf")
    _task: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"notifications of {self.entry.name}")

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
            self._pending.popitem(last=False)
            self.on_dropped(self.entry)
        self._news.set()

    def use(self, entry: Entry) -> None:
        """Use another entry of the same name; one with other fields is tried at once."""
        if entry != self.entry:
            self.entry = entry
            self.retry()

    def retry(self) -> None:
        """End the pause after a failure."""
        self._woken.set()
        self._news.set()

    async def stop(self) -> None:
        """End; what waits is told by the next leader."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures, answer = 0, SendResult()
        while True:
            await self._news.wait()
            self._news.clear()
            await asyncio.sleep(self.timing.settle)
            while (pause := self._sent_at + self.entry.min_interval - time.monotonic()) > 0:
                await self._pause(pause)
            if not (batch := dict(self._pending)):
                continue
            brief = answer.is_refused or (failures >= _TRIES and answer.code in _OF_CONTENT)
            answer = await self._try(list(batch.values()), brief)
            if answer.fault:
                retries = self.timing.retries
                pause = retries[min(failures, len(retries) - 1)]
                failures += 1
                self.on_failed(self.entry, failures, answer)
                if brief and answer.is_refused:
                    continue  # until there is news, the entry changes, or a test was sent
                await self._pause(max(pause, answer.retry_after))
                self._news.set()
                continue
            failures, self._sent_at = 0, time.monotonic()
            try:
                await self.told(self.entry, list(batch.values()))
            except Exception as error:
                name = type(error).__name__
                log.exception("notifications: entry %s: internal error: %s", self.entry.name, name)
            for slot, one in batch.items():  # marked now: what finds it again doesn't queue it
                if self._pending.get(slot) is one:
                    del self._pending[slot]
            if self._pending:
                self._news.set()

    async def _try(self, batch: list[Transition], brief: bool) -> SendResult:
        """Send; an unexpected error is a failure as any other, and quoted nowhere."""
        try:
            return await self.send(self.entry, batch, brief)
        except Exception as error:
            return SendResult(f"internal error: {type(error).__name__}")

    async def _pause(self, seconds: float) -> None:
        """Wait; ``retry`` ends it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
