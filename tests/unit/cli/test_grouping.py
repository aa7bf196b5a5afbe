"""Failures that are the same share a line."""

from copyrator.cli.rules.plan_rows import PlanRow, RowAction, merged
from copyrator.cli.view import rule as rule_view
from copyrator.cli.view.rule import Sample


def sample(namespace, name="devs", message="no"):
    return Sample(namespace, name, "Forbidden", message)


def test_the_same_failure_in_many_namespaces_is_one_line():
    samples = [sample(f"team-{letter}") for letter in "cbadefg"]
    assert list(rule_view.failure_lines([*samples, sample("other", message="quota")])) == [
        "7 namespaces (team-a, team-b, …): Forbidden: no",
        "other/devs: Forbidden: quota",
    ]


def test_a_few_are_listed_and_a_name_that_isnt_known_is_left_out():
    assert list(rule_view.failure_lines([sample("a"), sample("b", name="")])) == [
        "a/devs: Forbidden: no",
        "b: Forbidden: no",
    ]


def test_rows_of_a_plan_are_merged_but_not_its_changes():
    faults = [
        PlanRow(RowAction.BLOCKED, "Secret", f"team-{letter}", "a", "Forbidden", "no")
        for letter in "abc"
    ]
    changes = [PlanRow(RowAction.CREATE, "Secret", f"new-{letter}", "a") for letter in "abc"]
    rows = merged([*faults, *changes])
    assert [row.namespace for row in rows] == [
        "new-a", "new-b", "new-c", "3 namespaces (team-a, team-b, …)"
    ]  # fmt: skip


def test_messages_that_name_their_own_namespace_are_the_same_failure():
    samples = [
        sample(f"team-{letter}", message=f"namespace team-{letter} has no label team")
        for letter in "abcd"
    ]
    shared = "the namespace has no label team"
    (line,) = rule_view.failure_lines(samples)
    assert line == f"4 namespaces (team-a, team-b, …): Forbidden: {shared}"
    faults = [
        PlanRow(RowAction.BLOCKED, "Secret", one.namespace, "a", one.reason, one.message)
        for one in samples
    ]
    (row,) = merged(faults)
    assert (row.namespace, row.message) == ("4 namespaces (team-a, team-b, …)", shared)
    assert list(rule_view.failure_lines(samples[:1])) == [
        "team-a/devs: Forbidden: namespace team-a has no label team"
    ]
