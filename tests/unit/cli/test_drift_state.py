"""What the status says of drift in words, however it was forged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.bundles.deploy.identity import spec_hash
from copyrator.cli.core.output import printable
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import describe_drift, explain_drift
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
EARLIER = "2026-01-02T11:50:00Z"
FOUND: dict[str, Any] = {
    "check": {"job": "shop-drift-2", "number": 2, "outcome": "Planned", "startedAt": EARLIER},
    "checkedAt": EARLIER,
    "verdict": "Drifted",
    "attempt": 1,
    "objects": ["update ::ConfigMap:app"],
    "count": 21,
    "since": "2026-01-02T09:00:00Z",
    "foundJob": "shop-drift-2",
    "corrections": 1,
}
DRIFTED = {
    "type": "Drifted",
    "status": "True",
    "reason": "Drifted",
    "message": "update ::ConfigMap:app has drifted",
}


def bundle(drift: Any = FOUND, mode: str = "Correct", **status: Any) -> dict[str, Any]:
    spec = {"registry": "r.example.com", "repo": "shop", "drift": {"mode": mode}}
    made_of = {"digest": "sha256:a", "specHash": spec_hash(spec, {}, {})}
    found = {
        "conditions": [DRIFTED],
        "deployed": {"version": "1.0.0", "reference": "r.example.com/shop", **made_of},
        "attempted": {"attempt": 1, "outcome": "Succeeded"},
        "baseline": {**made_of, "madeAt": EARLIER},
        "drift": drift,
        **status,
    }
    metadata = {"namespace": "apps", "name": "shop", "uid": "u"}
    return {"metadata": metadata, "spec": spec, "status": found}


def lines(body: dict[str, Any]) -> tuple[list[str], list[str]]:
    spec = parse_bundle(body, BundleDefaults())
    assert isinstance(spec, BundleSpec)
    return list(describe_drift(body, spec, NOW)), list(explain_drift(body, spec, NOW))


def test_describe_names_what_drifted_since_when_and_when_it_is_looked_at_next() -> None:
    described, _ = lines(bundle())
    text = "\n".join(described)
    assert "Drifted, since 3h; Correct, every 1h" in described[0]
    assert "  update ::ConfigMap:app\n  and 20 more\n" in text
    assert "in the log of the Job shop-drift-2" in text
    assert described[-2].split() == ["Corrections:", "1"]
    assert described[-1].split()[:3] == ["Next", "check:", "in"]


def test_why_says_what_drift_is_and_when_it_is_looked_at_next() -> None:
    _, why = lines(bundle())
    assert "It is checked every 1h; next check: in " in why[0]
    assert why[0].endswith("copyrator plan bundle apps/shop --refresh")
    assert why[1] == "  Drifted: update ::ConfigMap:app has drifted."
    assert why[2] == "  1 correction of it since a regular check found none."


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"baseline": {}}, "now"),
        ({"deployed": {}}, "none now"),
        ({"drift": {"check": {"outcome": "Running", "job": "j"}}}, "running as the Job j"),
    ],
)
def test_the_next_check(status: dict[str, Any], said: str) -> None:
    described, why = lines(bundle(**status))
    assert described[-1].endswith(said)
    assert f"next check: {said};" in why[0]


def test_nothing_is_said_where_nobody_asks() -> None:
    assert lines(bundle(mode="Off")) == ([], [])


def test_drift_is_seen_at_a_glance() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Deployed", "message": "fine"}
    body = bundle(conditions=[ready, DRIFTED])
    found = {column.head: column.value(body) for column in rows.bundle_columns(NOW)}
    assert found["REASON"] == "Deployed,Drifted"
    assert rows.bundle_trouble(body) == "update ::ConfigMap:app has drifted"
    fine = bundle(conditions=[ready, {**DRIFTED, "status": "False", "reason": "InSync"}])
    found = {column.head: column.value(fine) for column in rows.bundle_columns(NOW)}
    assert found["REASON"] == "Deployed"


@given(drift=JSON, condition=JSON)
def test_a_forged_status_is_shown_escaped(drift: Any, condition: Any) -> None:
    body = bundle(drift, conditions=[condition])
    for line in (line for part in lines(body) for line in part):
        assert line == printable(line)
        assert "\n" not in line
