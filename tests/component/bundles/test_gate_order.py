"""The operator's own gates are asked in the docs' order, and the first that objects is named."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from tests.component.bundles.approvals import condition
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.features.windows.office_hours import MONDAY, OFFICE_HOURS, ahead_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.freezing import freeze, thaw
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

pytestmark = pytest.mark.needs(
    "age",
    "approval",
    "charts",
    "dependencies",
    "freeze",
    "promotion",
    "rollback",
    "signatures",
    "windows",
)

DOCS = Path(__file__).resolve().parents[3] / "docs" / "bundles.md"
SETTINGS = {"age": "minAge", "promotion": "promoteFrom", "window": "windows"}
"""The names in the docs, where they aren't the gates' own."""


async def test_the_gates_have_the_order_of_the_docs(
    run: Run, cluster: BundleCluster, registry: FakeRegistry
) -> None:
    gates = (await run()).controller._context.gates
    (header,) = re.findall(r"^\| occasion \|(.*)\|$", DOCS.read_text(), re.MULTILINE)
    named = re.findall(r"\[`?([\w-]+)`?\]|`([\w-]+)`", header)
    asked = [SETTINGS.get(one.name, one.name) for one in (*gates.version, *gates.moment)]
    assert asked == [one or other for one, other in named]
    assert (gates.version[-1].name, gates.moment[0].name) == ("promotion", "dependsOn")


@pytest.mark.usefixtures("registry")
async def test_a_freeze_is_named_before_a_closed_window(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    def gates() -> list[str]:
        return [one["name"] for one in cluster.status().get("gates", [])]

    freeze(cluster)
    bundle(windows=OFFICE_HOURS)
    await run(ahead=ahead_of(MONDAY - timedelta(hours=1)))
    await eventually(lambda: gates() == ["freeze", "window"], "both")
    assert condition(cluster, "UpdatePending") == ("True", "Frozen")
    thaw(cluster)
    await eventually(lambda: gates() == ["window"], "thawed")
    assert condition(cluster, "UpdatePending") == ("True", "OutsideWindow")
