"""Conditions mean what kstatus says, and stand still while nothing changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.conditions import (
    MAX_MESSAGE,
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    Health,
    ReadyCondition,
    build_conditions,
    conditions_by_type,
    ready_reason,
    unmanaged_conditions,
    with_further,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

MEANINGS = [
    (Health.READY, "True", "False", "False"),
    (Health.PROGRESSING, "Unknown", "True", "False"),
    (Health.RETRYING, "False", "True", "False"),
    (Health.STALLED, "False", "False", "True"),
    (Health.PAUSED, "Unknown", "False", "False"),
]


def build(previous: Any, health: Health, message: str = "", later: float = 0) -> list[Any]:
    verdict = ReadyCondition(health, "Because", message)
    now = NOW + timedelta(seconds=later)
    return build_conditions(previous, verdict, generation=4, now=now)


@pytest.mark.parametrize(("health", "ready", "reconciling", "stalled"), MEANINGS)
def test_each_health_has_its_three_conditions(
    health: Health, ready: str, reconciling: str, stalled: str
) -> None:
    found = build([], health)
    assert [(item["type"], item["status"]) for item in found] == [
        ("Ready", ready),
        ("Reconciling", reconciling),
        ("Stalled", stalled),
    ]
    assert all(item["reason"] == "Because" for item in found)
    assert all(item["observedGeneration"] == 4 for item in found)
    assert all(item["lastTransitionTime"] == "2026-01-02T03:04:05Z" for item in found)


@pytest.mark.parametrize("status", ["True", "False"])
def test_update_pending_is_a_condition_only_where_there_are_gates(status: str) -> None:
    verdict = ReadyCondition(Health.READY, "Deployed", "1.0.0 is deployed")
    update = FurtherCondition(ConditionStatus(status), "TooYoung", "Gate age: seen a moment ago")
    further = {ConditionType.UPDATE_PENDING: update, ConditionType.VERIFIED: None}

    found = build_conditions([], verdict, generation=4, now=NOW, further=further)

    assert found[:3] == build_conditions([], verdict, generation=4, now=NOW)
    assert found[3:] == [
        {
            "type": "UpdatePending",
            "status": status,
            "reason": "TooYoung",
            "message": "Gate age: seen a moment ago",
            "observedGeneration": 4,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ]


def test_one_condition_is_replaced_in_its_place() -> None:
    others = {"type": "Sunny", "status": "True"}
    before = [others, *build([], Health.READY)]
    update = FurtherCondition(ConditionStatus.TRUE, "TooYoung", "Gate age")

    def replaced(previous: Any, one: FurtherCondition | None, minutes: int) -> list[Any]:
        now = NOW + timedelta(minutes=minutes)
        kind = ConditionType.UPDATE_PENDING
        return with_further(previous, kind, one, generation=5, now=now)

    pending = {
        "type": "UpdatePending",
        "status": "True",
        "reason": "TooYoung",
        "message": "Gate age",
        "observedGeneration": 5,
        "lastTransitionTime": "2026-01-02T03:05:05Z",
    }
    found = replaced(before, update, 1)
    assert found == [*before[1:], pending, others]
    later = replaced(found, replace(update, message="other"), 2)
    assert later == [*before[1:], pending | {"message": "other"}, others]
    ended = replaced(later, replace(update, status=ConditionStatus.FALSE), 3)
    assert ended[3]["lastTransitionTime"] == "2026-01-02T03:07:05Z"
    assert replaced(later, None, 4) == [*before[1:], others]


def test_the_same_verdict_later_gives_equal_conditions() -> None:
    first = build(None, Health.RETRYING, "m")
    assert build(first, Health.RETRYING, "m", later=60) == first


def test_only_the_condition_that_changed_gets_a_new_time() -> None:
    first = build(None, Health.RETRYING)
    after = conditions_by_type(build(first, Health.STALLED, later=60))
    assert after["Ready"]["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert after["Stalled"]["lastTransitionTime"] == "2026-01-02T03:05:05Z"


def test_a_new_message_alone_is_no_transition() -> None:
    after = build(build(None, Health.READY, "a"), Health.READY, "b", later=60)
    assert after[0]["message"] == "b"
    assert after[0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_a_long_message_is_cut() -> None:
    assert len(build(None, Health.READY, "x" * 99_999)[0]["message"]) == MAX_MESSAGE
    for length in (MAX_MESSAGE, MAX_MESSAGE + 1):
        message = build(None, Health.READY, "x" * length)[0]["message"]
        cut = "x" * (MAX_MESSAGE - 1) + "…"
        assert message == ("x" * MAX_MESSAGE if length == MAX_MESSAGE else cut)


@pytest.mark.parametrize("since", [None, "", 5, []])
def test_a_transition_without_a_time_gets_one(since: Any) -> None:
    before = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    assert build(before, Health.READY)[0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"


def test_conditions_are_found_by_type() -> None:
    found = build(None, Health.READY)
    by_type = conditions_by_type(found)
    assert by_type[ConditionType.READY]["status"] == "True"
    assert by_type[ConditionType.STALLED]["status"] == "False"
    assert ready_reason(found) == "Because"
    assert ready_reason([]) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.just("type") | st.just("Ready"),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "status"]), inner),
        max_leaves=8,
    )
)
def test_junk_in_the_status_does_no_harm(previous: Any) -> None:
    assert len(build(previous, Health.READY)) == 3
    ready_reason(previous)


def test_only_conditions_of_other_types_are_unmanaged() -> None:
    junk = [{"type": ["Ready"]}, {"type": {}}, {"status": "True"}, {"type": "Synced"}]
    assert unmanaged_conditions([*build(None, Health.READY), *junk]) == junk


def test_a_reason_that_isnt_a_text_is_none() -> None:
    assert ready_reason([{"type": "Ready", "reason": 5}]) is None
