"""Threads for the clouds' libraries: how many, for how long, and what is left of one that hangs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import UTC, datetime
from typing import NoReturn

import pytest

from copyrator.api.clouds import Provider
from copyrator.clouds import calls
from copyrator.clouds.calls import CLOUD_CALLS, Calls
from copyrator.metrics import Metrics
from copyrator.oci.errors import IdentityMissing, IdentityUnavailable
from copyrator.oci.transport import RegistryTransport
from copyrator.workqueue.fairness import working_for


def new_calls() -> Calls:
    return Calls(RegistryTransport(metrics=Metrics()), lambda: datetime.now(UTC))


async def test_a_function_runs_beside_the_event_loop() -> None:
    found = await new_calls().run(
        Provider.AWS, lambda text: text + threading.current_thread().name, "in "
    )
    assert found == "in aws login"


async def test_a_library_that_is_missing_is_named_with_the_remedy() -> None:
    def fail() -> NoReturn:
        raise ModuleNotFoundError("botocore")

    with pytest.raises(IdentityMissing, match=r"image\.variant=clouds.*copyrator\[aws\]"):
        await new_calls().run(Provider.AWS, fail)


async def test_one_that_hangs_holds_its_slot_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CLOUD_CALL_SECONDS", 0.05)
    ours, gate = new_calls(), threading.Event()

    async def hang(namespace: str) -> None:
        with working_for(namespace), pytest.raises(IdentityUnavailable, match="didn't give"):
            await ours.run(Provider.AWS, gate.wait)

    await asyncio.gather(hang("a"), hang("a"))
    with working_for("b"):  # another namespace has its own
        assert await ours.run(Provider.AWS, lambda: 1) == 1
    with working_for("a"):
        third = asyncio.create_task(ours.run(Provider.AWS, lambda: 2))
    done, _ = await asyncio.wait([third], timeout=0.3)
    assert not done
    gate.set()
    assert await third == 2


async def test_no_more_than_a_number_run_at_a_time() -> None:
    ours, running, most = new_calls(), 0, 0
    lock, all_of_them = threading.Lock(), threading.Barrier(CLOUD_CALLS)

    def count() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        all_of_them.wait(60)
        with lock:
            running -= 1

    async def one(number: int) -> None:
        with working_for(f"n{number}"):
            await ours.run(Provider.AZURE, count)

    await asyncio.gather(*(one(number) for number in range(5 * CLOUD_CALLS)))
    assert most == CLOUD_CALLS


def test_the_end_of_the_process_doesnt_wait_for_one_that_hangs() -> None:
    code = """
import asyncio, threading, time
from datetime import UTC, datetime
from copyrator.api.clouds import Provider
from copyrator.clouds.calls import Calls
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
async def main():
    calls = Calls(None, lambda: datetime.now(UTC))
    task = asyncio.create_task(calls.run(Provider.AWS, hang))
    await asyncio.to_thread(begun.wait)
    task.cancel()
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", code], timeout=120, check=False)
    assert ended.returncode == 0
