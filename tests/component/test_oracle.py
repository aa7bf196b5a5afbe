"""The recorder of `make oracle` notes what a client asks and what it is answered."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientSession, web
from tests.component.kube.fake_api import FakeApi
from tests.oracle.recorder import Recorder

CONFIGMAPS = "/api/v1/namespaces/ns/configmaps"


def recorder(folder: Path | None) -> Recorder:
    config = SimpleNamespace(getoption=lambda name: folder)
    node = SimpleNamespace(nodeid="tests/component/x/test_y.py::test_z")
    return Recorder(cast(pytest.FixtureRequest, SimpleNamespace(config=config, node=node)))


async def test_requests_are_recorded_with_their_bodies_and_answers(tmp_path: Path) -> None:
    recording = recorder(tmp_path)
    app = web.Application(middlewares=recording.middlewares)
    app.router.add_route("*", "/{path:.*}", FakeApi().handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    body = {"metadata": {"name": "one"}}
    async with ClientSession(f"http://127.0.0.1:{runner.addresses[0][1]}") as client:
        for _ in range(2):
            async with client.post(CONFIGMAPS, json=body, params={"a": "b"}) as answer:
                await answer.read()
        async with client.get(f"{CONFIGMAPS}/one") as answer:
            assert (await answer.json())["metadata"]["name"] == "one"
    await runner.cleanup()
    recording.save()

    [file] = tmp_path.iterdir()
    test, requests = json.loads(file.read_text())
    assert test == "tests/component/x/test_y.py::test_z"
    created: dict[str, Any] = {"verb": "POST", "path": CONFIGMAPS, "query": {"a": "b"}}
    assert requests == [
        {**created, "body": body, "code": 201},
        {**created, "body": body, "code": 409},
        {"verb": "GET", "path": f"{CONFIGMAPS}/one", "query": {}, "body": None, "code": 200},
    ]


def test_nothing_is_recorded_without_the_option(tmp_path: Path) -> None:
    recording = recorder(None)
    assert recording.middlewares == []
    recording.save()
    assert list(tmp_path.iterdir()) == []
