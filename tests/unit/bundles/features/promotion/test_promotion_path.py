"""The promotion path around a Bundle, and how far a version's soak is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.keys import ObjectName
from copyrator.bundles.features.promotion.path import promotes_from, waiting_soak
from copyrator.cli.ui.promotion_path import (
    BESIDE,
    MOST,
    PromotionGraph,
    PromotionPath,
)
from copyrator.cli.view.bundle import BundleView
from copyrator.kube.watch.reflector import name_of
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def bundle(name: str, *sources: str, **status: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"registry": "r.example.com", "repo": "shop"}
    if sources:
        named = [dict(zip(("namespace", "name"), one.split("/"), strict=True)) for one in sources]
        spec["promoteFrom"] = {"bundles": named, "soak": "24h"}
    ready = {"type": "Ready", "status": "True", "reason": "Deployed"}
    return {
        "metadata": {"namespace": "apps", "name": name, "uid": name},
        "spec": spec,
        "status": {"conditions": [ready], **status},
    }


def path(name: str, *bodies: dict[str, Any]) -> PromotionPath:
    found = {name_of(one): one for one in bodies}
    return PromotionGraph(found, NOW).path(ObjectName("apps", name))


def drawn(found: PromotionPath) -> list[str]:
    return ["  " * one.indent + one.name.name for one in found.stages]


def test_a_chain_is_one_below_the_other() -> None:
    chain = [bundle("a"), *(bundle(b, f"apps/{a}") for a, b in ("ab", "bc", "cd"))]
    found = path("c", *chain, bundle("other"))
    assert drawn(found) == ["a", "b", "c", "d"]
    assert [one.name.name for one in found.stages if one.is_subject] == ["c"]
    assert [(one.name, other.name) for one, other in found.links] == [
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
    ]
    assert not path("other", *chain, bundle("other")).stages


def test_several_sources_and_targets_are_indented_and_drawn_once() -> None:
    bodies = [
        *(bundle("a"), bundle("b"), bundle("c", "apps/a", "apps/b")),
        *(bundle("d", "apps/c"), bundle("e", "apps/c"), bundle("f", "apps/d", "apps/e")),
    ]
    found = path("c", *bodies)
    assert drawn(found) == ["  a", "  b", "c", "  d", "  f", "  e"]
    assert next(one.more for one in found.stages if one.name.name == "f") == ["apps/e"]
    assert [one.name for one in found.links[0]] == ["a", "c"]


def test_bundles_that_name_each_other_are_there_once() -> None:
    a, b, c = bundle("a", "apps/c"), bundle("b", "apps/a"), bundle("c", "apps/b")
    for name in "abc":
        found = path(name, a, b, c)
        assert sorted(drawn(found)) == ["a", "b", "c"]
        assert len(found.links) == 2


def test_what_the_user_may_not_see_is_counted_and_not_named() -> None:
    found = path("c", bundle("a"), bundle("c", "apps/a", "secret/x", "apps/none"))
    assert drawn(found) == ["a", "c"]
    assert found.unseen == 2
    assert "secret" not in str(found)


def test_of_many_targets_those_with_faults_are_drawn_and_the_rest_is_counted() -> None:
    failing = bundle("t499", "apps/a")
    failing["status"]["conditions"][0]["status"] = "False"
    bodies = [bundle("a"), *(bundle(f"t{n:03}", "apps/a") for n in range(499)), failing]
    began = time.process_time()
    found = path("a", *bodies)
    assert time.process_time() - began < 1
    assert drawn(found)[:3] == ["a", "  t499", "  t000"]
    assert (len(found.stages), found.left_out) == (1 + BESIDE, 500 - BESIDE)
    # one of them, and a group in which each is promoted from the one before it
    assert drawn(path("t000", *bodies)) == ["a", "t000"]
    chain = [bundle("c0"), *(bundle(f"c{n}", f"apps/c{n - 1}") for n in range(1, 500))]
    found = path("c0", *chain)
    assert len(found.stages) == MOST
    assert found.left_out == 1


PROMOTION = {"name": "promotion", "state": "Waiting", "reason": "NotPromoted", "message": "waits"}
DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
SOURCE: dict[str, Any] = {
    "deployed": {"version": "1.1", "digest": DIGEST},
    "soak": [{"version": "1.1", "digest": DIGEST, "since": "2026-01-02T06:00:00Z"}],
}


@pytest.mark.parametrize(
    ("gate", "source", "done", "text"),
    [
        (
            {"until": "2026-01-03T06:00:00Z"},
            {},
            0.25,
            "1.1 soaked 6h of 24h, 18h left",
        ),
        ({}, SOURCE, 0.25, "1.1 soaked 6h of 24h, 18h left"),
        ({"until": "2026-01-02T11:00:00Z"}, {}, 1.0, "1.1 soaked 24h of 24h"),
        ({"until": "2099-01-01T00:00:00Z"}, {}, 0.0, "1.1 soaked 0s of 24h, 639876h left"),
        ({}, {}, 0.0, "1.1 waits: its soak hasn't begun, or was broken off"),
        ({"until": "soon"}, {}, 0.0, "1.1 waits: its soak hasn't begun, or was broken off"),
    ],
)
def test_a_soak_is_as_far_as_its_gate_or_the_source_says(
    gate: dict[str, Any], source: dict[str, Any], done: float, text: str
) -> None:
    rejected = [{"version": "1.1", "reason": "NotPromoted"}]
    body = bundle("b", "apps/a", gates=[PROMOTION | gate], available={"rejected": rejected})
    found = waiting_soak(BundleView(body, NOW), [bundle("a", **source)])
    assert found is not None
    assert (round(found.done, 3), found.text) == (done, text)


def test_nothing_soaks_while_the_gate_has_passed() -> None:
    for gates in ([], [PROMOTION | {"state": "Passed"}], [PROMOTION | {"state": "Refused"}]):
        body = bundle("b", "apps/a", gates=gates)
        assert waiting_soak(BundleView(body, NOW), [bundle("a", **SOURCE)]) is None


@given(JSON, JSON, st.text(max_size=40))
def test_any_objects_have_a_path(status: Any, spec: Any, version: str) -> None:
    a, b = bundle("a"), bundle("b", "apps/a", gates=[PROMOTION])
    for forged in ({"status": status}, {"spec": spec}, {"spec": {"promoteFrom": spec}}):
        path("b", a | forged, b | forged)
        promotes_from(a | forged)
    forged = {"soak": [{"digest": DIGEST, "since": "9999-12-31T23:59:59Z"}], "deployed": SOURCE}
    forged["deployed"] = {"digest": DIGEST, "version": version}
    path("b", a | {"status": forged}, b)
    path("b", a | {"status": {"soak": status, "deployed": status}}, b)


ATTESTED = {
    "environment": "staging",
    "soak": "24h",
    "cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}},
}


@pytest.mark.parametrize(
    ("gate", "state"),
    [
        (None, None),
        ({"state": "Passed"}, "Ready"),
        (
            {
                "state": "Waiting",
                "message": "1.1 has no evidence from the environment staging that counts",
            },
            "Waiting",
        ),
        ({"state": "Waiting", "message": "1.1 can't be promoted: 503; it is tried again"}, None),
        ({"state": "Waiting", "message": "in the environment staging-eu release x"}, None),
    ],
)
def test_environments_of_other_clusters_are_on_the_path(gate: Any, state: str | None) -> None:
    shop = bundle("shop", gates=[{"name": "promotion", **gate}] if gate else [])
    shop["spec"]["promoteFrom"] = {"attestations": [{**ATTESTED, "release": "apps/shop"}]}
    (stage,) = path("shop", shop).stages
    (found,) = stage.environments
    assert found.is_missing is {None: None, "Ready": False, "Waiting": True}[state]
    assert found.text == ", ".join(
        filter(
            None,
            ("environment staging", "release apps/shop", "soak 24h, at most 168h old", state),
        )
    )


@pytest.mark.needs("attest")
@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "not attested as staging yet"),
        ([{"digest": "a", "state": "Attested"}], "not attested as staging yet"),
        ([{"digest": "b", "state": "Attested"}], "attested as staging 3h ago"),
        ([{"digest": "b", "state": "Withdrawn"}], "withdrawn as staging 3h ago"),
    ],
)
def test_what_a_bundle_attests_is_on_the_path(records: list[Any], said: str) -> None:
    issued = [{**one, "issuedAt": "2026-01-02T09:00:00Z"} for one in records]
    shop = bundle("shop", deployed={"digest": "b", "version": "1.1"}, attest=issued)
    shop["spec"]["attest"] = {"environment": "staging"}
    (stage,) = path("shop", shop).stages
    assert stage.attests == said
