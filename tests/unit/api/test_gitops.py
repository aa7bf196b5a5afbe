"""The health checks for Argo CD and Flux judge every reason of both kinds."""

import json
import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import pytest
from tests.gitops import ARGOCD, FLUX, argocd, flux

from copyrator.api.conditions import (
    ConditionStatus,
    FurtherCondition,
    Health,
    ReadyCondition,
    build_conditions,
)
from copyrator.api.reasons import INFO
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.rules import RuleReason
from copyrator.bundles.fields import bundle_reasons

NOW = datetime(2026, 11, 27, tzinfo=UTC)
PAUSED = {"Suspended", "AutoupdateDisabled", "Planned"}
"""Reasons of what is paused by its author."""
GATED = {
    "AwaitingApproval",
    "Frozen",
    "OutsideWindow",
    "TooYoung",
    "NotPromoted",
    "PromotionHeld",
    "PromotionWithdrawn",
}
"""Reasons that a person or a time ends."""
KINDS = [("operator.werf.dev/v1", "Bundle", one) for one in bundle_reasons().values()]
KINDS += [("flant.com/v1", "CopyratorRule", one) for one in RuleReason]
RUNS = {"version": "1.0.0", "digest": "sha256:1"}
ARGOCD_STATUS = {
    Health.READY: "Healthy",
    Health.PROGRESSING: "Progressing",
    Health.RETRYING: "Degraded",
    Health.STALLED: "Degraded",
}
FLUX_STATUS = {
    Health.READY: "Current",
    Health.PROGRESSING: "InProgress",
    Health.RETRYING: "InProgress",
    Health.STALLED: "Failed",
}


def judged(
    api_version: str, kind: str, ready: ReadyCondition, further: Any = None, **status: Any
) -> dict[str, Any]:
    """An object with the conditions that the operator writes."""
    changed = {**ready.conditions, **(further or {})}
    found = build_conditions((), changed, changed, generation=2, now=NOW)
    conditions = [one.to_dict() for one in found]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "shop", "namespace": "team", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": 2, "conditions": conditions, **status},
    }


def bundle(ready: ReadyCondition, further: Any = None, **status: Any) -> dict[str, Any]:
    return judged("operator.werf.dev/v1", "Bundle", ready, further, **status)


@pytest.mark.parametrize(
    ("api_version", "kind", "reason"), [one for one in KINDS if one[2] not in PAUSED]
)
def test_each_reason_has_the_health_of_ready(api_version: str, kind: str, reason: StrEnum) -> None:
    for health, expected in ARGOCD_STATUS.items():
        body = judged(api_version, kind, ReadyCondition(health, reason, "why"))
        waits = reason in GATED
        assert argocd(body) == ("Suspended" if waits else expected, f"{reason}: why")
        assert flux(body) == flux(body, by_exprs=False) == FLUX_STATUS[health]
        if waits and health is Health.PROGRESSING:
            assert flux({**body, "status": {**body["status"], "deployed": RUNS}}) == "Current"


@pytest.mark.parametrize("kept", list(ConditionStatus))
@pytest.mark.parametrize(
    ("api_version", "kind", "reason"), [one for one in KINDS if one[2] in PAUSED]
)
def test_what_is_paused_is_suspended_or_current_whatever_ready_was(
    api_version: str, kind: str, reason: StrEnum, kept: ConditionStatus
) -> None:
    body = judged(api_version, kind, ReadyCondition(Health.PAUSED, reason, "suspended", kept))
    assert (argocd(body)[0], flux(body)) == ("Suspended", "Current")
    by_kstatus = "Current" if kept is ConditionStatus.TRUE else "InProgress"
    assert flux(body, by_exprs=False) == by_kstatus


@pytest.mark.parametrize(
    ("status", "reason", "expected", "flux_expected"),
    [
        ("False", "Unhealthy", "Degraded", "Failed"),
        ("Unknown", "Progressing", "Progressing", "InProgress"),
        ("Unknown", "Forbidden", "Healthy", "Current"),
        ("True", "Healthy", "Healthy", "Current"),
    ],
)
def test_the_condition_healthy_counts(
    status: str, reason: str, expected: str, flux_expected: str
) -> None:
    healthy = {"Healthy": FurtherCondition(ConditionStatus(status), reason, "Deployment/web")}
    body = bundle(ReadyCondition(Health.READY, BundleReason.DEPLOYED, "1.0.0"), healthy)
    assert (argocd(body)[0], flux(body)) == (expected, flux_expected)
    assert ("Deployment/web" in argocd(body)[1]) == (expected != "Healthy")
    assert flux(body, by_exprs=False) == "Current", "kstatus knows only Ready"


def test_drift_and_waiting_versions_are_in_the_message_alone() -> None:
    further = {
        "UpdatePending": FurtherCondition(ConditionStatus.TRUE, "Frozen", "Gate"),
        "Drifted": FurtherCondition(ConditionStatus.TRUE, "Drifted", "Service/web"),
    }
    body = bundle(ReadyCondition(Health.READY, BundleReason.DEPLOYED, "1.0.0"), further)
    text = "Deployed: 1.0.0; UpdatePending: Gate; Drifted: Service/web"
    assert (argocd(body), flux(body)) == (("Healthy", text), "Current")


@pytest.mark.parametrize(("api_version", "kind"), sorted({one[:2] for one in KINDS}))
def test_what_the_operator_has_not_seen_is_in_progress(api_version: str, kind: str) -> None:
    ready = ReadyCondition(Health.READY, "Deployed", "1.0.0")
    body = judged(api_version, kind, ready)
    body["metadata"]["generation"] = 3
    assert (argocd(body)[0], flux(body)) == ("Progressing", "InProgress")
    del body["status"]
    assert (argocd(body)[0], flux(body)) == ("Progressing", "Unknown"), "Flux asks again"


def test_no_reason_is_named_that_does_not_exist() -> None:
    known = {
        *bundle_reasons().values(),
        *RuleReason,
        "Ready",
        "Healthy",
        "Progressing",
        "Stalled",
        "True",
        "False",
    }
    expressions = json.dumps(FLUX["healthCheckExprs"])
    named = set(re.findall(r"'(\w+)'", expressions))
    assert len(named) > 8
    assert named <= known
    waits = {one for one in (*bundle_reasons().values(), *RuleReason) if one in PAUSED | GATED}
    assert {one.severity for one in waits} == {INFO}, "none of them is a fault"
    lua = set(re.findall(r"(\w+) = true", "".join(ARGOCD.values())))
    assert lua == (PAUSED | GATED) - {"Planned"}
    assert lua < known
