"""A bundle's chart: read by its digest within limits, judged once, and what the gate says of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, deployed, idle, refresh, waits
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.previews.test_previews import answered, ask
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_deletion import delete
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, answering, registry_client
from tests.packed_charts import CHART_YAML, chart, pack

from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.lookup import DigestQuery
from copyrator.bundles.features.charts.facts import ChartFacts
from copyrator.bundles.features.charts.reader import ChartReader
from copyrator.oci.errors import (
    InvalidResponse,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.exchange import Repository
from copyrator.workqueue.isolated import Isolated

UNVENDORED = pack(
    {
        "Chart.yaml": CHART_YAML
        + "dependencies: [{name: db, version: ~1.0, repository: 'https://c'}]"
    }
)
LOCAL = "dependencies: [{name: db, version: 1.0.0, repository: 'file:///etc'}]\n"
UNPLAIN = chart("a: b", **{"Chart.lock": LOCAL, "charts/db/Chart.yaml": "name: db\nversion: 1.0.0"})
VENDORED = chart("a: b")
HELM = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


@pytest.fixture
def timeout() -> float:
    """Of reading a chart, in seconds."""
    return BundleTiming().chart_timeout


@pytest.fixture
async def reader(timeout: float) -> AsyncIterator[ChartReader]:
    client, isolated = registry_client(), Isolated()
    yield ChartReader(client, isolated, timeout)
    await isolated.close()
    await client.close()


async def _read(reader: ChartReader, registry: FakeRegistry, digest: str) -> ChartFacts:
    repository = Repository(registry.host, "app", plain_http=True)
    return await reader.read(DigestQuery(reader, repository, digest, None), "team")


async def test_a_chart_is_judged_in_the_child(reader: ChartReader, registry: FakeRegistry) -> None:
    for media_type in ("application/tar+gzip", HELM):
        digest = registry.put_chart("app", "2.0.0", chart("{{ now }}"), media_type=media_type)

        (why,) = (await _read(reader, registry, digest)).unbound

        assert why == "templates/0.yaml:1: now depends on the time or the time zone"


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([], "it has 0 layers, and a bundle has one"),
        ([{}, {}], "it has 2 layers, and a bundle has one"),
        ([{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}], "its layer isn't a chart"),
        ([{"digest": "sha512:aa"}], "the digest of its layer isn't sha256"),
        ([{"size": 9 * 2**20}], "it has more than 8 MiB"),
        ([{"size": 7}], "its layer hasn't the size that its manifest says"),
        (["x"], "its manifest can't be parsed"),
    ],
)
async def test_what_isnt_one_small_layer_of_a_chart_is_unreadable(
    reader: ChartReader, registry: FakeRegistry, layers: list[object], why: str
) -> None:
    digest = registry.put_chart("app", "2.0.0", VENDORED, layers=layers)

    facts = await _read(reader, registry, digest)

    assert facts.unreadable is not None
    assert facts.unreadable.startswith(why)
    if "size that" not in why:
        assert registry.count("GET", "/blobs/") == 0


async def test_a_blob_of_another_digest_is_an_error(
    reader: ChartReader, registry: FakeRegistry
) -> None:
    digest = registry.put_chart("app", "2.0.0", VENDORED)
    for key in registry.blobs:
        registry.blobs[key] = UNVENDORED

    with pytest.raises(InvalidResponse):
        await _read(reader, registry, digest)


@pytest.mark.parametrize("timeout", [0.2])
async def test_a_slow_registry_ends_in_time(reader: ChartReader, registry: FakeRegistry) -> None:
    digest = registry.put_chart("app", "2.0.0", VENDORED)
    registry.gate = asyncio.Event()

    with pytest.raises(RegistryUnreachable) as late:
        await _read(reader, registry, digest)

    assert f"reading the chart of {digest} takes more than" in late.value.message
    registry.gate.set()


def _gate(cluster: BundleCluster, name: str = "vendored") -> dict[str, str]:
    gates = cluster.status().get("gates", [])
    return next((dict(one) for one in gates if one["name"] == name), {})


@pytest.mark.needs("approval")
async def test_a_gated_bundle_isnt_planned_with_dependencies_that_arent_vendored(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", UNVENDORED)
    bundle(approval=ALWAYS)
    operator = await run()

    await eventually(lambda: cluster.reason() == "DependenciesNotVendored")

    assert _gate(cluster)["state"] == "Refused"
    assert "lacks db ~1.0 in charts/" in _gate(cluster)["message"]
    assert "werf helm dependency build" in _gate(cluster)["message"]
    refresh(cluster)
    await eventually(lambda: cluster.status().get("lastHandledPlan") == "now")
    await idle(operator)
    assert cluster.jobs("plan") == cluster.jobs() == []


@pytest.mark.needs("approval")
async def test_a_vendored_version_is_deployed_in_place_of_a_newer_one_that_isnt(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.1.0", UNVENDORED)
    registry.put_chart("app", "1.0.0", VENDORED)
    bundle(version="1.*", approval=ALWAYS)
    await run()

    assert (await waits(cluster))["version"] == "1.0.0"

    assert registry.count("GET", "/blobs/") == 2


@pytest.mark.needs("approval")
async def test_a_chart_is_read_once_for_all_bundles_and_polls(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", VENDORED)
    for name in ("shop", "other"):
        bundle(name, approval=ALWAYS)
    operator = await run()
    await eventually(lambda: len(cluster.jobs("plan")) == 2)
    await idle(operator)

    assert registry.count("GET", "/blobs/") == 1


async def test_nothing_is_read_for_a_bundle_without_gates(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", UNVENDORED)
    bundle()
    await run()

    await deployed(cluster)

    assert registry.count("GET", "/manifests/") == registry.count("GET", "/blobs/") == 0
    assert _gate(cluster) == {}


@pytest.mark.needs("approval")
async def test_the_gate_waits_for_a_registry_that_doesnt_send_the_chart(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", VENDORED)
    registry.fault, registry.fault_at = answering(503), "/blobs/"
    bundle(approval=ALWAYS)
    operator = await run()

    await eventually(lambda: _gate(cluster).get("state") == "Waiting")

    assert _gate(cluster)["reason"] == "RegistryUnreachable"
    await idle(operator)
    assert cluster.jobs("plan") == []


async def test_a_chart_whose_judge_was_interrupted_is_tried_again(
    reader: ChartReader, registry: FakeRegistry
) -> None:
    digest = registry.put_chart("app", "2.0.0", VENDORED)
    isolated = Isolated(wall_seconds=0)
    hurried = ChartReader(reader._client, isolated, 10)
    with pytest.raises(RegistryError, match="couldn't be judged: it isn't done after 0 s"):
        await _read(hurried, registry, digest)
    await isolated.close()

    assert (await _read(reader, registry, digest)).unreadable is None


@pytest.mark.needs("previews")
async def test_a_preview_of_any_bundle_is_refused(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", VENDORED)
    registry.put_chart("app", "2.0.0", UNVENDORED)
    bundle()
    await run()
    await deployed(cluster)

    ask(cluster, "2.0.0")
    seen = await answered(cluster)

    assert (seen["outcome"], seen["reason"]) == ("Failed", "DependenciesNotVendored")
    assert cluster.jobs("plan") == []


FLOOR = (("te*", "Always"),)


@pytest.mark.needs("approval")
async def test_a_chart_that_isnt_plain_gets_no_job(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", UNPLAIN)
    bundle(approval=ALWAYS)
    operator = await run()

    await eventually(lambda: cluster.reason() == "ChartNotPlain")

    assert _gate(cluster)["state"] == "Passed"
    assert _gate(cluster, "plain")["state"] == "Refused"
    assert "Chart.lock:1: key repository is neither" in _gate(cluster, "plain")["message"]
    assert "leave repository empty" in cluster.message()
    refresh(cluster)
    await eventually(lambda: cluster.status().get("lastHandledPlan") == "now")
    await idle(operator)
    assert cluster.jobs("plan") == cluster.jobs() == []


@pytest.mark.needs("approval")
async def test_what_was_deployed_from_a_chart_that_isnt_plain_is_uninstalled(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put_chart("app", "1.0.0", UNPLAIN)
    bundle()
    before = await run()
    await deployed(cluster)
    await before.stop()

    await run(require_approval=FLOOR)
    annotate(cluster, requestedAt="now")
    refused = {"version": "1.0.0", "reason": "ChartNotPlain"}
    await eventually(lambda: cluster.status().get("available", {}).get("rejected") == [refused])
    assert len(cluster.jobs()) == 1, "nor is it deployed again"
    delete(cluster)

    await eventually(lambda: len(cluster.jobs("uninstall")) == 1)
