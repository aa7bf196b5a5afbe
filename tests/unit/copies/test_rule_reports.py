"""Events about rules that are well: one for all rules of a namespace."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from copyrator.api.names import ANN_RULES
from copyrator.copies.context import REPORT_SECONDS, RULES_LIMIT, RuleReports
from copyrator.copies.rules.trace import Burst, Trigger
from copyrator.copies.targets.planning import Action
from copyrator.kube.events import REFILL_SECONDS, ObjectRef, event_type

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


def test_the_object_is_the_namespace_of_the_rules_as_kubectl_looks_it_up() -> None:
    refs = []
    recorder = Kit()
    recorder.record = lambda ref, *_: refs.append(ref)  # type: ignore[method-assign]
    for name in ("a", "b"):
        recorder.reports.add(rule(name), CHANGED, burst("n"))
    recorder.reports.flush()
    assert refs == [ObjectRef("v1", "Namespace", "ops", "ops", "uid of ops")]


def test_different_writes_are_counted_apart(kit: Kit) -> None:
    kit.reports.add(rule("a"), CHANGED, burst("n1"))
    kit.reports.add(rule("b"), CHANGED, burst("n2", action=Action.REPLACE))
    kit.reports.flush()
    assert kit.told[0][-1] == (
        "rules a, b: created 1 copy: namespace n1 is new or changed; "
        "updated 1 copy: namespace n2 is new or changed"
    )


def test_messages_that_differ_are_left_to_the_statuses(kit: Kit) -> None:
    for name in ("a", "b"):
        kit.reports.add(rule(name), "Synced", "2 copies are right")
        kit.reports.add(rule(f"{name}2"), "NoTargets", f"{name} has none")
    kit.reports.flush()
    assert kit.told == [
        ("Namespace/ops", "Normal", "Synced", "rules a, b: 2 copies are right"),
        ("Namespace/ops", "Normal", "NoTargets", "rules a2, b2: see the status of each"),
    ]


def test_only_the_last_state_of_a_rule_is_told(kit: Kit) -> None:
    for reason in ("Synced", "NoTargets", "Synced"):
        kit.reports.add(rule("a"), reason, f"it is {reason}")
        kit.reports.add(rule("b"), reason, f"it is {reason}")
    kit.reports.add(rule("b"), "NoTargets", "it is NoTargets")
    kit.reports.add(rule("a", "other"), "Synced", "it is Synced")
    kit.reports.flush()
    assert kit.told == [
        ("CopyratorRule/a", "Normal", "Synced", "it is Synced"),
        ("CopyratorRule/b", "Normal", "NoTargets", "it is NoTargets"),
        ("CopyratorRule/a", "Normal", "Synced", "it is Synced"),
    ]


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


def test_what_one_rule_says_twice_before_it_is_recorded_is_one_event(kit: Kit) -> None:
    kit.reports.add(rule("a"), CHANGED, burst("n1"))
    kit.reports.add(rule("a"), CHANGED, burst("n2"))
    kit.reports.add(rule("a"), "Synced", "1 copy is right")
    kit.reports.add(rule("a"), "Synced", "2 copies are right")
    kit.reports.flush()
    assert [one[-1] for one in kit.told] == [
        "created 2 copies: namespaces n1, n2 are new or changed",
        "2 copies are right",
    ]


def test_a_namespace_whose_rules_are_still_writing_waits(kit: Kit) -> None:
    for name in ("a", "b"):
        kit.reports.add(rule(name), CHANGED, burst("n"))
        kit.reports.add(rule(name, "other"), CHANGED, burst("n"))
    kit.reports.flush({"ops"})
    assert [one[0] for one in kit.told] == ["Namespace/other"]
    kit.reports.flush()
    assert [one[0] for one in kit.told] == ["Namespace/other", "Namespace/ops"]


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
