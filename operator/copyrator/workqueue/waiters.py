"""A line in which tasks wait, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Waiters:
    """Tasks that wait to be called. For one event loop."""

    def __init__(self) -> None:
        self._turns: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def join(self) -> asyncio.Future[None]:
        """Stand at the end; `wait` must follow."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        return turn

    async def wait(self, turn: asyncio.Future[None], on_lost: Callable[[], object]) -> None:
        """Wait to be called.

        Args:
            turn: as `join` returned it.
            on_lost: called if the task was called, but is cancelled before it runs: it must pass
                on what it was called for.
        """
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                on_lost()
            elif turn in self._turns:  # else `call` has passed over it in the meantime
                self._turns.remove(turn)
            raise

    def call(self) -> bool:
        """Let the first go on that still waits; False if nobody does."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False
