"""What is reported of a rule."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.replacing import replace
from tests.targets import EVERYWHERE

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import CopyKey
from copyrator.api.names import ANN_RULES
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_spec import ConflictPolicy, CopiedSource, RuleSpec, Targets, parse_rule
from copyrator.api.rule_status import Failure, RuleFacts, build_rule_status
from copyrator.api.selectors import Globs
from copyrator.copies.context import (
    EACH,
    PERIOD,
    REPORT_SECONDS,
    RULES_LIMIT,
    TOGETHER,
    NoticeLimits,
    RuleReports,
)
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.ready_conditions import removing, summarized, watch_fault
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.summarize import RuleSummary
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
from copyrator.kube.errors import Unreachable
from copyrator.kube.events import REFILL_SECONDS, ObjectRef, event_type

# --- A rule's message names its first failure, how many fail of all, and what to do ---------------


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


# --- Events about rules that are well: one for all rules of a namespace ---------------------------


CHANGED = "CopiesChanged"


def rule(name: str, namespace: str = "ops") -> ObjectRef:
    return ObjectRef("flant.com/v1", "CopyratorRule", namespace, name, f"uid-{name}")


def burst(*namespaces: str, action: Action = Action.CREATE) -> Burst:
    made = Burst(0.0, 0.0)
    for name in namespaces:
        made.add(action, Trigger.NAMESPACE, (name,), 0.0)
    return made


@dataclass
class Kit:
    now: float = 0.0
    told: list[tuple[Any, ...]] = field(default_factory=list)
    annotations: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reports = RuleReports(self, lambda name: f"uid of {name}", lambda: self.now)  # type: ignore[arg-type]

    def record(self, ref: ObjectRef, *event: Any) -> None:
        if isinstance(event[-1], dict):
            *event, annotations = event
            self.annotations.append(annotations)
            assert ref == ObjectRef("v1", "Namespace", ref.name, ref.name, f"uid of {ref.name}")
        self.told.append((f"{ref.kind}/{ref.name}", event_type(event[0]), *event))


@pytest.fixture
def kit() -> Kit:
    return Kit()


def test_one_rule_has_an_event_of_its_own(kit: Kit) -> None:
    kit.reports.add(rule("a"), "Synced", "2 copies are right")
    kit.reports.add(rule("b", "other"), "Synced", "2 copies are right")
    kit.reports.flush()
    kit.reports.flush()
    assert kit.told == [
        ("CopyratorRule/a", "Normal", "Synced", "2 copies are right"),
        ("CopyratorRule/b", "Normal", "Synced", "2 copies are right"),
    ]


def test_writes_of_several_rules_are_one_event_of_their_namespace(kit: Kit) -> None:
    for name in ("d", "c", "b", "a"):
        kit.reports.add(rule(name), CHANGED, burst("n1", "n2"))
    kit.reports.flush()
    text = "rules a, b, c and 1 more: created 8 copies: namespaces n1, n2 are new or changed"
    assert kit.told == [("Namespace/ops", "Normal", CHANGED, text)]
    assert kit.annotations == [{ANN_RULES: "a,b,c,d"}]


def test_a_state_that_has_ended_is_not_told_after_the_fault_that_ended_it(kit: Kit) -> None:
    for name in ("a", "b"):
        kit.reports.add(rule(name), "Synced", "2 copies are right")
        kit.reports.add(rule(name), CHANGED, burst("n"))
    kit.reports.forget_state(rule("a"))
    kit.reports.forget_state(rule("c", "other"))
    kit.reports.flush()
    assert kit.told == [
        ("CopyratorRule/b", "Normal", "Synced", "2 copies are right"),
        ("Namespace/ops", "Normal", CHANGED, kit.told[-1][-1]),
    ]
    assert "created 2 copies" in kit.told[-1][-1]


def test_under_constant_change_they_are_fewer_than_the_recorder_drops(kit: Kit) -> None:
    for second in range(60):
        kit.now = float(second)
        for name in ("a", "b"):
            kit.reports.add(rule(name), CHANGED, burst(f"n{second}"))
        kit.reports.flush({"ops"})
    assert REPORT_SECONDS >= REFILL_SECONDS
    assert 3 < len(kit.told) <= 60 / REPORT_SECONDS
    kit.reports.flush()
    written = sum(int(one[-1].split(" copies")[0].split()[-1]) for one in kit.told)
    assert written == 120


def test_the_annotation_is_bounded_and_names_whole_rules(kit: Kit) -> None:
    all_ = [f"{number:04}-{'x' * 200}" for number in range(100)]
    for name in all_:
        kit.reports.add(rule(name), CHANGED, burst("n"))
    kit.reports.flush()
    (annotations,) = kit.annotations
    listed = annotations[ANN_RULES].split(",")
    assert len(annotations[ANN_RULES]) <= RULES_LIMIT
    assert listed == all_[: len(listed)]
    assert len(listed) == RULES_LIMIT // 206


# --- Ready of a rule that is suspended: it keeps its status, whatever happens meanwhile -----------


NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SYNCED = ReadyCondition(Health.READY, "Synced", "3 copies are up to date")
FAILED = ReadyCondition(Health.RETRYING, "PartialFailure", "2 of 3 copies are up to date; 1 failed")
NO_SOURCE = ReadyCondition(Health.RETRYING, "SourceNotFound", "there is no Secret creds in infra")
PROGRESSING = ReadyCondition(Health.PROGRESSING, "Progressing", "1 of 3 copies is up to date")
ROLLING = ReadyCondition(Health.PROGRESSING, "RollingOut", "step 1 of 3")
STOPPED = ReadyCondition(Health.STALLED, "RolloutStopped", "Deployment a/web isn't healthy")
DELETION = ReadyCondition(Health.STALLED, "DeletionUnconfirmed", "the edit would delete 9 of 10")
PLANNED = ReadyCondition(Health.PAUSED, "Planned", "spec.mode is Plan: nothing is written")
READING = ReadyCondition(Health.PROGRESSING, "Progressing", "reading sources and copies")
NO_KIND = ReadyCondition(Health.RETRYING, "KindUnavailable", "the cluster serves no kind X")
FORBIDDEN = ReadyCondition(Health.RETRYING, "Forbidden", "cannot list secrets")
INVALID = ReadyCondition(Health.STALLED, "InvalidSpec", "spec.limit: must be a number")
IDLE = ReadyCondition(Health.PAUSED, "Suspended")


@dataclass
class Creds:
    """A rule whose status is written as the operator does."""

    spec: dict[str, Any] = field(
        default_factory=lambda: {
            "source": {"kind": "Secret", "namespace": "infra", "name": "x"},
            "targets": EVERYWHERE,
        }
    )
    generation: int = 1
    status: dict[str, Any] = field(default_factory=dict)
    is_deleting: bool = False

    def edit(self, **spec: Any) -> None:
        self.spec |= spec
        self.generation += 1

    def write(self, found: ReadyCondition) -> tuple[str, ...]:
        """Take a condition; returns Ready, Reconciling, Stalled, and Ready's reason and message."""
        metadata: dict[str, Any] = {"namespace": "copyrator", "name": "creds"}
        metadata |= {"generation": self.generation}
        metadata |= {"deletionTimestamp": "2026-05-04T12:00:00Z"} if self.is_deleting else {}
        body = {"metadata": metadata, "spec": self.spec, "status": self.status}
        rule = Rule.from_body(json.loads(json.dumps(body)))
        suspension, condition = ready_conditions.keep_ready(rule, found)
        facts = RuleFacts(suspension=suspension)
        self.status = build_rule_status(
            rule.status, condition, facts, generation=self.generation, now=NOW
        ).to_dict()
        assert self.status["observedGeneration"] == self.generation
        ready, reconciling, stalled = self.status["conditions"][:3]
        told = ready["reason"], ready["message"]
        return ready["status"], reconciling["status"], stalled["status"], *told


