"""Conditions mean what kstatus says, and stand still while nothing changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conditions import conditions

from copyrator.api import structs
from copyrator.api.conditions import (
    MAX_MESSAGE,
    Condition,
    ConditionStatus,
    FurtherCondition,
    Health,
    ReadyCondition,
    build_conditions,
    conditions_by_type,
    read_conditions,
    ready_reason,
)
from copyrator.api.rule_status import read_rule_status
from copyrator.bundles.fields import parse_status

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

ORDER = "Ready", "Reconciling", "Stalled", "UpdatePending", "Verified"

MEANINGS = [
    (Health.READY, "True", "False", "False"),
    (Health.PROGRESSING, "Unknown", "True", "False"),
    (Health.RETRYING, "False", "True", "False"),
    (Health.STALLED, "False", "False", "True"),
    (Health.PAUSED, "Unknown", "False", "False"),
]


def build(
    previous: tuple[Condition, ...], health: Health, message: str = "", later: float = 0
) -> tuple[Condition, ...]:
    verdict = ReadyCondition(health, "Because", message)
    now = NOW + timedelta(seconds=later)
    return build_conditions(previous, verdict.conditions, ORDER, generation=4, now=now)


@pytest.mark.parametrize(("health", "ready", "reconciling", "stalled"), MEANINGS)
def test_each_health_has_its_three_conditions(
    health: Health, ready: str, reconciling: str, stalled: str
) -> None:
    found = build((), health)
    assert [(item.type, item.status) for item in found] == [
        ("Ready", ready),
        ("Reconciling", reconciling),
        ("Stalled", stalled),
    ]
    assert all(item.reason == "Because" for item in found)
    assert all(item.observed_generation == 4 for item in found)
    assert all(item.last_transition_time == "2026-01-02T03:04:05Z" for item in found)


def test_one_condition_is_replaced_in_its_place() -> None:
    (others,) = conditions({"type": "Sunny", "status": "True", "seen": 1, "message": {}})
    before = (others, *build((), Health.READY))
    update = FurtherCondition(ConditionStatus.TRUE, "TooYoung", "Gate age")

    def replaced(
        previous: tuple[Condition, ...], one: FurtherCondition | None, minutes: int
    ) -> tuple[Condition, ...]:
        now = NOW + timedelta(minutes=minutes)
        return build_conditions(previous, {"UpdatePending": one}, ORDER, generation=5, now=now)

    pending = Condition(
        type="UpdatePending",
        status="True",
        reason="TooYoung",
        message="Gate age",
        observed_generation=5,
        last_transition_time="2026-01-02T03:05:05Z",
    )
    found = replaced(before, update, 1)
    assert found == (*before[1:], pending, others)
    later = replaced(found, replace(update, message="other"), 2)
    assert later == (*before[1:], structs.replace(pending, message="other"), others)
    ended = replaced(later, replace(update, status=ConditionStatus.FALSE), 3)
    assert ended[3].last_transition_time == "2026-01-02T03:07:05Z"
    assert replaced(later, None, 4) == (*before[1:], others)


def test_only_the_condition_whose_status_changed_gets_a_new_time() -> None:
    first = build((), Health.RETRYING, "a")
    assert build(first, Health.RETRYING, "a", later=60) == first
    (ready, *_) = build(first, Health.RETRYING, "b", later=60)
    assert (ready.message, ready.last_transition_time) == ("b", "2026-01-02T03:04:05Z")
    after = conditions_by_type(build(first, Health.STALLED, later=60))
    assert after["Ready"].last_transition_time == "2026-01-02T03:04:05Z"
    assert after["Stalled"].last_transition_time == "2026-01-02T03:05:05Z"


def test_a_new_reason_has_a_time_of_its_own_where_the_status_stays() -> None:
    def build_one(
        before: tuple[Condition, ...], status: str, reason: str, later: float
    ) -> tuple[Condition, ...]:
        found = {"Ready": FurtherCondition(ConditionStatus(status), reason)}
        now = NOW + timedelta(minutes=later)
        return build_conditions(before, found, ORDER, generation=4, now=now)

    found: tuple[Condition, ...] = ()
    for minutes, status, reason, since, reason_time in (
        (0, "False", "A", "03:04", None),
        (1, "False", "B", "03:05", "2026-01-02T03:05:05Z"),
        (2, "False", "B", "03:05", "2026-01-02T03:05:05Z"),
        (3, "True", "C", "03:07", None),
        (4, "Unknown", "C", "03:08", None),
    ):
        found = build_one(found, status, reason, minutes)
        assert found[0].since == f"2026-01-02T{since}:05Z"
        assert found[0].to_dict().get("reasonTime") == reason_time


def test_a_long_message_is_cut() -> None:
    assert len(build((), Health.READY, "x" * 99_999)[0].message or "") == MAX_MESSAGE
    for length in (MAX_MESSAGE, MAX_MESSAGE + 1):
        message = build((), Health.READY, "x" * length)[0].message
        cut = "x" * (MAX_MESSAGE - 1) + "…"
        assert message == ("x" * MAX_MESSAGE if length == MAX_MESSAGE else cut)


@pytest.mark.parametrize("since", [None, "", 5, []])
def test_a_transition_without_a_time_gets_one(since: Any) -> None:
    before = conditions({"type": "Ready", "status": "True", "lastTransitionTime": since})
    assert build(before, Health.READY)[0].last_transition_time == "2026-01-02T03:04:05Z"


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.just("type") | st.just("Ready"),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "status"]), inner),
        max_leaves=8,
    )
)
def test_junk_in_the_status_does_no_harm(previous: Any) -> None:
    for listed in (previous, [previous]):
        body = {"status": {"conditions": listed}}
        found = tuple(read_conditions(body).values())
        assert len(build(read_rule_status(body).conditions, Health.READY)) == 3
        for before in (found, parse_status(body).conditions):
            kinds = [one.type for one in build(before, Health.READY)]
            assert kinds[:3] == list(ORDER[:3])
            assert None not in kinds
            assert len(kinds) == len(set(kinds))
        ready_reason(found)


def test_conditions_of_other_types_stay_as_they_are_after_ours() -> None:
    argo = {"type": "Synced", "status": "True", "weight": {"a": [1, None]}}
    odd = {"type": "Aged", "status": "Perhaps"}
    before = build((), Health.RETRYING)
    found = build((before[2], *conditions(argo), before[0], *conditions(odd)), Health.RETRYING)
    assert found[:3] == before
    assert [one.to_dict() for one in found[3:]] == [argo, odd]


def test_one_that_has_no_place_is_not_written() -> None:
    """It would be kept as another controller's ever after."""
    one = FurtherCondition(ConditionStatus.TRUE, "Odd", "nobody lists it")
    with pytest.raises(AssertionError, match="is in the order"):
        build_conditions((), {"Odd": one}, ORDER, generation=4, now=NOW)


