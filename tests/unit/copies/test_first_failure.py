"""A rule's message names its first failure, how many fail of all, and what to do."""

from types import SimpleNamespace

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.keys import CopyKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_spec import parse_rule
from copyrator.api.rule_status import Failure
from copyrator.copies.rules.ready_conditions import removing, summarized, watch_fault
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.kube.errors import Unreachable

SPEC = parse_rule(
    {
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"source": {"kind": "Secret", "name": "a"}, "targets": EVERYWHERE},
    }
)


def ready(summary):
    return summarized(SimpleNamespace(spec=SPEC, barrier=None), summary, 1, "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spaces", "told"),
    [
        ("cab", "3 namespaces (team-a, team-b, …): Forbidden, 4 of 5: needs it"),
        ("ba", "team-a/a: Forbidden, 3 of 5: needs it"),
        ("", "a-first/a: TooLarge, 1 of 5: no"),
    ],
)
def test_a_missing_permission_is_named_first_and_once(spaces, told):
    summary = RuleSummary(desired=5, ready=1, failed=len(spaces) + 1)
    summary.sample(CopyKey("secrets", "a-first", "a"), FailureReason.TOO_LARGE, "no")
    for letter in spaces:
        key = CopyKey("secrets", f"team-{letter}", "a")
        summary.sample(key, FailureReason.FORBIDDEN, "needs it")
    assert ready(summary).message == told


def test_an_object_in_the_way_is_named_with_what_differs():
    summary = RuleSummary(desired=3, ready=2, conflicts=1)
    differs = ("data", "type")
    failure = Failure("team-d", "wild", FailureReason.CONFLICT, "delete it", differs)
    summary.keep(CopyKey("secrets", "team-d", "wild"), failure)
    assert ready(summary).message == (
        "team-d/wild: Conflict (differs in data, type), 1 of 3: delete it"
    )
    assert summary.samples[0].sample.message == "delete it (it differs in data, type)"


def test_messages_that_name_their_namespace_are_the_same_message():
    summary = RuleSummary(desired=3, failed=3)
    for letter in "abc":
        key = CopyKey("secrets", f"team-{letter}", "a")
        text = f"namespace team-{letter} has no room"
        summary.sample(key, FailureReason.QUOTA_EXCEEDED, text)
    assert ready(summary).message == (
        "3 namespaces (team-a, team-b, …): QuotaExceeded, 3 of 3: the namespace has no room"
    )


def test_what_others_change_back_is_told_apart_from_the_first_failure():
    summary = RuleSummary(desired=2, failed=1, contested=[CopyKey("secrets", "a", "a")])
    summary.contest = "a/a: someone sets data"
    summary.sample(CopyKey("secrets", "a", "a"), FailureReason.CONFLICT_PERSISTS, "someone")
    summary.sample(CopyKey("secrets", "b", "a"), FailureReason.TOO_LARGE, "no")
    assert ready(summary).message == (
        "1 copy is changed back by other clients: a/a: someone sets data. b/a: TooLarge, 1 of 2: no"
    )


@pytest.mark.parametrize(
    ("summary", "reason", "numbers"),
    [
        (RuleSummary(desired=1, failed=1), "AllFailed", "1 of 1"),
        (RuleSummary(desired=2, failed=1, conflicts=1), "AllFailed", "2 of 2"),
        (RuleSummary(desired=2, failed=1), "PartialFailure", "1 of 2"),
        (RuleSummary(desired=2, ready=1, failed=1), "PartialFailure", "1 of 2"),
        (RuleSummary(desired=2, ready=2, stuck=1), "PartialFailure", "1 can't be removed"),
        (RuleSummary(stuck=1), "PartialFailure", "1 can't be removed"),
        (RuleSummary(desired=3, ready=2, failed=1, stuck=2), None, "1 of 3, 2 can't be removed"),
    ],
)
def test_partial_failure_is_said_of_a_part_only(summary, reason, numbers):
    summary.sample(CopyKey("secrets", "a", ""), FailureReason.ERROR, "why")
    found = ready(summary)
    assert found.message == f"a: Error, {numbers}: why"
    assert found.reason == (reason or "PartialFailure")


def test_a_failure_is_named_beside_many_copies_that_others_change_back():
    """A status has 20 samples."""
    keys = [CopyKey("secrets", f"team-{number}", "a") for number in range(20)]
    summary = RuleSummary(desired=30, failed=3, stuck=1, contested=keys)
    summary.contest = "a/a: someone sets data"
    for key in keys:
        summary.sample(key, FailureReason.CONFLICT_PERSISTS, "someone")
    for name in ("b", "c"):
        summary.sample(CopyKey("secrets", name, "a"), FailureReason.TOO_LARGE, "no")
    assert ready(summary).message.endswith(
        "someone sets data. b/a: TooLarge, 3 of 30, 1 can't be removed: no"
    )
    assert [one.namespace for one in summary.samples] == ["b", *(key.namespace for key in keys[1:])]


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        ([("b", "no"), ("a", "no")], "a/x: Error, 2 of 5 copies can't be removed: no"),
        ([("b", "no"), ("a", "no"), ("c", "no")], "3 namespaces (a, b, …): Error, 3 of 5 copies"),
    ],
)
def test_what_keeps_a_rule_from_being_deleted_is_named(failed, told):
    problems = [Failure(place, "x", FailureReason.ERROR, text) for place, text in failed]
    condition = removing(5, problems)
    assert condition.message.startswith(told)
    assert condition.reason == "PartialFailure"
    assert removing(5, []).message == "removing 5 copies"
    assert removing(1, problems[:1]).message == "b/x: Error, 1 of 1 copy can't be removed: no"


@pytest.mark.parametrize(
    ("seen", "seconds", "status"),
    [(False, 59.0, "Unknown"), (False, 60.0, "False"), (True, 0.0, "False")],
)
def test_a_first_list_that_fails_for_long_is_a_failure_of_the_rule(seen, seconds, status):
    """A later fault is one that lasts: the watch counts as synced until then."""
    watch = SimpleNamespace(
        failure=Unreachable("no answer"),
        synced=False,
        seen=seen,
        reflector=SimpleNamespace(failing_for=seconds),
    )
    found = watch_fault([watch])  # type: ignore[list-item]
    assert found is not None
    assert found.statuses[0] == status
    assert found.reason == "Progressing"
