"""What the status says of health in words, however it was forged."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.cli.core.output import printable
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import describe_health, explain_health
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
READY = {"type": "Ready", "status": "True", "reason": "Deployed", "message": "fine"}
SICK = {
    "type": "Healthy",
    "status": "False",
    "reason": "Unhealthy",
    "message": "not healthy: Deployment/web (Ready: 0/1)",
    "lastTransitionTime": "2026-01-02T09:00:00Z",
}


def lines(*conditions: Any, mode: str = "Watch") -> list[str]:
    body = bundle(*conditions, mode=mode)
    spec = parse_bundle(body, BundleDefaults())
    assert isinstance(spec, BundleSpec)
    return [*describe_health(body, spec, NOW), *explain_health(body, spec)]


def bundle(*conditions: Any, mode: str = "Watch") -> dict[str, Any]:
    spec = {"registry": "r.example.com", "repo": "shop", "health": mode}
    metadata = {"namespace": "apps", "name": "shop"}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": list(conditions)}}


def test_describe_and_why_say_what_isnt_healthy() -> None:
    head, text, why = lines(READY, SICK)
    assert head.split() == ["Health:", "Unhealthy,", "for", "3h"]
    assert text == "  not healthy: Deployment/web (Ready: 0/1)"
    assert why == (
        "Whether its release is healthy: False, Unhealthy: "
        "not healthy: Deployment/web (Ready: 0/1)."
    )


def test_before_the_first_status_nothing_is_known() -> None:
    assert [one.split(":")[-1].strip() for one in lines()] == [
        "not known yet",
        "nothing is known yet.",
    ]


def test_nothing_is_said_where_nobody_asks() -> None:
    assert lines(SICK, mode="Off") == []


def test_it_is_seen_at_a_glance() -> None:
    body = bundle(READY, SICK)
    found = {column.head: column.value(body) for column in rows.bundle_columns(NOW)}
    assert found["REASON"] == "Deployed,Unhealthy"
    assert rows.bundle_trouble(body) == SICK["message"]
    unseen = {**SICK, "status": "Unknown", "reason": "Forbidden", "message": "grant it"}
    assert rows.bundle_trouble(bundle(READY, unseen)) == "grant it"
    rolling = {**unseen, "reason": "Progressing"}
    assert rows.bundle_trouble(bundle(READY, rolling)) == ""
    fine = bundle(READY, {**SICK, "status": "True", "reason": "Healthy"})
    assert rows.bundle_trouble(fine) == ""


@given(condition=JSON)
def test_a_forged_status_is_shown_escaped(condition: Any) -> None:
    forged = {**condition, "type": "Healthy"} if isinstance(condition, dict) else condition
    for line in lines(forged):
        assert line == printable(line)
        assert "\n" not in line
