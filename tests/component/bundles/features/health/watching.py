"""How tests see the condition Healthy and the watches of releases, and the timing for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.component.bundles.approvals import condition
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING

from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.features.health import judge
from copyrator.bundles.features.health.watcher import HealthTiming
from copyrator.kube.watch.informers import PlacementTiming

SOON = HealthTiming(
    settle=0.05,
    status=0.1,
    message=0.2,
    watches=PlacementTiming(check=0.05, settle=0.01, retry=0.2, longest_retry=0.4),
)
"""The defaults, sooner."""


def timing_of(health: HealthTiming = SOON) -> BundleTiming:
    """The timing of an operator of tests, with this one of health."""
    return replace(TIMING, features=(health,))


def healthy(cluster: BundleCluster, name: str = "shop") -> tuple[str, str]:
    return condition(cluster, "Healthy", name)


def said(cluster: BundleCluster, name: str = "shop") -> str:
    found = {one["type"]: one for one in cluster.status(name).get("conditions", [])}
    return str(found.get("Healthy", {}).get("message"))


def health_watches(operator: Any) -> list[tuple[str, str | None]]:
    """Kind and namespace of the watches of releases that are open."""
    found = [spec for spec in operator.pool.specs() if spec.label_selector == judge.SELECTOR]
    return sorted(((spec.resource.plural, spec.namespace) for spec in found), key=str)
