"""Lists that are written and removed at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.guard.listing import Guard, GuardedUninstall
from copyrator.bundles.plans.guard.lists import GuardLists, StoredLists, read_page

KEPT = 60.0


class Client:
    """One ConfigMap with lists."""

    def __init__(self, **lists: str) -> None:
        self.lists: dict[str, str] = lists

    async def patch(self, _kind: Any, _namespace: str, _name: str, change: Any) -> None:
        await asyncio.sleep(0)
        for key, text in change["data"].items():
            self.lists.pop(key, None) if text is None else self.lists.update({key: text})

    async def delete(self, *_: Any, **__: Any) -> None:
        self.lists.clear()


class Ended:
    """No Job is there, nor a pod."""

    job_changed: Callable[[ObjectName | None], None]

    def start(self, changed: Callable[[ObjectName | None], None]) -> None:
        self.job_changed = changed

    def stop(self) -> None:
        pass

    def is_over(self, _job: ObjectName) -> bool:
        return True

    async def has_ended(self, _job: ObjectName) -> bool:
        return True


async def test_a_list_that_is_written_anew_as_its_removal_begins_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the Job would be created without a list."""
    loop = asyncio.get_running_loop()
    clock = [loop.time()]
    monkeypatch.setattr(loop, "time", lambda: clock[0])
    client: Any = Client(**{"team.job": "of a Job that ended"})
    body = {"metadata": {"labels": {names.LABEL_GUARD: ""}}, "data": client.lists}
    store: dict[ObjectName, StoredLists | None] = {ObjectName("home", "guard.1"): read_page(body)}
    watch = SimpleNamespace(store=store, synced=True, release=lambda: None)
    informers: Any = SimpleNamespace(acquire=lambda *_: watch)
    jobs, again = Ended(), asyncio.Event()
    lists = GuardLists(client, Guard("guard", "home"), informers, jobs, kept=KEPT)
    lists.start()
    loop.call_later(KEPT / 2, again.set)
    jobs.job_changed(None)
    clock[0] += KEPT  # both are due at once
    await again.wait()

    account = ServiceAccount("team", "werf")
    uninstall = GuardedUninstall(
        account=account, release="shop", namespace="team", inventory=(), hooks=()
    )
    await lists.write("job", uninstall)
    for _ in range(20):
        await asyncio.sleep(0)

    assert client.lists["team.job"] != "of a Job that ended"
    await lists.close()
