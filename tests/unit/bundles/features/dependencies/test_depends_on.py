"""The gate of ``spec.dependsOn``, and cycles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.builders.bundles import bundle

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, read_entry
from copyrator.bundles.engine.gate import PASSED, Candidate, Facts, Findings, Occasion, Waiting
from copyrator.bundles.engine.step import Change
from copyrator.bundles.features import FEATURES
from copyrator.bundles.features.dependencies.feature import DependenciesFeature
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.features.dependencies.gates import (
    GATE,
    GATES,
    MAX_CAUSE,
    Unready,
    find_unready,
)
from copyrator.bundles.fields import BundleDefaults, parse_bundle

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def parsed(depends_on: Any) -> BundleSpec | InvalidSpec:
    return parse_bundle(bundle(namespace="apps", dependsOn=depends_on), BundleDefaults())


def test_a_dependency_is_in_the_same_namespace_unless_it_says_another() -> None:
    found = parsed([{"name": "db"}, {"namespace": "infra", "name": "dns"}, {"name": "db"}])
    assert isinstance(found, BundleSpec)
    assert found.part(DependenciesSpec).depends_on == (
        BundleKey("apps", "db"),
        BundleKey("infra", "dns"),
    )
    assert GATE.concerns(found)
    none = parsed(None)
    assert isinstance(none, BundleSpec)
    assert not GATE.concerns(none)
    assert "'b*' is a pattern" in str(parsed([{"name": "a", "namespace": "b*"}]))


def test_the_gate_waits_for_those_that_are_not_ready_and_names_some() -> None:
    spec = parsed([{"name": "db"}])
    assert isinstance(spec, BundleSpec)

    def judge(*unready: str) -> object:
        facts = Facts(BundleStatus(), Occasion.NEW_DIGEST, findings=Findings((Unready(unready),)))
        return GATE.judge(spec, Candidate("1", "sha256:0"), facts, NOW)

    assert judge() is PASSED
    assert judge("a isn't", "b isn't") == Waiting("DependencyNotReady", "a isn't; b isn't")
    assert judge(*"abc") == Waiting("DependencyNotReady", "a; b; c")
    assert judge(*"abcd") == Waiting("DependencyNotReady", "a; b; c; and 1 more")
    assert judge(*"abcde") == Waiting("DependencyNotReady", "a; b; c; and 2 more")


def test_only_new_versions_and_requests_wait() -> None:
    assert GATE.occasions == {Occasion.NEW_DIGEST, Occasion.REQUEST}


SPEC = {"registry": "r.example.com", "repo": "db", "version": "1.*"}
DISABLED = {"operator.werf.dev/disable-autoupdate": ""}
HELD = {"operator.werf.dev/hold": "an incident"}
DIGEST = "sha256:" + "a" * 64
ELSEWHERE = "isn't Ready (or not Healthy, where that is watched), or doesn't exist"


def db(
    ready: tuple[str, ...] | None = ("True", "Deployed", "1.0.0 is deployed"),
    *,
    namespace: str = "apps",
    observed: int | None = 3,
    spec: Mapping[str, Any] = {},
    annotations: Mapping[str, str] = {},
    metadata: Mapping[str, Any] = {},
    further: Iterable[tuple[str, ...]] = (),
    edited: bool = False,
    **status: Any,
) -> BundleEntry:
    """A dependency; what is deployed was made of its spec, unless that was ``edited`` since."""
    about = {"namespace": namespace, "name": "db", "uid": "u", "generation": 3}
    about |= {"annotations": dict(annotations)} | dict(metadata)
    body: dict[str, Any] = {"metadata": about, "spec": SPEC | dict(spec)}
    conditions = [("Ready", *ready)] if ready else []
    status["conditions"] = [
        dict(zip(("type", "status", "reason", "message"), one, strict=True))
        for one in (*conditions, *further)
    ]
    status |= {"observedGeneration": observed} if observed else {}
    made_of = "before" if edited else read_entry(body, BundleDefaults()).spec_hash
    deployed = {"version": "1.0.0", "digest": DIGEST, "specHash": made_of}
    body["status"] = {"deployed": deployed} | status
    return read_entry(json.loads(json.dumps(body)), BundleDefaults())


def suspended(
    before: str, reason: str, *, by: str = "Suspended", generation: int = 3, **more: Any
) -> dict[str, Any]:
    """What a Bundle has whose Ready was this when it was suspended."""
    kept = {"ready": before, "reason": reason, "message": "so it was", "generation": generation}
    told = f"suspended; before: {reason}: so it was"
    pending = {"pending": more.pop("pending")} if "pending" in more else {}
    what = {"spec": {"suspend": True}} if by == "Suspended" else {"annotations": DISABLED}
    return what | {"ready": (before, by, told), "suspension": kept | pending} | more


OFF = "AutoupdateDisabled"
NEVER = "suspended; never reconciled"
STATES: dict[str, tuple[dict[str, Any] | None, str]] = {
    "up to date": ({}, ""),
    "held for promotion": ({"annotations": HELD}, ""),
    "a newer version waits for approval": (
        {"further": [("UpdatePending", "True", "AwaitingApproval", "plan 7 waits")]},
        "",
    ),
    "healthy": ({"spec": {"health": "Watch"}, "further": [("Healthy", "True", "Healthy", "")]}, ""),
    "unhealthy": (
        {
            "spec": {"health": "Watch"},
            "further": [("Healthy", "False", "Unhealthy", "Deployment/web: no pod is ready.")],
        },
        "is Ready, but isn't Healthy: Unhealthy: Deployment/web: no pod is ready",
    ),
    "between healthy and unhealthy": (
        {"spec": {"health": "Watch"}, "further": [("Healthy", "Unknown", "Progressing", "wait")]},
        "is Ready, but isn't Healthy: Progressing: wait",
    ),
    "health not known yet": ({"spec": {"health": "Watch"}}, "is Ready, but isn't Healthy"),
    "unhealthy, not watched any more": (
        {"further": [("Healthy", "False", "Unhealthy", "Deployment/web")]},
        "",
    ),
    "it doesn't exist": (None, "doesn't exist"),
    "it is being deleted": (
        {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}},
        "is being deleted",
    ),
    "deleted while suspended": (
        suspended("True", "Deployed") | {"metadata": {"deletionTimestamp": "2026-05-04T12:00:00Z"}},
        "is being deleted",
    ),
    "new": ({"ready": None, "observed": None}, "is new, and isn't reconciled yet"),
    "an edit": ({"observed": 2}, "has an edit that isn't reconciled yet"),
    "deploying": (
        {"ready": ("Unknown", "Deploying", "Deploying 1.1.0 with Job db-2")},
        "isn't Ready: Deploying: Deploying 1.1.0 with Job db-2",
    ),
    "a deploy fails": (
        {"ready": ("False", "DeployFailed", "1.1.0: Pod/x failed.")},
        "isn't Ready: DeployFailed: 1.1.0: Pod/x failed",
    ),
    "a deploy fails without a message": (
        {"ready": ("False", "DeployFailed", "")},
        "isn't Ready: DeployFailed",
    ),
    "a poll failed, which leaves Ready as it is": (
        {
            "failedPolls": {"count": 1, "since": "2026-05-04T12:00:00Z"},
            "lastError": {"reason": "RateLimited", "message": "429"},
        },
        "is Ready, but its last poll failed: RateLimited: 429",
    ),
    "an error of a deploy before the one that succeeded": (
        {"lastError": {"reason": "DeployFailed", "message": "no"}},
        "",
    ),
    "a first install waits for approval": (
        {"ready": ("Unknown", "AwaitingApproval", "plan 7")},
        "isn't Ready: AwaitingApproval: plan 7",
    ),
    "an edit waits for a freeze": (
        {"ready": ("Unknown", "Frozen", "apps is frozen"), "edited": True},
        "isn't Ready: Frozen: apps is frozen",
    ),
    "not valid": (
        {"ready": ("False", "InvalidSpec", "spec.repo is missing"), "spec": {"repo": 1}},
        "isn't Ready: InvalidSpec: spec.repo is missing",
    ),
    "suspended, and up to date": (suspended("True", "Deployed"), ""),
    "paused, and up to date": (suspended("True", "Deployed", by=OFF), ""),
    "both, and up to date": (
        suspended("True", "Deployed", by=OFF) | {"spec": {"suspend": True}},
        "",
    ),
    "suspended and held, and up to date": (
        suspended("True", "Deployed") | {"annotations": HELD},
        "",
    ),
    "suspended, with an edit that deploys nothing": (
        suspended("True", "Deployed", generation=2),
        "",
    ),
    "suspended, and a newer version is there": (
        suspended("True", "Deployed", pending="1.1.0 (sha256:bb) is available"),
        "is suspended, and doesn't run what it asks for: 1.1.0 (sha256:bb) is available",
    ),
    "suspended, with an edit that isn't deployed": (
        suspended("True", "Deployed", edited=True),
        "is suspended, and doesn't run what it asks for: it was edited",
    ),
    "suspended, with an edit that no operator saw": (
        suspended("True", "Deployed", observed=2),
        "has an edit that isn't reconciled yet",
    ),
    "paused, and edited since": (
        suspended("True", "Deployed", by=OFF, generation=2),
        "was edited while the annotation operator.werf.dev/disable-autoupdate disables its updates",
    ),
    "paused, with an edit that isn't deployed": (
        suspended("True", "Deployed", by=OFF, edited=True),
        "was edited while the annotation operator.werf.dev/disable-autoupdate disables its updates",
    ),
    "suspended after a failed deploy": (
        suspended("False", "DeployFailed"),
        "isn't Ready: Suspended: suspended; before: DeployFailed: so it was",
    ),
    "suspended before it was reconciled": (
        {
            "spec": {"suspend": True},
            "ready": ("Unknown", "Suspended", NEVER),
            "suspension": {"generation": 3},
        },
        f"isn't Ready: Suspended: {NEVER}",
    ),
    "suspended while its Job runs": (
        {"spec": {"suspend": True}, "ready": ("Unknown", "Deploying", "with Job db-2")},
        "isn't Ready: Deploying: with Job db-2",
    ),
    "suspended, and not valid": (
        suspended("True", "Deployed") | {"ready": ("False", "InvalidSpec", "spec.env: no")},
        "isn't Ready: InvalidSpec: spec.env: no",
    ),
    "suspended, and no registry answers": (
        suspended(
            "True",
            "Deployed",
            failedPolls={"count": 1},
            lastError={"reason": "RegistryUnreachable", "message": "no route"},
        ),
        "is suspended, and has an error: RegistryUnreachable: no route",
    ),
    "suspended, and unhealthy": (
        suspended("True", "Deployed", further=[("Healthy", "False", "Unhealthy", "Deployment/web")])
        | {"spec": {"suspend": True, "health": "Watch"}},
        "is Ready, but isn't Healthy: Unhealthy: Deployment/web",
    ),
    "resumed a moment ago": (
        suspended("True", "Deployed", by=OFF) | {"annotations": {}},
        "was resumed, and isn't reconciled since",
    ),
}
if "health" not in FEATURES:
    STATES = {
        name: state
        for name, state in STATES.items()
        if "health" not in (state[0] or {}).get("spec", {})
    }


def unready(entry: BundleEntry | None, namespace: str = "apps") -> tuple[str, ...]:
    bundles = BundleCache()
    if entry is not None:
        bundles.take(entry)
    spec = parsed([{"name": "db", "namespace": namespace}])
    assert isinstance(spec, BundleSpec)
    return find_unready(bundles, spec).texts


@pytest.mark.parametrize("state", STATES)
def test_a_dependency_passes_or_its_true_cause_is_named(state: str) -> None:
    parts, fault = STATES[state]
    entry = None if parts is None else db(**parts)
    assert unready(entry) == ((f"Bundle apps/db {fault}",) if fault else ())


@pytest.mark.parametrize("state", STATES)
def test_of_another_namespace_only_whether_it_passes_is_said(state: str) -> None:
    parts, fault = STATES[state]
    entry = None if parts is None else db(**parts, namespace="infra")
    assert unready(entry, "infra") == ((f"Bundle infra/db {ELSEWHERE}",) if fault else ())


def test_a_long_cause_is_cut_at_a_word() -> None:
    (text,) = unready(db(("False", "DeployFailed", "no such thing " * 99)))
    assert text.endswith(("such …", "no …", "thing …"))
    assert len(text) < MAX_CAUSE + 40
    most = "x " * ((MAX_CAUSE - len("Failed: ")) // 2 - 1) + "xx"
    start = "Bundle apps/db isn't Ready: Failed: "
    for message, shown in ((most, most), (f"{most}x", f"{most[:-3]} …")):
        assert unready(db(("False", "Failed", message))) == (start + shown,)


@pytest.mark.parametrize("before", STATES)
def test_whoever_waits_is_woken_where_the_cause_changes(before: str) -> None:
    """In another namespace, where it begins or ceases to pass."""
    for state, (parts, fault) in STATES.items():
        for namespace in ("apps", "infra"):
            known, was = STATES[before]
            was_in, is_in = (
                None if one is None else db(**one, namespace=namespace) for one in (known, parts)
            )
            feature = DependenciesFeature(cast("Any", SimpleNamespace(gates=GATES)))
            assert not [*feature.wakes(None, waiting(namespace))]
            woken = [why for _, why in feature.wakes(was_in, is_in)]
            is_told = was != fault if namespace == "apps" else bool(was) != bool(fault)
            if is_told:
                assert woken == [Change.DEPENDENCY], (before, state, namespace)
            elif not (None in (known, parts) or "not valid" in before + state):
                assert woken == [], (before, state, namespace)  # else a cycle may begin or end


def waiting(namespace: str) -> BundleEntry:
    spec = SPEC | {"repo": "shop", "dependsOn": [{"name": "db", "namespace": namespace}]}
    body = {"metadata": {"namespace": "apps", "name": "shop", "uid": "s"}, "spec": spec}
    return read_entry(body, BundleDefaults())
