"""The figure of tests/places.toml that is counted while a rule makes its first copy.

To see what is counted: `hack/run pytest -s tests/component/copies/test_places.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from tests.component.copies.conftest import HOME, Operator, by_name, make_rule
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.kube.fake_api import until
from tests.component.module_recorder import ModuleRecorder

import places


async def test_a_rule_passes_no_more_places_to_its_copy_than_are_stored(
    cluster: FakeCluster, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = ModuleRecorder()
    event = operator.controller.rule_event

    def record_event(body: dict[str, Any], *, deleted: bool) -> None:
        if not recorder.modules:
            recorder.start()
        event(body, deleted=deleted)

    async def stop_at_copy(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/configmaps"):
            recorder.stop()
        return await cluster.serve(request)

    cluster.namespace("team")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    await operator.sees("team")
    await operator.idle()
    monkeypatch.setattr(operator.controller, "rule_event", record_event)
    cluster.always("create", stop_at_copy)
    try:
        make_rule(cluster, "app", by_name("app"))
        await until(lambda: cluster.found("configmaps", "team", "app"), "the copy is made")
    finally:
        recorder.stop()

    unused = ("copies/composed/", "copies/remotes/", "copies/rollout/")
    run = [module for module in recorder.modules if module.startswith(unused)]
    assert run == [], "a rule that doesn't use a feature runs none of its code"
    found = {"rule_to_copy": sorted(recorder.modules)}
    places.show(found)
    differences = places.differences(found)
    assert differences == [], "\n".join(differences)
