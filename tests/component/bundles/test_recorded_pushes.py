"""Each registry's notification polls the Bundles that it concerns: over HTTP, to the registry."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import ResolveResult
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.recorded_notifications import RECORDED, Recorded

from copyrator.oci.transport import CheckedResolver
from copyrator.serving.webhook import PATH, WebhookServer

SECRET = "only-they-know"
OTHER = "other.example.com"
POLLING = [row for row in RECORDED if row.pushes]
SILENT = [row for row in RECORDED if not row.pushes]


class Hooked:
    """An operator that is told by a webhook."""

    def __init__(self, operator: Any, server: WebhookServer) -> None:
        self.operator = operator
        self.server = server

    async def call(self, row: Recorded) -> str:
        headers = {"Authorization": f"Bearer {SECRET}"}
        if row.event_type:
            headers["Ce-Type"] = row.event_type
        url = f"http://127.0.0.1:{self.server.port}{PATH}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=row.body, headers=headers) as response,
        ):
            assert response.status == 202
            return await response.text()


@pytest.fixture
def everywhere(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    """The registry, at every name of a host."""
    assert registry.server is not None
    here = registry.server.port or 0

    async def resolve(
        self: CheckedResolver,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=here, family=family, proto=0, flags=0
            )
        ]

    monkeypatch.setattr(CheckedResolver, "resolve", resolve)
    return registry


@pytest.fixture
async def hooked(run: Run, tmp_path: Path) -> AsyncIterator[Hooked]:
    operator = await run(timer_interval=3600.0)
    (tmp_path / "secret").write_text(SECRET)
    server = WebhookServer(
        metrics=operator.metrics,
        address="127.0.0.1",
        port=0,
        secret_file=tmp_path / "secret",
    )
    server.pushed = operator.controller.pushed
    await server.start()
    yield Hooked(operator, server)
    await server.stop()


@pytest.mark.parametrize("row", POLLING, ids=str)
async def test_a_push_polls_whom_it_concerns_and_nobody_else(
    cluster: BundleCluster, everywhere: FakeRegistry, hooked: Hooked, bundle: Make, row: Recorded
) -> None:
    """Others have another host, where the notification names it, another repository or tag."""
    push = row.pushes[0]
    host, tag = push.registry or "r.example.com", push.tag or "1.0.0"
    others: dict[str, dict[str, str]] = {
        "repository": {"registry": host, "repo": f"{push.repository}-not", "version": tag},
    }
    if push.registry:
        others["host"] = {"registry": OTHER, "repo": push.repository, "version": tag}
    if push.tag:
        others["tag"] = {"registry": host, "repo": push.repository, "version": f"{tag}-not"}
    specs = {"concerned": {"registry": host, "repo": push.repository, "version": tag}, **others}
    for spec in specs.values():
        everywhere.put(spec["repo"], spec["version"], "one")
    for name, spec in specs.items():
        bundle(name, **spec)
    for name in specs:
        await eventually(lambda name=name: cluster.reason(name) == "Deployed")
    await eventually(lambda: hooked.operator.scheduler.next_due() is not None)
    asked = len(everywhere.asked)

    assert await hooked.call(row) == "1 Bundle is polled now\n"

    path = f"/v2/{push.repository}/manifests/{tag}"
    await eventually(lambda: ("HEAD", path) in everywhere.asked[asked:])
    assert set(everywhere.asked[asked:]) == {("HEAD", path)}


async def test_a_push_is_deployed(
    cluster: BundleCluster, everywhere: FakeRegistry, hooked: Hooked, bundle: Make
) -> None:
    row = next(one for one in POLLING if str(one) == "ecr: push")
    push = row.pushes[0]
    everywhere.put(push.repository, "latest", "one")
    bundle("shop", registry=push.registry, repo=push.repository, version="latest")
    await eventually(lambda: cluster.reason("shop") == "Deployed")

    digest = everywhere.put(push.repository, "latest", "other")
    await hooked.call(row)

    await eventually(lambda: cluster.status("shop")["deploy"]["digest"] == digest)


async def test_other_events_poll_nobody(
    cluster: BundleCluster, everywhere: FakeRegistry, hooked: Hooked, bundle: Make
) -> None:
    """There is a Bundle for each push that is recorded, whose repository these events are about."""
    wanted = {
        (push.registry or "r.example.com", push.repository): push
        for row in POLLING
        for push in row.pushes
    }
    for number, ((host, repository), push) in enumerate(wanted.items()):
        everywhere.put(repository, push.tag or "1.0.0", "one")
        bundle(f"b{number}", registry=host, repo=repository, version=push.tag or "1.0.0")
    for number in range(len(wanted)):
        await eventually(lambda name=f"b{number}": cluster.reason(name) == "Deployed")
    everywhere.put("team/last", "1.0.0", "one")
    bundle("last", registry=OTHER, repo="team/last", version="1.0.0")
    await eventually(lambda: cluster.reason("last") == "Deployed")
    asked = len(everywhere.asked)

    for row in SILENT:
        assert await hooked.call(row) == "0 Bundles are polled now\n", row

    last = replace(POLLING[0], payload={"repository": "team/last"}, event_type=None)
    assert await hooked.call(last) == "1 Bundle is polled now\n"
    await eventually(lambda: len(everywhere.asked) > asked)
    assert everywhere.asked[asked:] == [("HEAD", "/v2/team/last/manifests/1.0.0")]
