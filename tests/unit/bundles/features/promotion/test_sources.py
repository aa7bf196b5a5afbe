"""What Bundles see of those that they are promoted from: soaks, cycles, and whom a change wakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.api.seen_time import SeenTime
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, read_entry
from copyrator.bundles.engine.gate import load_gates
from copyrator.bundles.engine.links import MAX_SEARCHED, find_cycle_fault
from copyrator.bundles.engine.step import Change
from copyrator.bundles.features.dependencies.feature import DependenciesFeature
from copyrator.bundles.features.promotion.feature import PromotionFeature
from copyrator.bundles.features.promotion.fields import SoakStatus
from copyrator.bundles.features.promotion.gates import PromotionSource, allows, find_sources
from copyrator.bundles.fields import BundleDefaults

OWN = "operator.werf.dev/"
TO_ALL = {f"{OWN}promote-to": "*"}
DIGEST = "sha256:" + "1" * 64
SOAK = {"version": "1.0.0", "digest": DIGEST, "since": "2026-05-04T12:00:00Z"}
DEPLOYED: dict[str, Any] = {
    "deployed": {"version": "1.0.0", "digest": DIGEST, "time": "2026-05-04T12:00:00Z"},
    "soak": [SOAK],
}


def bundle(
    name: str,
    *,
    depends_on: Iterable[str] = (),
    promoted_from: Iterable[str] = (),
    annotations: Mapping[str, str] = {},
    spec: Mapping[str, Any] = {},
    status: Mapping[str, Any] = {},
    **metadata: Any,
) -> BundleEntry:
    """The Bundle ``namespace/name``, or one of the namespace ``a``; so are those that it names."""

    def refs(names: Iterable[str]) -> list[dict[str, str]]:
        return [{"namespace": key.namespace, "name": key.name} for key in map(key_of, names)]

    own = key_of(name)
    about = {"namespace": own.namespace, "name": own.name, "uid": name} | metadata
    waits: dict[str, Any] = {"dependsOn": refs(depends_on)} if depends_on else {}
    if promoted_from:
        waits["promoteFrom"] = {"bundles": refs(promoted_from)}
    body = {
        "metadata": about | {"annotations": dict(annotations)},
        "spec": {"registry": "r.example.com", "repo": own.name} | waits | dict(spec),
        "status": dict(status),
    }
    return read_entry(body, BundleDefaults())


def key_of(name: str) -> BundleKey:
    namespace, _, name = name.rpartition("/")
    return BundleKey(namespace or "a", name)


def cache(*entries: BundleEntry | None) -> BundleCache:
    bundles = BundleCache()
    for one in entries:
        assert one is None or bundles.take(one)
    return bundles


def spec_of(entry: BundleEntry) -> BundleSpec:
    assert isinstance(entry.spec, BundleSpec)
    return entry.spec


def test_a_source_shows_its_soak_only_to_whom_it_allows() -> None:
    ours, theirs = bundle("ours", status=DEPLOYED), bundle("b/theirs", status=DEPLOYED)
    held = bundle("b/held", annotations=TO_ALL | {f"{OWN}hold": "no"}, status=DEPLOYED)
    older = bundle("older", status=DEPLOYED, creationTimestamp="2026-05-04T12:00:01Z")
    going = bundle("going", status=DEPLOYED, deletionTimestamp="2026-05-04T12:00:00Z")
    named = ["ours", "b/theirs", "b/held", "older", "going", "none"]
    spec = spec_of(bundle("shop", promoted_from=named))

    seen = SeenTime(since=datetime(2026, 5, 4, tzinfo=UTC))
    found = find_sources(cache(ours, theirs, held, older, going), spec, lambda: seen)

    soak = (SoakStatus(version="1.0.0", digest=DIGEST, since="2026-05-04T12:00:00Z"),)
    assert found.seen is seen
    assert found.bundles == (
        PromotionSource(name="a/ours", is_allowed=True, running=DIGEST, soak=soak),
        PromotionSource(name="b/theirs"),
        PromotionSource(name="b/held", is_allowed=True, hold="no", running=DIGEST, soak=soak),
        PromotionSource(name="a/older", is_allowed=True, running=DIGEST),  # a backup's soak
        PromotionSource(name="a/going"),
        PromotionSource(name="a/none"),
    )
    assert find_sources(cache(), spec_of(bundle("shop")), SeenTime).bundles == ()


def test_what_is_gone_allows_nothing() -> None:
    assert allows(bundle("x"), "a")
    assert not allows(bundle("x"), "b")
    assert allows(bundle("x", annotations=TO_ALL), "b")
    assert not allows(None, "a")
    assert not allows(bundle("x", deletionTimestamp="2026-05-04T12:00:00Z"), "a")


def features(bundles: BundleCache) -> tuple[DependenciesFeature, PromotionFeature]:
    """They know all Bundles in the cache."""
    gates = load_gates()
    context = cast("Any", SimpleNamespace(gates=gates, bundles=bundles))
    made = DependenciesFeature(context), PromotionFeature(context)
    for feature in made:
        for one in bundles:
            list(feature.wakes(None, one))
    return made


@pytest.mark.parametrize(
    ("entry", "others", "kept"),
    [
        (bundle("x"), [], False),
        (bundle("x", status=DEPLOYED), [], True),
        (bundle("x", annotations={f"{OWN}promote-to": "nobody"}), [], True),
        (bundle("x"), [bundle("y", promoted_from=["x"])], True),
        (bundle("x"), [bundle("b/y", promoted_from=["a/x"])], False),
        (bundle("x"), [bundle("y", depends_on=["x"])], False),
    ],
)
def test_a_soak_is_kept_where_somebody_may_be_promoted_by_it(
    entry: BundleEntry, others: list[BundleEntry], kept: bool
) -> None:
    assert (entry.key in features(cache(entry, *others))[1].keys) is kept


def fault(*entries: BundleEntry) -> str | None:
    return find_cycle_fault(load_gates().links, cache(*entries), entries[0])


@pytest.mark.needs("dependencies")
def test_a_cycle_of_both_fields_names_each_step() -> None:
    x, y = bundle("x", depends_on=["y"]), bundle("y", promoted_from=["x"])
    of = "is a cycle of dependsOn and promoteFrom: "
    there, back = "a/x depends on a/y", "a/y is promoted from a/x"
    assert fault(x, y) == f"spec.dependsOn: {of}{there}, {back}; remove one of these"
    assert fault(y, x) == f"spec.promoteFrom.bundles: {of}{back}, {there}; remove one of these"


@pytest.mark.needs("dependencies")
def test_a_cycle_ends_at_a_bundle_that_does_not_allow_the_promotion() -> None:
    here = bundle("x", promoted_from=["b/y"])
    assert fault(here, bundle("b/y", depends_on=["a/x"])) is None
    there = bundle("b/y", annotations=TO_ALL, depends_on=["a/x"])
    assert "is a cycle of dependsOn and promoteFrom" in (fault(here, there) or "")


@pytest.mark.needs("dependencies")
def test_the_limit_of_a_search_is_of_each_field() -> None:
    """Many Bundles by both fields together are no fault."""
    half = range(MAX_SEARCHED // 2 + 1)
    chains = [bundle(f"d{i}", depends_on=[f"d{i + 1}"]) for i in half]
    chains += [bundle(f"p{i}", promoted_from=[f"p{i + 1}"]) for i in half]
    first = bundle("x", depends_on=["d0"], promoted_from=["p0"])
    assert fault(first, *chains) is None


ONCE = bundle("x", status=DEPLOYED)
BROKEN, REFUSED = (
    {"conditions": [{"type": "Ready", "status": "False", "reason": reason}]}
    for reason in ("DeployFailed", "InvalidSpec")
)


@pytest.mark.needs("dependencies")
@pytest.mark.parametrize(
    ("before", "after", "woken"),
    [
        (ONCE, ONCE, []),
        (ONCE, None, ["depends", "promoted"]),
        (None, ONCE, ["depends", "promoted"]),
        (None, None, []),
        (ONCE, bundle("x", status=DEPLOYED | {"soak": []}), ["promoted"]),
        (ONCE, bundle("x", status=DEPLOYED, annotations={f"{OWN}hold": ""}), ["promoted"]),
        (ONCE, bundle("x", status=DEPLOYED, depends_on=["y"]), ["depends", "promoted"]),
        (bundle("x", status=REFUSED), bundle("x", status=BROKEN), ["depends", "promoted"]),
        (ONCE, bundle("x", status=DEPLOYED, annotations=TO_ALL), ["elsewhere"]),
        (bundle("x", status=DEPLOYED, annotations=TO_ALL), ONCE, ["elsewhere"]),
    ],
    ids=[
        *("nothing", "gone", "new", "never there", "soak", "hold", "edges", "refused"),
        *("allowed", "not allowed any more"),
    ],
)
def test_a_change_wakes_those_whose_verdict_may_differ(
    before: BundleEntry | None, after: BundleEntry | None, woken: list[str]
) -> None:
    waiting = [
        bundle("depends", depends_on=["x"]),
        bundle("promoted", promoted_from=["x"]),
        bundle("b/elsewhere", promoted_from=["a/x"]),
    ]
    known = features(cache(*waiting, after))
    found = [change for one in known for change in one.wakes(before, after)]
    assert sorted(key.name for key, _ in found) == woken
    assert {why for key, why in found if key.name == "depends"} <= {Change.DEPENDENCY}
    assert {why for key, why in found if key.name != "depends"} <= {Change.GATE}


def test_what_is_not_allowed_hears_nothing_of_a_soak() -> None:
    allowed = bundle("x", annotations=TO_ALL)
    waiting = bundle("b/elsewhere", promoted_from=["a/x"])
    for before, after, count in (
        (bundle("x"), ONCE, 0),
        (allowed, bundle("x", annotations=TO_ALL, status=DEPLOYED), 1),
    ):
        _, promotion = features(cache(waiting, after))
        assert len([*promotion.wakes(before, after)]) == count


def test_a_source_of_the_same_namespace_records_its_soak_from_now_on() -> None:
    now = bundle("x", promoted_from=["a/here", "b/there", "a/none", "a/known"])
    before = bundle("x", promoted_from=["a/known"])
    others = [bundle("here"), bundle("b/there"), bundle("known")]
    _, promotion = features(cache(before, *others))
    assert promotion.context.bundles.take(replace(now, resource_version="2"))
    assert [*promotion.wakes(before, now)] == [(key_of("here"), Change.WATCHED)]
