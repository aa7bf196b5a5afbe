"""Which state each copy of a rule is in, as far as the status and the watches tell it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.targets import EVERYWHERE
from tests.unit.cli.view.objects_seen import rule, seen

from copyrator.api.keys import ObjectName
from copyrator.api.text import format_time
from copyrator.cli.view.copies import PAGE, CopyFilter, RuleCopies
from copyrator.cli.view.overview import SeenCopies, SeenNamespace
from copyrator.cli.view.rule import CopyGroup, RuleView

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
BEFORE = format_time(NOW - timedelta(days=9))
BEGAN = format_time(NOW - timedelta(minutes=5))
TEAMS = [f"team-{letter}" for letter in "abcdefgh"]
SOURCE = {"kind": "Secret", "name": "s", "namespace": "infra"}
STEPS = {"steps": ["1", "50%", "100%"]}


def failure(place: str, reason: str = "Forbidden", name: str = "s") -> dict[str, str]:
    return {"namespace": place, "name": name, "reason": reason, "message": "no"}


def copies_of(
    body: dict[str, Any], places: list[str], *, labels: dict[str, str] | None = None
) -> RuleCopies:
    """Of a rule that has copies in some of the namespaces."""
    found = SeenCopies()
    for place in places:
        found.add("infra/r", "Secret", ObjectName(place, "s"))
    known = seen(body, copies=found, namespaces=TEAMS)
    known.places = {
        name: SeenNamespace("1", labels=(labels or {}) if name == "team-h" else {}, created=BEFORE)
        for name in TEAMS
    }
    return RuleCopies(RuleView(body, NOW), known)


def running(**rollout: object) -> dict[str, Any]:
    began = {"content": "a" * 32, "previous": "b" * 32, "steps": 3, "startedAt": BEGAN}
    counts = {"desired": 8, "ready": 4, "pending": 4}
    body = rule("r", "Unknown", "RollingOut", targets=8, sources=1, copies=counts)
    body["spec"] = {"source": SOURCE, "targets": EVERYWHERE, "rollout": STEPS}
    body["status"]["rollout"] = began | rollout
    return body


def test_copies_are_in_sync_where_everything_else_is_named() -> None:
    counts = {"desired": 8, "ready": 6, "failed": 1, "conflicts": 1}
    samples = [failure("team-b"), failure("team-c", "Conflict")]
    body = rule("r", "False", targets=8, sources=1, copies=counts, failures=samples)
    copies = copies_of(body, TEAMS)
    assert copies.listed == [
        (CopyGroup.FAILED, 1),
        (CopyGroup.CONFLICT, 1),
        (CopyGroup.SYNC, 6),
    ]
    rows = copies.table(CopyFilter()).rows
    assert [(row.namespace, row.group) for row in rows][:3] == [
        ("team-b", CopyGroup.FAILED),
        ("team-c", CopyGroup.CONFLICT),
        ("team-a", CopyGroup.SYNC),
    ]
    assert copies.namespaces(CopyGroup.SYNC) == set(TEAMS) - {"team-b", "team-c"}


@pytest.mark.parametrize(
    "counts",
    [
        {"desired": 8, "ready": 5, "failed": 3},
        {"desired": 8, "ready": 7, "pending": 1},
        {"desired": 8, "ready": 7, "conflicts": 1},
    ],
)
def test_a_state_that_the_status_doesnt_tell_isnt_invented(counts: dict[str, int]) -> None:
    copies = copies_of(rule("r", "False", targets=8, sources=1, copies=counts), TEAMS)
    assert copies.listed == [(CopyGroup.UNKNOWN, 8)]
    assert copies.namespaces(CopyGroup.SYNC) == set()


def test_of_a_rule_that_nobody_reconciled_nothing_is_known() -> None:
    body = {**rule("r"), "status": {}}
    assert copies_of(body, TEAMS).listed == [(CopyGroup.UNKNOWN, 8)]


def test_namespaces_whose_step_hasnt_begun_are_those_that_the_operator_would_leave() -> None:
    copies = copies_of(running(step=2), TEAMS)
    assert copies.later == {"team-e", "team-f", "team-g", "team-h"}
    assert copies.listed == [(CopyGroup.LATER, 4), (CopyGroup.SYNC, 4)]
    assert copies.numbers[CopyGroup.LATER] == 4
    assert copies.numbers[CopyGroup.PENDING] == 0


def test_the_first_namespaces_of_a_rollout_are_those_with_its_labels() -> None:
    body = running(step=2)
    body["spec"]["rollout"] = {**STEPS, "first": {"matchLabels": {"tier": "canary"}}}
    copies = copies_of(body, TEAMS, labels={"tier": "canary"})
    assert copies.later == {"team-d", "team-e", "team-f", "team-g"}


def test_a_namespace_that_is_newer_than_the_rollout_has_the_new_content() -> None:
    copies = copies_of(running(step=2), TEAMS)
    copies.seen.places["team-h"] = SeenNamespace("1", created=format_time(NOW))  # type: ignore[index]
    assert copies.later == {"team-e", "team-f", "team-g"}


def test_where_the_targets_arent_known_exactly_no_namespace_is_named() -> None:
    body = running(step=2)
    body["status"]["targets"] = 7  # one doesn't accept copies of this tenant
    copies = copies_of(body, TEAMS)
    assert copies.later == set()
    assert copies.listed == [(CopyGroup.UNKNOWN, 8)]
    assert copies.numbers[CopyGroup.PENDING] == 4


def test_a_source_isnt_missing_in_its_own_namespace() -> None:
    counts = {"desired": 7, "ready": 6, "pending": 1}
    body = rule("r", "Unknown", "Progressing", targets=8, sources=1, copies=counts)
    body["spec"] = {"source": {**SOURCE, "namespace": "team-a"}, "targets": EVERYWHERE}
    assert copies_of(body, TEAMS[1:7]).missing == {"team-h"}
    body["status"]["copies"]["desired"] = 6  # its annotation doesn't name one of them
    assert copies_of(body, TEAMS[1:7]).missing == set()


def test_a_target_without_its_copy_is_listed_as_pending() -> None:
    counts = {"desired": 8, "ready": 6, "pending": 2}
    body = rule("r", "Unknown", "Progressing", targets=8, sources=1, copies=counts)
    copies = copies_of(body, TEAMS[:6])
    assert copies.missing == {"team-g", "team-h"}
    (first, _) = copies.table(CopyFilter(group=CopyGroup.PENDING)).rows
    assert (first.namespace, first.kind, first.name) == ("team-g", "Secret", "s")
    assert copies.listed == [(CopyGroup.PENDING, 2), (CopyGroup.SYNC, 6)]
    copies = copies_of(body, TEAMS[:6])
    copies.seen.loading = ["Secret"]
    assert copies.missing == set()


def test_a_failure_without_a_copy_is_a_row_of_its_own() -> None:
    counts = {"desired": 8, "ready": 7, "failed": 1}
    samples = [failure("team-h"), failure("team-h", "Conflict", "other")]
    body = rule("r", "False", targets=8, sources=1, copies=counts, failures=samples)
    rows = copies_of(body, TEAMS[:7]).table(CopyFilter()).rows
    assert [(row.namespace, row.name) for row in rows[:2]] == [("team-h", "s"), ("team-h", "other")]
    assert len(rows) == 9


def test_a_namespaces_own_name_doesnt_mean_those_that_begin_so() -> None:
    assert CopyFilter("team").matching(["team", "team-a"]) == ["team"]


@given(
    st.integers(0, 3 * PAGE),
    st.sampled_from([None, CopyGroup.FAILED, CopyGroup.SYNC]),
    st.sets(st.integers(0, 3 * PAGE), max_size=20),
)
def test_the_pages_have_each_row_once(
    number: int, group: CopyGroup | None, failing: set[int]
) -> None:
    found = SeenCopies()
    for place in range(number):
        for name in ("s", "t"):
            found.add("infra/r", "Secret", ObjectName(f"n{place:04}", name))
    samples = [failure(f"n{place:04}") for place in failing]
    counts = {"desired": 2 * number, "ready": 2 * number, "failed": len(samples)}
    body = rule("r", "False", targets=number, copies=counts, failures=samples)
    copies = RuleCopies(RuleView(body, NOW), seen(body, copies=found))
    first = copies.table(CopyFilter(group=group))
    rows = [
        row
        for page in range(1, first.pages + 1)
        for row in copies.table(CopyFilter(group=group, page=page)).rows
    ]
    assert len(rows) == len(set(rows)) == first.found
    listed = dict(copies.listed)
    assert first.found == (sum(listed.values()) if group is None else listed.get(group, 0))
    assert copies.table(CopyFilter(group=group, page=999)).page == first.pages