FORMERS = [
    (SYNCED, "True"),
    (FAILED, "False"),
    (NO_SOURCE, "False"),
    (PROGRESSING, "Unknown"),
    (ROLLING, "Unknown"),
    (STOPPED, "False"),
    (DELETION, "False"),
    (PLANNED, "Unknown"),
]
formers = pytest.mark.parametrize(
    ("former", "status"), FORMERS, ids=[one.reason for one, _ in FORMERS]
)


def before(former: ReadyCondition) -> str:
    return f"suspended; before: {former.reason}: {former.message}"


@formers
def test_ready_keeps_its_status_whatever_is_found_meanwhile(
    former: ReadyCondition, status: str
) -> None:
    """Also after a restart, when sources and copies are read anew."""
    rule = Creds()
    rule.write(former)
    rule.edit(suspend=True)
    for found in (IDLE, READING, NO_KIND, FORBIDDEN, NO_SOURCE, IDLE, IDLE):
        assert rule.write(found) == (status, "False", "False", "Suspended", before(former))


@formers
def test_edits_while_it_is_suspended(former: ReadyCondition, status: str) -> None:
    rule = Creds()
    rule.write(former)
    rule.edit(suspend=True)
    rule.write(IDLE)

    rule.edit(limit="x")  # isn't valid
    assert rule.write(INVALID) == ("False", "False", "True", "InvalidSpec", INVALID.message)

    rule.edit(limit=10)
    text = f"{before(former)}; edited while suspended"
    for _ in range(2):
        assert rule.write(IDLE) == (status, "False", "False", "Suspended", text)

    rule.edit(suspend=False)
    assert rule.write(SYNCED) == ("True", "False", "False", "Synced", SYNCED.message)
    assert "suspension" not in rule.status

    rule.edit(suspend=True)
    assert rule.write(IDLE)[-1] == before(SYNCED), "of the second time"


