"""The figures of tests/places.toml that are counted while a Bundle is deployed.

To see what is counted: `hack/run pytest -s tests/component/bundles/test_places.py`.
"""

from __future__ import annotations

import dataclasses
from itertools import groupby, pairwise, takewhile
from types import CodeType, FrameType
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import Seen
from tests.component.module_recorder import ModuleRecorder, module_of

import places
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleEntry, Memories
from copyrator.bundles.engine.reconciler import BundleReconciler

FOLLOWED = (BundleKey, BundleEntry)
"""The key, and the record of its Bundle."""
ENTRANCE = BundleReconciler.reconcile.__code__


class Recorder(ModuleRecorder):
    """Also what is called below the reconciler.

    Attributes:
        calls: the calls below `BundleReconciler.reconcile`, in the same task, that are handed the
            key, its Bundle, or a dataclass with one of them: each call of one function by another
            once, in the order of the first ones, but lookups of what is remembered. A call is the
            way of modules to it, one after the other, from the reconciler's on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self._known: set[tuple[CodeType, CodeType]] = set()

    def record_call(self, frame: FrameType, stack: list[FrameType]) -> None:
        codes = [one.f_code for one in stack]
        if ENTRANCE not in codes or frame.f_code.co_name.startswith("<"):
            return
        if isinstance(frame.f_locals.get("self"), Memories):
            return  # as a dictionary's lookup: nobody has to read what it does
        way = stack[: codes.index(ENTRANCE) + 1]
        above = next((code for code in codes[1:] if not code.co_name.startswith("<")), ENTRANCE)
        if (above, frame.f_code) not in self._known and _is_handed_bundle(frame):
            self._known.add((above, frame.f_code))
            self.calls.append([name for name, _ in groupby(map(module_of, reversed(way)))])

    def visits(self) -> list[list[str]]:
        """The calls without those that stay in the module of the one before: a module's visits."""
        return [next(way) for _, way in groupby(self.calls, key=lambda way: way[-1])]

    def times_back_up(self) -> list[str]:
        """The visits before which two modules or more were left, by returns to their callers."""
        return [
            f"{' > '.join(before)}, then {' > '.join(after)}"
            for before, after in pairwise(self.calls)
            if before[-1] != after[-1] and len(before) - _common(before, after) > 1
        ]


def _is_handed_bundle(frame: FrameType) -> bool:
    code = frame.f_code
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(_has_bundle(frame.f_locals.get(name)) for name in given)


def _has_bundle(value: Any) -> bool:
    if isinstance(value, FOLLOWED):
        return True
    if not dataclasses.is_dataclass(value):
        return False
    fields = (getattr(value, field.name, None) for field in dataclasses.fields(value))
    return any(isinstance(one, FOLLOWED) for one in fields)


def _common(one: list[str], other: list[str]) -> int:
    """The number of modules with which both ways begin."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in same)


async def test_a_bundle_passes_no_more_places_to_its_job_than_are_stored(
    cluster: BundleCluster, run: Run, bundle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, recorder = await run(), Recorder()
    # What the process reads at its start isn't counted.
    controller = operator.controller
    await eventually(
        lambda: controller._jobs.synced and controller._features.are_ready(deleting=False)
    )
    event, create = operator.controller.bundle_event, cluster._create

    def record_event(body: dict[str, Any], *, deleted: bool) -> None:
        if not recorder.modules:
            recorder.start()
        event(body, deleted=deleted)

    async def stop_at_job(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/jobs"):
            # The watch of the values is opened beside the deploy: its modules count, always.
            await eventually(lambda: any(is_values_watch(seen) for seen in cluster.seen))
            recorder.stop()
        return await create(request)

    monkeypatch.setattr(operator.controller, "bundle_event", record_event)
    monkeypatch.setattr(cluster, "_create", stop_at_job)
    try:
        cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
        bundle(valuesFrom=[{"kind": "ConfigMap", "name": "values"}])
        await eventually(lambda: cluster.reason() == "Deployed")
    finally:
        recorder.stop()

    found = {
        "modules_to_job": sorted(recorder.modules),
        "visits": [way[-1] for way in recorder.visits()],
        "times_back_up": recorder.times_back_up(),
    }
    places.show(found)
    differences = places.differences(found)
    assert differences == [], "\n".join(differences)


def is_values_watch(seen: Seen) -> bool:
    return seen.verb == "watch" and seen.path.startswith(path_of("configmaps"))
