"""How soon a change is found where Namespaces are polled, by a simulated clock."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.api.keys import ObjectName
from copyrator.api.names import ANN_FREEZE
from copyrator.kube.watch.namespace_polls import NamespacePolls

PROMISED = 10.0
"""Seconds, in docs/bundles.md: "within ten seconds"."""


@pytest.mark.parametrize("moment", [0.5, 9.9, 10.1, 601.0])
def test_a_freeze_is_found_within_ten_seconds(moment: float) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "1"}}

    async def story(loop: SimulatedLoop) -> float:
        async def request(*_: Any, **__: Any) -> dict[str, Any]:
            return {"metadata": dict(body["metadata"])}

        found: asyncio.Future[float] = loop.create_future()

        def listen(_name: ObjectName, _old: Any, seen: dict[str, Any] | None) -> None:
            if seen and ANN_FREEZE in seen["metadata"].get("annotations", {}):
                found.set_result(loop.time())

        client: Any = SimpleNamespace(request=request)
        polls = NamespacePolls(client, ("a",), listen, lambda: None, clock=loop.time)
        running = loop.create_task(polls.run())
        await asyncio.sleep(moment)
        body["metadata"] |= {"resourceVersion": "2", "annotations": {ANN_FREEZE: "holidays"}}
        when = await asyncio.wait_for(found, 3600)
        running.cancel()
        return when - moment

    assert 0 <= simulate(story) <= PROMISED
