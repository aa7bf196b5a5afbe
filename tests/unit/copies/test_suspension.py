"""Ready of a rule that is suspended: it keeps its status, whatever happens meanwhile."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.rule_status import RuleFacts, build_rule_status
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.rules import Rule

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


def test_mode_plan_is_no_suspension() -> None:
    rule = Creds()
    rule.write(SYNCED)
    rule.edit(mode="Plan")
    assert rule.write(PLANNED) == ("Unknown", "False", "False", "Planned", PLANNED.message)
    assert "suspension" not in rule.status


def test_a_status_of_an_earlier_operator_keeps_its_status() -> None:
    rule = Creds()
    rule.write(SYNCED)
    rule.edit(suspend=True)
    rule.write(IDLE)
    del rule.status["suspension"]
    rule.status["conditions"][0] |= {"status": "Unknown", "message": "spec.suspend is true"}
    assert rule.write(IDLE) == ("Unknown", "False", "False", "Suspended", "suspended")


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
