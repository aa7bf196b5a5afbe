"""Tasks that wait to be woken, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Waiters:
    """A queue of waiting tasks. For one event loop."""

    def __init__(self) -> None:
        self._turns: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def join(self) -> asyncio.Future[None]:
        """Add the running task at the end; return its future, for which `wait` must be called."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        return turn

    async def wait(self, turn: asyncio.Future[None], on_lost: Callable[[], object]) -> None:
        """Wait until `call` wakes this task.

        Args:
            turn: the future that `join` returned.
            on_lost: called if the task was woken, but is cancelled before it runs: it must give
                what it was woken for, such as a free slot, to another task.
        """
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                on_lost()
            elif turn in self._turns:  # else `call` has removed it in the meantime
                self._turns.remove(turn)
            raise

    def call(self) -> bool:
        """Wake the first task that still waits; return False if none does."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False
