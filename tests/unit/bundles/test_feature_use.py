"""Which Bundles use a feature, and which use none."""

from __future__ import annotations

from typing import Any, cast

import pytest

from copyrator.api.bundle_status import AgeStatus
from copyrator.bundles.engine.bundle import BundleEntry, Memories, read_entry
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.features.age.fields import AgeSpec
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.features.promotion.fields import PromotionStatus
from copyrator.bundles.fields import BundleDefaults

OLD = {"candidates": [{"version": "1", "digest": "sha256:a", "firstSeen": "2026-01-01T00:00:00Z"}]}
SOAK = {"soak": [{"version": "1", "digest": "sha256:a", "since": "2026-01-01T00:00:00Z"}]}


class OfOne(Feature):
    spec = AgeSpec
    status = AgeStatus

    def due(self, key: Any) -> None:
        """Offer a point."""


class OfSome(OfOne):
    spec = (AgeSpec, DependenciesSpec)
    status = (AgeStatus, PromotionStatus)
    annotation = "operator.werf.dev/asks"


class OfAll(OfOne):
    spec = None


def bundle(*, spec: Any = None, status: Any = None, asks: str = "") -> BundleEntry:
    metadata: dict[str, Any] = {"namespace": "team", "name": "shop", "labels": {"a": "b"}}
    if asks:
        metadata["annotations"] = {f"operator.werf.dev/{asks}": "1"}
    needed = {"registry": "r.example", "repo": "app"}
    body = {"metadata": metadata, "spec": needed | (spec or {}), "status": status or {}}
    return read_entry(body, BundleDefaults())


AGE, DEPENDENCIES, PROMOTION = map(pytest.mark.needs, ("age", "dependencies", "promotion"))
SPEC_OF_ONE, SPEC_OF_SOME = {"minAge": "1h"}, {"dependsOn": [{"name": "db"}]}


@pytest.mark.parametrize(
    ("entry", "used", "is_plain"),
    [
        (bundle(), {OfAll}, True),
        (bundle(status={"ready": 1}), {OfAll}, True),
        pytest.param(bundle(spec=SPEC_OF_ONE), {OfOne, OfSome, OfAll}, False, marks=AGE),
        pytest.param(bundle(spec=SPEC_OF_SOME), {OfSome, OfAll}, False, marks=DEPENDENCIES),
        pytest.param(bundle(status=OLD), {OfOne, OfSome, OfAll}, False, marks=AGE),
        pytest.param(bundle(status=SOAK), {OfSome, OfAll}, False, marks=PROMOTION),
        (bundle(asks="asks"), {OfSome, OfAll}, False),
        (bundle(asks="other"), {OfAll}, False),
        (bundle(spec={"repo": "no such"}), set(), False),
    ],
)
def test_a_bundle_uses_what_it_has_something_of(
    entry: BundleEntry, used: set[type[Feature]], *, is_plain: bool
) -> None:
    made = [kind(cast("Any", None)) for kind in (OfOne, OfSome, OfAll)]
    found = Features(made, Memories()).of(entry, Feature.due)
    assert {type(one) for one in found} == used
    assert entry.is_plain is is_plain
