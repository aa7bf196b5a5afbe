"""How long it is believed whether the API server can refuse what isn't approved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.features.cluster.fields import ClusterSpec
from copyrator.bundles.plans.guard.enforcement import EnforcementReviewer
from copyrator.bundles.plans.guard.listing import Guard
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import NotFound

SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")


@dataclass
class Client:
    """An API server without the guard's policy."""

    asked: list[str] = field(default_factory=list)
    at: float = 0.0

    async def request(self, _method: str, path: str, **_more: Any) -> dict[str, Any]:
        self.asked.append(path)
        raise NotFound("there is none")


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def reviewer(client: Client) -> EnforcementReviewer:
    return EnforcementReviewer(
        cast("KubeClient", client), Guard("guard", "default"), lambda: client.at
    )


@pytest.mark.promise
async def test_a_guard_that_is_mended_is_seen_in_half_a_minute(
    client: Client, reviewer: EnforcementReviewer
) -> None:
    for at, times in ((0.0, 1), (29.0, 1), (31.0, 2)):
        client.at = at
        found = await reviewer.find_reason(SPEC, ())
        assert "there is no ValidatingAdmissionPolicy guard" in found
        assert len(client.asked) == times, at


@pytest.mark.promise
async def test_nothing_is_enforced_in_another_cluster(
    client: Client, reviewer: EnforcementReviewer
) -> None:
    """Its API server has no such policy, whatever this one's has."""
    found = await reviewer.find_reason(SPEC.with_part(ClusterSpec("other")), ())

    assert "the release is in another cluster" in found
    assert client.asked == []
