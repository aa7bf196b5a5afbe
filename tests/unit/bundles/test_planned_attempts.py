"""An attempt that was recorded as planned is deployed only by a feature that holds it to that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.attempt import AttemptRunner
from copyrator.bundles.engine.bundle import BundleEntry, Memories, read_entry
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.references import Access, MissingReferenceError
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.job import DeployOrder


class Holding(Feature):
    """Holds every deploy."""

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        return replace(order, command=lambda _: ("held",), sealed=())


class References:
    """Those of a Bundle that names none."""

    async def access(self, *_: Any) -> Access:
        return Access()

    async def values(self, *_: Any) -> tuple[None, tuple[()]]:
        return None, ()


def order_of(
    plan_job: str | None, *features: Feature, is_plain: bool = False, is_gated: bool = False
) -> DeployOrder:
    attempted = {"attempt": 1, "version": "1", "digest": "sha256:1", "job": "shop-deploy-1"}
    body = {
        "metadata": {"namespace": "team", "name": "shop", "uid": "u", "resourceVersion": "1"},
        "spec": {"registry": "r.example.com", "repo": "shop", "version": "1"},
        "status": {"attempted": attempted | ({"planJob": plan_job} if plan_job else {})},
    }
    entry = read_entry(body, BundleDefaults())
    assert isinstance(entry.spec, BundleSpec)
    runner = AttemptRunner.__new__(AttemptRunner)
    runner.references = References()  # type: ignore[assignment]
    runner.features = Features(features, Memories())
    spec = replace(entry.spec, is_gated=is_gated)
    return asyncio.run(runner._order(replace(entry, is_plain=is_plain), spec))


def test_without_a_feature_that_holds_it_to_its_plan_it_has_no_job() -> None:
    with pytest.raises(MissingReferenceError) as caught:
        order_of("shop-plan-1")
    assert caught.value.reason is BundleReason.PLAN_CHANGED


def test_one_that_is_held_has_its_command_and_one_without_a_plan_the_engines() -> None:
    context: Any = None
    held = order_of("shop-plan-1", Holding(context))
    assert held.command is not None
    assert held.command(held) == ("held",)
    assert order_of(None).command is None
