"""A rule's status is bounded, true to its counts, and equal while nothing changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from copyrator.api.certificates import Certificate
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.reasons.rules import FailureReason, RuleReason
from copyrator.api.rule_status import (
    MAX_FAILURE_MESSAGE,
    MAX_FAILURES,
    NO_STATUS,
    CopyCounts,
    Failure,
    PlanCounts,
    RuleFacts,
    SourceCluster,
    UnconfirmedEdit,
    _is_ours,
    build_rule_status,
    read_rule_status,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
READY = ReadyCondition(Health.READY, RuleReason.SYNCED, "3 copies")
FACTS = RuleFacts(sources=1, targets=3, copies=CopyCounts(desired=3, ready=3), synced=True)


def build(previous: Any, facts: RuleFacts = FACTS, now: datetime = NOW) -> dict[str, Any]:
    before = read_rule_status({"status": previous})
    return build_rule_status(before, READY, facts, generation=2, now=now).to_dict()


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


def test_the_time_of_the_last_sync_moves_with_what_is_synced_alone() -> None:
    first = build(None)
    assert build(first, now=LATER) == first
    more = RuleFacts(sources=2, targets=3, copies=CopyCounts(desired=6, ready=6), synced=True)
    assert build(first, more, LATER)["lastSyncTime"] == "2026-01-01T01:00:00Z"
    bad = RuleFacts(sources=1, targets=3, copies=CopyCounts(desired=3, ready=2, failed=1))
    assert build(first, bad, LATER)["lastSyncTime"] == "2026-01-01T00:00:00Z"
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


def test_the_whole_status_is_of_the_generation_and_echoes_the_request() -> None:
    asked = RuleFacts(request="now")
    first = build(None, asked)
    assert first["lastHandledRequest"] == "now"
    assert [one["observedGeneration"] for one in first["conditions"]] == [2] * 3
    assert build(first)["lastHandledRequest"] == "now"
    assert build(first, RuleFacts(request="later"))["lastHandledRequest"] == "later"
    assert "lastHandledRequest" not in build({"lastHandledRequest": 5})
    assert CopyCounts(ready=2, satisfied=1).to_dict()["satisfied"] == 1


PART = 65_536


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("x" * (PART - 2), True),
        ("x" * (PART - 1), False),
        ("x" * PART, False),
        (["x"] * 21_840, True),  # three each: the item, its text and its place
        (["x"] * 21_845, False),
        ([[]] * 32_760, True),
        ([[]] * 32_768, False),
        ({f"{n:05}": 1 for n in range(8_190)}, True),  # eight each
        ({f"{n:05}": 1 for n in range(8_192)}, False),
        ([["x" * 30_000], {"a": "x" * 30_000}], True),
        ([["x" * 33_000], {"a": "x" * 33_000}], False),
        ([1] * 10**6, False),
        (dict.fromkeys(range(10**6)), False),
        (7, True),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_part_that_is_larger_than_ours_is_left_out(value: Any, kept: bool) -> None:
    assert _is_ours(value) is kept
    assert read_rule_status({"status": {"sources": 1, "failures": value}}).sources == 1
    assert read_rule_status({"status": {"composedOf": "x" * PART}}).composed_of == ""


def test_of_a_status_our_parts_and_conditions_are_read() -> None:
    status = build(None, RuleFacts(request="now", plan=PlanCounts(1, 2, 3)))
    others = [{"type": kind, "status": "True"} for kind in ("Other", "UpdatePending", "Drifted")]
    large = {"type": "Stalled", "message": "x" * PART}
    more = {"more": 1, "conditions": [*status["conditions"][:2], large, *others]}
    found = read_rule_status({"status": status | more})
    assert found.to_dict() == status | {"conditions": status["conditions"][:2]}
    assert read_rule_status({"status": None}) == NO_STATUS


def test_all_conditions_are_written_in_their_order_and_read_so() -> None:
    ends = Certificate(NOW, "infra/tls", "tls.crt")
    status = build(None, RuleFacts(dropped=["spec.odd"], certificates=(ends,)))
    kinds = [one["type"] for one in status["conditions"]]
    assert kinds[:3] == ["Ready", "Reconciling", "Stalled"]
    assert kinds[3:] == ["CertificateExpiring", "FieldsDropped"]
    assert read_rule_status({"status": status}).to_dict() == status


def test_junk_in_the_previous_status_does_no_harm() -> None:
    junk: Any
    for junk in (None, [], "x", {"conditions": 5, "lastSyncTime": 7}):
        assert build(junk)["lastSyncTime"] == "2026-01-01T00:00:00Z"


def test_the_crd_names_every_reason() -> None:
    crd = (Path(__file__).parents[3] / "crds" / "copyrators.flant.com.yaml").read_text()
    for reason in (*RuleReason, *FailureReason):
        assert reason.value in crd


@pytest.mark.parametrize(
    ("edit", "shown"),
    [
        (None, None),
        (UnconfirmedEdit(1), {"confirmedGeneration": 1}),
        (UnconfirmedEdit(1, 30, 40), {"confirmedGeneration": 1, "copies": 30, "of": 40}),
    ],
)
def test_an_unconfirmed_edit_is_shown_and_read_again(edit: Any, shown: Any) -> None:
    status = build(None, RuleFacts(unconfirmed=edit))
    assert status.get("unconfirmed") == shown
    assert read_rule_status({"status": status}).unconfirmed == edit
    assert read_rule_status({"status": status}).confirmed_generation == (2 if edit is None else 1)


@pytest.mark.parametrize(
    "found", [1, "x", [], {"confirmedGeneration": "1", "copies": -1, "of": None}, {}]
)
def test_a_forged_unconfirmed_edit_confirms_nothing(found: Any) -> None:
    status = read_rule_status({"status": {"unconfirmed": found, "observedGeneration": "7"}})
    assert status.unconfirmed in (None, UnconfirmedEdit(0, 0, 0))
    assert status.confirmed_generation == NO_STATUS.confirmed_generation == 0


@pytest.mark.parametrize(
    ("known", "found", "same"),
    [
        (("u1", "c1"), ("u1", "c2"), True),
        (("u1", "c1"), ("u2", "c1"), False),
        (("u1", "c1"), ("", "c1"), True),
        (("", "c1"), ("u1", "c1"), True),
        (("", "c1"), ("", "c2"), False),
        (("u1", "c1"), ("", "c2"), False),
    ],
)
def test_clusters_of_sources_are_told_apart_by_the_uid_else_by_the_ca(
    known: tuple[str, str], found: tuple[str, str], same: bool
) -> None:
    assert SourceCluster("s", "k", *known).is_same_as(SourceCluster("s", "k", *found)) is same


def test_clusters_of_sources_are_read_again_and_forged_ones_are_none() -> None:
    one = SourceCluster("hub", "value", "uid", "sha256:1", NOW)
    for stored, read in (
        ([one.to_dict()], (one,)),
        *((junk, ()) for junk in (None, "x", [None], [{"secretName": 5}], {"a": 1})),
    ):
        assert read_rule_status({"status": {"sourceClusters": stored}}).source_clusters == read
