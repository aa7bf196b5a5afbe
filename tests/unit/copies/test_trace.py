"""What a burst of writes says: numbers and causes, bounded."""

import pytest
from tests.replacing import replace

from copyrator.api.rule_spec import ConflictPolicy, CopiedSource, RuleSpec, Targets
from copyrator.api.selectors import Globs
from copyrator.copies.rules.trace import (
    LONGEST,
    QUIET,
    REMEMBERED,
    Burst,
    RuleTrace,
    Trigger,
    edit_text,
)
from copyrator.copies.targets.planning import Action


def burst(*writes: tuple[Action, Trigger, str]) -> str:
    made = Burst(0.0, 0.0)
    for action, trigger, name in writes:
        made.add(action, trigger, (name,), 0.0)
    return made.to_string()


def taken(trace: RuleTrace, now: float) -> str:
    """The text of the burst that is over."""
    found = trace.take(now)
    return found.to_string() if found else ""


CREATE, UPDATE, DELETE = Action.CREATE, Action.REPLACE, Action.DELETE


@pytest.mark.parametrize(
    ("writes", "text"),
    [
        ([(CREATE, Trigger.EDIT, "the rule is new")], "created 1 copy: the rule is new"),
        ([(UPDATE, Trigger.ROLLOUT, "2")] * 3, "updated 3 copies: rollout step 2"),
        (
            [(UPDATE, Trigger.COMPOSED, name) for name in ("a/b", "a/c")],
            "updated 2 copies: sources a/b, a/c are new, changed or gone",
        ),
        (
            [(DELETE, Trigger.EDIT, "x changed by generation 4 of the rule")] * 7,
            "deleted 7 copies: x changed by generation 4 of the rule",
        ),
        (
            [(UPDATE, Trigger.SOURCE, "a/b")] * 2,
            "updated 2 copies: source a/b is new or changed",
        ),
        (
            [(UPDATE, Trigger.SOURCE, "a/b"), (UPDATE, Trigger.SOURCE, "a/c")],
            "updated 2 copies: sources a/b, a/c are new or changed",
        ),
        (
            [(UPDATE, Trigger.DRIFT, "a"), (UPDATE, Trigger.DRIFT, "b")],
            "updated 2 copies: changes by another client",
        ),
        (
            [(CREATE, Trigger.NAMESPACE, name) for name in "abcde"],
            "created 5 copies: namespaces a, b, c and 2 more are new or changed",
        ),
        (
            [(DELETE, Trigger.NAMESPACE_LEFT, "a"), (UPDATE, Trigger.DRIFT, "")],
            (
                "deleted 1 copy: namespace a no longer matches; "
                "updated 1 copy: changes by another client"
            ),
        ),
        (
            [(Action.ADOPT, Trigger.UNMANAGED, ""), (Action.RESEAL, Trigger.UNSEALED, "")],
            ("took over 1 copy: allowed by onConflict; sealed 1 copy: the seal was missing"),
        ),
        (
            [(Action.RELEASE, Trigger.RULE_DELETED, "")] * 2,
            "released 2 copies: the rule is being deleted",
        ),
    ],
)
def test_a_burst_says_how_many_and_why(writes, text) -> None:
    assert burst(*writes) == text


def test_braces_in_a_cause_stay() -> None:
    assert burst((CREATE, Trigger.EDIT, "{x}")) == "created 1 copy: {x}"


def test_a_burst_ends_when_it_is_quiet_or_long() -> None:
    made = Burst(10.0, 10.0)
    assert not made.is_over(10.0 + QUIET - 0.01)
    assert made.is_over(10.0 + QUIET)
    made.add(CREATE, Trigger.EDIT, ("",), 10.0 + LONGEST - 0.1)
    assert not made.is_over(10.0 + LONGEST - 0.01)
    assert made.is_over(10.0 + LONGEST)


