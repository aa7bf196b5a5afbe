"""bundles.requireBoundPlans: nothing is deployed there whose contents the approval doesn't bind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, ON_RISK, approve, deployed, idle, waits
from tests.component.bundles.fake_cluster import TEAM, BundleCluster
from tests.component.bundles.fake_werf import CREATE, UPDATE, Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.installed import settings
from tests.packed_charts import CHART_YAML, chart, pack

pytestmark = pytest.mark.needs("charts")

PLAIN = chart("a: b")
DRAWS = chart("a: {{ randAlphaNum 5 }}")


def required(*globs: str) -> dict[str, Any]:
    return settings({"bundles.requireBoundPlans": list(globs)})


UNBOUND: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "a chart that draws": (DRAWS, {}, "randAlphaNum"),
    "a chart that reads the time": (chart("a: {{ now }}"), {}, "now depends on the time"),
    "a chart that asks the cluster": (
        chart('a: {{ lookup "v1" "Secret" "a" "b" }}'),
        {},
        "lookup",
    ),
    "a chart with a template that can't be parsed": (chart("{{ if }"), {}, "can't be parsed"),
    "two renders that differ": (PLAIN, {"renders": lambda _: "none"}, "two renders"),
    "contents hidden from the diff": (PLAIN, {"hidden": ("Secret/a",)}, "is hidden"),
}


@pytest.mark.parametrize("mode", ["Always", "OnRisk"])
@pytest.mark.parametrize("what", UNBOUND)
async def test_an_approved_plan_that_isnt_bound_is_refused(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    what: str,
    mode: str,
) -> None:
    layer, changes, why = UNBOUND[what]
    for name, value in changes.items():
        setattr(werf, name, value)
    registry.put_chart("app", "1.0.0", layer)
    bundle(approval={"mode": mode})
    operator = await run(**required("other", "te*"))

    found = await waits(cluster, "PlanUnbound", bound=False)

    assert why in "".join(found["unbound"]), found
    assert "bundles.requireBoundPlans" in cluster.message()
    approve(cluster, found)
    await waits(cluster, "PlanUnbound", decision="Approved")
    await idle(operator)
    assert cluster.jobs() == []


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "a chart that isn't an archive": (b"no archive", "it isn't packed with gzip"),
    "a chart with two files of one path": (
        pack({"Chart.yaml": CHART_YAML, "templates/a.yaml": "a: b", "templates//a.yaml": "a: c"}),
        "shop/templates//a.yaml in it is outside of the chart's directory",
    ),
}


@pytest.mark.parametrize("mode", ["Always", "OnRisk"])
@pytest.mark.parametrize("what", UNREADABLE)
async def test_a_chart_that_cant_be_judged_isnt_even_planned(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    what: str,
    mode: str,
) -> None:
    layer, why = UNREADABLE[what]
    registry.put_chart("app", "1.0.0", layer)
    bundle(approval={"mode": mode})
    operator = await run(**required("other", "te*"))

    await eventually(lambda: cluster.reason() == "ChartNotPlain")

    assert why in cluster.message()
    await idle(operator)
    assert cluster.jobs("plan") == cluster.jobs() == []


@pytest.mark.parametrize("mode", [ALWAYS, ON_RISK], ids=["Always", "OnRisk"])
async def test_a_bound_plan_is_deployed(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    mode: dict[str, str],
) -> None:
    registry.put_chart("app", "1.0.0", PLAIN)
    bundle(approval=mode)
    await run(**required(TEAM))

    if mode == ALWAYS:
        approve(cluster, await waits(cluster, bound=True))

    await deployed(cluster)


async def test_the_namespace_of_the_release_counts_as_that_of_the_bundle_does(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", DRAWS)
    cluster.accept("prod")
    bundle(approval=ALWAYS, project_namespace="prod")
    operator = await run(**required("prod"))

    approve(cluster, await waits(cluster, "PlanUnbound", bound=False))

    await waits(cluster, "PlanUnbound", decision="Approved")
    await idle(operator)
    assert cluster.jobs() == []


async def test_elsewhere_it_is_only_a_risk(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", DRAWS)
    bundle(approval=ON_RISK)
    await run(**required("other", "team-*"))

    approve(cluster, await waits(cluster, bound=False))

    await deployed(cluster)


async def test_a_plan_that_was_made_before_the_value_was_set_isnt_deployed_by_its_approval(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", DRAWS)
    bundle(approval=ALWAYS)
    before = await run(**required())
    found = await waits(cluster, bound=False)
    await before.stop()
    approve(cluster, found)

    operator = await run(**required(TEAM))

    await waits(cluster, "PlanUnbound")
    await idle(operator)
    assert cluster.jobs() == []


async def test_a_newer_unbound_version_is_refused_and_the_deployed_one_stays(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", PLAIN)
    werf.todo = lambda digest: [UPDATE] if werf.revision > 1 else [CREATE]
    bundle(version="1.*", approval=ON_RISK)
    operator = await run(**required("*") | {"timer_interval": 1.0})
    await deployed(cluster)

    registry.put_chart("app", "1.1.0", DRAWS)

    await waits(cluster, "PlanUnbound", version="1.1.0")
    await idle(operator)
    assert cluster.status()["deployed"]["version"] == "1.0.0"
    assert len(cluster.jobs()) == 1
