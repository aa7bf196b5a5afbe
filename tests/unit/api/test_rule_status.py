"""A rule's status is bounded, true to its counts, and equal while nothing changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.rule_status import (
    MAX_FAILURE_MESSAGE,
    MAX_FAILURES,
    CopyCounts,
    Failure,
    FailureReason,
    PlanCounts,
    RuleFacts,
    RuleReason,
    build_rule_status,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
READY = ReadyCondition(Health.READY, RuleReason.SYNCED, "3 copies")
FACTS = RuleFacts(sources=1, targets=3, copies=CopyCounts(desired=3, ready=3), synced=True)


def build(previous: Any, facts: RuleFacts = FACTS, now: datetime = NOW) -> dict[str, Any]:
    return build_rule_status(previous, READY, facts, generation=2, now=now)


def test_the_status_says_what_was_found() -> None:
    status = build(None)
    assert status["observedGeneration"] == 2
    assert (status["sources"], status["targets"]) == (1, 3)
    assert status["copies"] == {
        "desired": 3,
        "ready": 3,
        "failed": 0,
        "conflicts": 0,
        "pending": 0,
    }
    assert status["failures"] == []
    assert status["lastSyncTime"] == "2026-01-01T00:00:00Z"
    assert status["conditions"][0]["reason"] == "Synced"
    assert "plan" not in status


def test_an_unchanged_world_gives_an_equal_status() -> None:
    first = build(None)
    assert build(first, now=LATER) == first


def test_a_change_that_is_synced_moves_the_time() -> None:
    more = RuleFacts(sources=2, targets=3, copies=CopyCounts(desired=6, ready=6), synced=True)
    assert build(build(None), more, LATER)["lastSyncTime"] == "2026-01-01T01:00:00Z"


def test_a_failure_keeps_the_time_of_the_last_good_state() -> None:
    bad = RuleFacts(sources=1, targets=3, copies=CopyCounts(desired=3, ready=2, failed=1))
    assert build(build(None), bad, LATER)["lastSyncTime"] == "2026-01-01T00:00:00Z"
    assert "lastSyncTime" not in build(None, bad)


def test_failures_are_sorted_samples_of_bounded_size() -> None:
    failures = [
        Failure(f"ns-{i:03}", "x", FailureReason.FORBIDDEN, "m" * 9999) for i in range(99, -1, -1)
    ]
    found = build(None, RuleFacts(failures=failures))["failures"]
    assert len(found) == MAX_FAILURES
    assert found[0]["namespace"] == "ns-000"
    assert found[0]["reason"] == "Forbidden"
    assert len(found[0]["message"]) == MAX_FAILURE_MESSAGE


def test_a_plan_is_shown() -> None:
    assert build(None, RuleFacts(plan=PlanCounts(create=5)))["plan"] == {
        "create": 5,
        "update": 0,
        "delete": 0,
    }


def test_junk_in_the_previous_status_does_no_harm() -> None:
    junk: Any
    for junk in (None, [], "x", {"conditions": 5, "lastSyncTime": 7}):
        assert build(junk)["lastSyncTime"] == "2026-01-01T00:00:00Z"


def test_the_crd_names_every_reason() -> None:
    crd = (Path(__file__).parents[3] / "crds" / "copyrators.flant.com.yaml").read_text()
    for reason in (*RuleReason, *FailureReason):
        assert reason.value in crd
