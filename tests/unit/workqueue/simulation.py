"""A loop with a clock of its own: seconds of a simulated server pass in milliseconds."""

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


MOST_ROUNDS = 20_000
"""Rounds of the loop while its clock stands still; then something keeps it busy for ever."""


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves the loop's clock."""

    loop: "SimulatedLoop"
    rounds = 0

    def select(self, timeout: float | None = None) -> Any:
        self.rounds += 1
        if timeout:
            self.loop.now += timeout
            self.rounds = 0
        assert self.rounds < MOST_ROUNDS, f"something is always to be done at {self.loop.now} s"
        return super().select(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _Selector()
        selector.loop = self
        self.now = 0.0
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        """At once: no simulated time passes while a thread works."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


def simulate(main: Callable[[SimulatedLoop], Awaitable[T]]) -> T:
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(main(loop))  # type: ignore[arg-type]
    finally:
        loop.close()


class RefusedError(Exception):
    """429."""


class Server:
    """Works on `seats` requests at a time, lets `queue` more wait, refuses the rest.

    This is how priority and fairness treats one client: waiting makes answers slow, and what
    doesn't fit is answered with 429 and Retry-After.
    """

    def __init__(
        self, loop: SimulatedLoop, *, seats: int, queue: int, seconds: float, retry_after: float = 1
    ) -> None:
        self.loop = loop
        self.seats = asyncio.Semaphore(seats)
        self.room = seats + queue
        self.seconds = seconds
        self.retry_after = retry_after
        self.spread = random.Random(1)
        self.inside = 0
        self.most_inside = 0
        self.refused = 0

    async def answer(self) -> None:
        if self.inside >= self.room:
            self.refused += 1
            raise RefusedError
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            async with self.seats:
                await asyncio.sleep(self.seconds * self.spread.uniform(0.8, 1.2))
        finally:
            self.inside -= 1


async def write_all(server: Server, limit: Any, count: int, clients: int = 128) -> float:
    """Do `count` writes as the operator would; returns the seconds that it took."""
    left = count

    async def client() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            while True:
                try:
                    async with limit.slot():
                        await server.answer()
                except RefusedError:
                    limit.throttled(server.retry_after)
                    continue
                break

    started = server.loop.now
    await asyncio.gather(*(client() for _ in range(clients)))
    return server.loop.now - started
