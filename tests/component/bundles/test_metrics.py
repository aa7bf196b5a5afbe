"""What the metrics say of Bundles, polls and deploys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import generate_latest
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry


def shown(operator: Any) -> dict[str, float]:
    """The samples as a scrape has them."""
    operator.controller.publish()
    lines = generate_latest(operator.metrics.registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


async def shows(operator: Any, samples: Mapping[str, float]) -> dict[str, float]:
    """Wait for them: the API server knows what was written before the operator has its answer."""
    await eventually(lambda: samples.items() <= shown(operator).items(), f"{samples}")
    return shown(operator)


async def test_bundles_are_counted_by_reason(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle("good")
    bundle("lost", version="9.9.9")
    await eventually(lambda: cluster.reason("good") == "Deployed")
    await eventually(lambda: cluster.reason("lost") == "TagNotFound")

    deployed, missing = (
        f'copyrator_bundles{{reason="{one}"}}' for one in ("Deployed", "TagNotFound")
    )
    deploys = 'copyrator_deploys_total{action="deploy",result="succeeded"}'
    found = await shows(operator, {deployed: 1, missing: 1, deploys: 1})
    assert found['copyrator_polls_total{result="Answered"}'] == 1
    assert found['copyrator_polls_total{result="TagNotFound"}'] >= 1
    host = registry.host
    requests = f'copyrator_registry_requests_total{{code="200",host="{host}",method="HEAD"}}'
    assert found[requests] == 1
    assert found[requests.replace("200", "404")] >= 1
    assert found['copyrator_deploy_seconds_count{action="deploy"}'] == 1

    cluster.change("bundles", "lost", spec={"version": "1.0.0"})
    await eventually(lambda: cluster.reason("lost") == "Deployed")
    found = await shows(operator, {'copyrator_bundles{reason="Deployed"}': 2})
    assert 'copyrator_bundles{reason="TagNotFound"}' not in found


async def test_the_age_of_the_last_good_poll_grows_while_polls_fail(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run(timer_interval=1.0)
    bundle()
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: shown(operator)["copyrator_oldest_poll_seconds"] < 1.5)

    registry.manifests.clear()
    await eventually(lambda: cluster.reason() == "TagNotFound")
    await eventually(lambda: shown(operator)["copyrator_oldest_poll_seconds"] > 2.0)

    registry.put("app", "1.0.0", "one")
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: shown(operator)["copyrator_oldest_poll_seconds"] < 1.5)
