"""One child process for many tests: to start one and to import its libraries takes 0.3 to 0.5 s."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from tests.leftovers import PROCESS, kept

from copyrator.workqueue.isolated import Isolated


class LastingChild:
    """A real `Isolated` on an event loop of its own, since each test has another one."""

    def __init__(self, isolated: Isolated) -> None:
        self._isolated = isolated
        self._loop = asyncio.new_event_loop()

    async def call(
        self, function: Callable[..., Any], group: str, *args: Any, **kwargs: Any
    ) -> Any:
        """As `Isolated.call`."""
        call = self._isolated.call(function, group, *args, **kwargs)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def close(self) -> None:
        """Leave it to the next test."""

    @contextmanager
    def running(self) -> Iterator[Any]:
        """Ends the process at the end."""
        thread = Thread(target=self._loop.run_forever)
        thread.start()
        with kept("begins with a test", *PROCESS):
            yield self
        asyncio.run_coroutine_threadsafe(self._isolated.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
        self._loop.close()