def test_names_are_counted_up_to_a_bound() -> None:
    made = Burst(0.0, 0.0)
    for number in range(REMEMBERED + 5):
        made.add(CREATE, Trigger.NAMESPACE, (f"n{number}",), 0.0)
    assert f"created {REMEMBERED + 5} copies" in made.to_string()
    assert f"and {REMEMBERED - 3} more" in made.to_string()


SPEC = RuleSpec(
    source=CopiedSource("Secret", namespace="a", name="x"), targets=Targets(Globs(("*",)))
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "generation 4 of the rule"),
        (
            {"targets": Targets(Globs(("tem-*",)))},
            "targets changed from every namespace to tem-* by generation 4 of the rule",
        ),
        (
            {"on_conflict": ConflictPolicy.ADOPT, "max_delete": 7},
            "onConflict, maxDelete changed by generation 4 of the rule",
        ),
        (
            {"targets": Targets(Globs(("b",))), "suspend": True},
            (
                "targets changed from every namespace to b and suspend changed "
                "by generation 4 of the rule"
            ),
        ),
    ],
)
def test_an_edit_is_told_by_its_fields(changes, text) -> None:
    assert edit_text(SPEC, replace(SPEC, **changes), 4) == text


def test_an_unknown_earlier_spec_is_told_by_the_generation() -> None:
    assert edit_text(None, SPEC, 4) == "generation 4 of the rule"


def test_causes_are_forgotten_with_the_burst_and_at_an_edit() -> None:
    trace = RuleTrace()
    trace.source_changed("a/b")
    trace.namespace_changed("c")
    trace.begin("edit")
    assert (trace.sources, trace.namespaces, trace.lost) == ({}, {}, {})
    trace.source_changed("a/b")
    trace.add(UPDATE, Trigger.SOURCE, ("a/b",), 1.0)
    assert taken(trace, 1.0) == ""
    assert list(trace.sources) == ["a/b"]
    assert taken(trace, 1.0 + QUIET) == "updated 1 copy: source a/b is new or changed"
    assert trace.sources == {}
    assert taken(trace, 100.0) == ""


def test_causes_that_are_newer_than_a_burst_s_last_write_are_kept() -> None:
    trace = RuleTrace()
    trace.source_changed("a/old")
    trace.source_changed("a/again")
    trace.add(UPDATE, Trigger.SOURCE, ("a/old",), 1.0)
    trace.source_changed("a/again")
    trace.namespace_changed("new")
    assert taken(trace, 1.0 + QUIET) == "updated 1 copy: source a/old is new or changed"
    assert (list(trace.sources), list(trace.namespaces)) == (["a/again"], ["new"])
    trace.add(UPDATE, Trigger.SOURCE, ("a/again",), 10.0)
    taken(trace, 10.0 + QUIET)
    assert (trace.sources, trace.namespaces) == ({}, {})


def test_causes_are_bounded() -> None:
    trace = RuleTrace()
    for number in range(REMEMBERED + 5):
        trace.namespace_changed(f"n{number}")
    assert len(trace.namespaces) == REMEMBERED


def test_causes_that_no_write_follows_are_forgotten() -> None:
    trace = RuleTrace()
    trace.source_changed("default/app")
    assert taken(trace, 100.0) == ""
    trace.namespace_changed("team-a")
    assert taken(trace, 100.0 + LONGEST - 1) == ""
    assert (list(trace.sources), list(trace.namespaces)) == (["default/app"], ["team-a"])
    assert taken(trace, 100.0 + LONGEST) == ""
    assert not trace.sources
    assert not trace.namespaces


def test_causes_of_a_burst_stay_until_it_is_over() -> None:
    trace = RuleTrace()
    trace.source_changed("default/app")
    assert taken(trace, 100.0) == ""
    trace.add(Action.CREATE, Trigger.SOURCE, ("default/app",), 150.0)
    trace.add(Action.CREATE, Trigger.SOURCE, ("default/app",), 200.0)
    assert taken(trace, 201.0) == ""
    assert trace.sources
    assert taken(trace, 202.0) == "created 2 copies: source default/app is new or changed"
    assert not trace.sources