def test_one_that_is_set_the_first_time_is_before_those_of_others() -> None:
    """Also where another tool has written one of this type twice, as no API server takes it."""
    argo = conditions({"type": "Synced", "status": "True"}, {"type": "Verified", "status": "True"})
    one = FurtherCondition(ConditionStatus.FALSE, "Untrusted", "not signed")
    found = build_conditions((*argo, argo[1]), {"Verified": one}, ORDER, generation=4, now=NOW)
    assert [(each.type, each.status) for each in found] == [
        ("Verified", "False"),
        ("Synced", "True"),
    ]


def test_what_the_api_server_refuses_beside_other_conditions_isnt_kept() -> None:
    """Without a type, or twice: the list is a map by type, and no write would succeed any more."""
    junk = [{"type": ["Ready"]}, {"type": {}}, {"status": "True"}, {"type": "Synced"}]
    found = build(conditions(*junk, {"type": "Synced", "status": "True"}), Health.READY)
    assert [one.to_dict() for one in found[3:]] == [{"type": "Synced", "status": "True"}]


VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())
FIELDS = st.sampled_from(
    ["type", "status", "reason", "message", "observedGeneration", "lastTransitionTime", "other"]
)


@given(st.lists(st.dictionaries(FIELDS, VALUES)))
def test_a_condition_is_written_as_it_was_read_whatever_it_has(listed: list[Any]) -> None:
    status = parse_status({"status": {"conditions": listed}})
    assert status.to_dict().get("conditions", []) == listed


@pytest.mark.parametrize("wrong", [5, True, None, [], {"a": 1}])
def test_what_has_a_wrong_type_is_dropped_field_by_field(wrong: Any) -> None:
    raw = {"type": "Ready", "status": wrong, "reason": wrong, "message": wrong}
    (found,) = conditions(raw | {"lastTransitionTime": "2026-01-02T03:04:05Z"})
    assert (found.type, found.status, found.reason, found.message) == ("Ready", None, None, None)
    assert found.last_transition_time == "2026-01-02T03:04:05Z"
    assert not found.is_true
    assert not found.is_false
    assert ready_reason((found,)) is None