@pytest.mark.parametrize(
    "refused",
    [
        INVALID,
        ReadyCondition(Health.STALLED, "NotTrusted", "a tenant's rule may not"),
        ReadyCondition(Health.STALLED, "KindUnavailable", "this operator doesn't copy the kind X"),
    ],
    ids=lambda one: one.reason,
)
def test_a_rule_that_is_refused_says_so_while_it_is_suspended_too(refused: ReadyCondition) -> None:
    rule = Creds()
    rule.write(SYNCED)
    rule.edit(suspend=True)
    rule.write(IDLE)
    assert rule.write(refused) == ("False", "False", "True", refused.reason, refused.message)
    assert rule.write(IDLE)[-1] == before(SYNCED)


def test_a_rule_that_was_never_reconciled() -> None:
    rule = Creds()
    rule.edit(suspend=True)
    for found in (READING, IDLE, NO_SOURCE):
        ready = ("Unknown", "False", "False", "Suspended", "suspended; never reconciled")
        assert rule.write(found) == ready
    rule.edit(limit=10)
    assert rule.write(IDLE)[-1] == "suspended; never reconciled; edited while suspended"


def test_a_rule_that_is_being_deleted_says_so() -> None:
    rule = Creds()
    rule.write(SYNCED)
    rule.edit(suspend=True)
    rule.write(IDLE)
    rule.is_deleting = True
    found = ReadyCondition(Health.PROGRESSING, "Progressing", "removing 3 copies")
    assert rule.write(found) == ("Unknown", "True", "False", "Progressing", "removing 3 copies")


@pytest.mark.parametrize(
    "stored",
    [
        "text",
        {"ready": 1, "reason": [], "generation": "x"},
        {"ready": "Maybe", "reason": "X", "message": "m" * 9000, "generation": 2},
        {"reason": "X", "message": {}},
    ],
)
def test_a_record_that_others_wrote_is_bounded_and_never_fails(stored: Any) -> None:
    rule = Creds()
    rule.write(SYNCED)
    rule.edit(suspend=True)
    rule.status["suspension"] = stored
    ready, reconciling, stalled, reason, message = rule.write(IDLE)
    assert ready in ("True", "Unknown")
    assert (reconciling, stalled, reason) == ("False", "False", "Suspended")
    assert message.startswith("suspended")
    assert len(message) < 1100


# --- What a burst of writes says: numbers and causes, bounded -------------------------------------


def written(*writes: tuple[Action, Trigger, str]) -> str:
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
            [(UPDATE, Trigger.SOURCE, "a/b"), (UPDATE, Trigger.SOURCE, "a/c")],
            "updated 2 copies: sources a/b, a/c are new or changed",
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
    ],
)
def test_a_burst_says_how_many_and_why(writes, text) -> None:
    assert written(*writes) == text


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
    trace = RuleTrace()
    for number in range(REMEMBERED + 5):
        trace.namespace_changed(f"n{number}")
    assert len(trace.namespaces) == REMEMBERED


TRACED = RuleSpec(
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
    assert edit_text(TRACED, replace(TRACED, **changes), 4) == text


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


# --- How often target namespaces are told of copies that can't be written -------------------------


def test_one_a_rule_and_reason_an_hour() -> None:
    limits = NoticeLimits()
    assert limits.take(("team", "ops/a", "Forbidden"), 0.0)
    assert not limits.take(("team", "ops/a", "Forbidden"), PERIOD - 1)
    assert limits.take(("team", "ops/a", "QuotaExceeded"), 1.0)
    assert limits.take(("team", "ops/b", "Forbidden"), 1.0)
    assert limits.take(("other", "ops/a", "Forbidden"), 1.0)
    assert limits.take(("team", "ops/a", "Forbidden"), PERIOD)


def test_ten_a_namespace_an_hour() -> None:
    limits = NoticeLimits()
    told = [limits.take(("team", f"ops/{number}", "Conflict"), 0.0) for number in range(EACH + 5)]
    assert told.count(True) == EACH == 10
    assert limits.take(("other", "ops/0", "Conflict"), 0.0)
    assert not limits.take(("team", "ops/x", "Conflict"), PERIOD - 1)
    assert limits.take(("team", "ops/x", "Conflict"), PERIOD)


def test_three_hundred_in_all_an_hour() -> None:
    limits = NoticeLimits()
    told = [limits.take((f"n{number}", "ops/a", "Conflict"), 0.0) for number in range(TOGETHER + 9)]
    assert told.count(True) == TOGETHER == 300
    assert told[:TOGETHER] == [True] * TOGETHER
    assert limits.take(("late", "ops/a", "Conflict"), PERIOD)


def test_namespaces_whose_hour_is_over_take_no_memory() -> None:
    limits = NoticeLimits()
    for number in range(1_000):
        assert limits.take((f"n{number}", "ops/a", "Conflict"), number * PERIOD)
    assert len(limits._slots) == 1


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
