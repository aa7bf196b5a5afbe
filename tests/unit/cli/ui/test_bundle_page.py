"""The parts of a Bundle's page, however its status was forged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.cli.view.objects_seen import PLAN, bundle, seen

from copyrator.api.keys import ObjectName
from copyrator.api.text import Detail
from copyrator.bundles.words import Environment, Soak, Stage
from copyrator.cli.ui.bundle_page import (
    OBJECTS,
    Readings,
    bundle_values,
    draw_path,
    group_objects,
)
from copyrator.cli.ui.promotion_path import PlacedStage, PromotionPath
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.rows import State

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
DIGEST = f"sha256:{'a' * 64}"


def values(body: dict[str, Any], found: Readings = Readings()) -> dict[str, Any]:  # noqa: B008
    return bundle_values(seen(body), BundleView(body, NOW), found)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (bundle("a", "False", "DeployFailed", message="no database"), "no database"),
        (
            bundle("a", deployed={"version": "1.0", "time": "2026-01-02T09:00:00Z"}),
            "1.0 has been deployed for 3h.",
        ),
        (bundle("a"), "Nothing is deployed yet."),
    ],
)
def test_the_first_sentence_is_the_fault_or_what_runs(body: dict[str, Any], sentence: str) -> None:
    assert values(body)["one"]["sentence"] == sentence


def test_the_version_that_waits_is_the_next_one() -> None:
    there = {"version": "1.0", "digest": DIGEST}
    gate = {"name": "promotion", "state": "Waiting", "reason": "NotPromoted"}
    rejected = [{"version": "1.1", "reason": "NotPromoted"}]
    waits = bundle("a", deployed=there, available=there | {"rejected": rejected}, gates=[gate])
    assert values(waits)["one"]["next"] == "1.1"
    assert values(bundle("a", deployed=there, available=there))["one"]["next"] == ""
    newer = bundle("a", deployed=there, available={"version": "1.1"})
    assert values(newer)["one"]["next"] == "1.1"


@pytest.mark.needs("approval")
def test_the_plan_is_a_part_until_it_is_deployed() -> None:
    body = bundle("a", plan=PLAN)
    assert values(body)["one"]["plan"][0] == Detail("Plan", "a" * 32)
    body = bundle("a", plan=PLAN, attempted={"planJob": PLAN["job"], "outcome": "Succeeded"})
    assert values(body)["one"]["plan"] == []
    assert values(body)["has_plan"]


def test_a_paths_boxes_are_below_each_other_and_their_arrows_join_them() -> None:
    names = [ObjectName("apps", name) for name in ("a", "b", "c")]
    soak = Soak("1.1", 0.25, text="1.1 soaked 6h of 24h, 18h left")
    stages = [
        PlacedStage(names[0], State.READY, "Deployed", "1.1"),
        PlacedStage(
            *(names[1], State.FAILING, "x", "1.0", [Stage(soak)], 1),
            is_subject=True,
            more=["q", "r"],
        ),
        PlacedStage(names[2], State.WAITING, "x", "-", indent=1),
    ]
    path = PromotionPath(stages, [(names[0], names[1]), (names[0], names[2])])
    found = draw_path(path, "path")
    assert found is not None
    a, b, c = found.boxes
    assert (b.x, b.done, b.tone, b.is_marked, b.href) == (28, 0.25, "fault", True, "")
    assert list(b.texts) == [
        "apps/b",
        "1.0  ✕ Failing",
        "1.1 soaked 6h of 24h, 18h left",
        "also from q and 1 more",
    ]
    assert a.href == "/bundles/apps/a"
    assert a.y + a.height < b.y
    assert b.y + b.height < c.y
    assert all(arrow.is_angled for arrow in found.arrows)
    assert found.width <= 296  # a panel on a screen of 360 px
    assert draw_path(PromotionPath(), "path") is None
    static = draw_path(path, "path", static=True)
    assert static is not None
    assert not any(box.href for box in static.boxes)


def test_environments_of_other_clusters_are_boxes_above_the_bundle() -> None:
    name = ObjectName("apps", "shop")
    environments = [
        Environment("staging", "", "soak 24h, at most 168h old", is_missing=False),
        Environment("load", "cluster uid", "at most 1h old", is_missing=True),
        Environment("canary", "", "at most 1h old", is_missing=None),
    ]
    facts = [Stage(environments=environments)]
    stage = PlacedStage(name, State.WAITING, "x", "1.0", facts, is_subject=True)
    found = draw_path(PromotionPath([stage]), "path")
    assert found is not None
    staging, load, canary, shop = found.boxes
    assert list(staging.texts) == [
        "environment staging",
        "✓ evidence counts",
        "soak 24h, at most 168h old",
    ]
    assert list(load.texts)[1:] == ["… evidence is missing", "at most 1h old", "cluster uid"]
    assert list(canary.texts) == ["environment canary", "at most 1h old"]
    assert (staging.tone, load.tone, canary.tone) == ("good", "waiting", "")
    assert canary.y + canary.height < shop.y
    assert [(one.start.texts[0], one.end) for one in found.arrows] == [
        (f"environment {one.name}", shop) for one in environments
    ]


def member(kind: str, name: str, **more: Any) -> dict[str, Any]:
    api = "batch/v1" if kind == "Job" else "v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}


def test_objects_that_failed_come_first_and_those_without_a_health_last() -> None:
    failed = {"conditions": [{"type": "Failed", "status": "True", "message": "boom"}]}
    bodies = [member("ConfigMap", "cm"), member("Job", "b"), member("Job", "a", status=failed)]
    found = group_objects(bodies)
    assert [(one.state, one.count) for one in found] == [("Failed", 1), ("InProgress", 1), ("", 1)]
    many = group_objects([*bodies, *(member("ConfigMap", f"m{n}") for n in range(OBJECTS))])
    assert [(one.count, len(one.rows)) for one in many] == [(1, 1), (1, 1), (201, OBJECTS - 2)]
