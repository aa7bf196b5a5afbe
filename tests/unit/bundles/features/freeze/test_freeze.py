"""The gate of freezes, and what becomes of an attempt that a freeze ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.builders.bundles import bundle, parsed

from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, GateStatus, Outcome
from copyrator.bundles.engine import deciding as state
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Gates,
    Occasion,
    Passed,
    Refused,
    Waiting,
)
from copyrator.bundles.features.freeze.fields import Freeze, FreezeFindings, read_annotation
from copyrator.bundles.features.freeze.gates import GATE
from copyrator.bundles.jobs.outcome import ending_of, read_job

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPEC = parsed(bundle(namespace="team"))
ALL = Freeze(reason="all")
TEAM = Freeze(namespace="team", reason="team")
GARBAGE = read_annotation("team", "{")


def judge(*freezes: Freeze, now: datetime = NOON) -> Passed | Waiting | Refused:
    facts = Facts(
        BundleStatus(), Occasion.NEW_DIGEST, findings=Findings((FreezeFindings(freezes),))
    )
    return GATE.judge(SPEC, Candidate("1", "sha256:0"), facts, now)


@pytest.mark.parametrize(
    ("freezes", "reason", "until"),
    [
        ((ALL,), "Frozen", None),
        ((replace(TEAM, until=NOON + HOUR),), "Frozen", NOON + HOUR),
        ((replace(ALL, until=NOON + HOUR), replace(TEAM, until=NOON)), "Frozen", NOON + HOUR),
        (
            (replace(ALL, until=NOON + HOUR), replace(TEAM, until=NOON + 2 * HOUR)),
            "Frozen",
            NOON + 2 * HOUR,
        ),
        ((replace(ALL, until=NOON + HOUR), TEAM), "Frozen", None),
        ((GARBAGE,), "FreezeUnreadable", None),
        ((replace(ALL, until=NOON + HOUR), GARBAGE), "FreezeUnreadable", None),
    ],
)
def test_it_waits_for_the_last_freeze(
    freezes: tuple[Freeze, ...], reason: str, until: datetime | None
) -> None:
    found = judge(*freezes)
    assert isinstance(found, Waiting)
    assert (found.reason, found.until) == (reason, until)


def test_it_passes_where_nothing_is_frozen_any_more() -> None:
    assert judge() is PASSED
    assert judge(replace(ALL, until=NOON)) is PASSED
    assert judge(replace(ALL, until=NOON), now=NOON - timedelta(seconds=1)) is not PASSED


def test_its_message_names_each_freeze() -> None:
    found = judge(ALL, TEAM)
    assert isinstance(found, Waiting)
    assert found.message == "all namespaces are frozen: all; namespace team is frozen: team"


def test_it_is_asked_about_every_deploy() -> None:
    assert GATE.occasions == frozenset(Occasion)


def test_a_bundle_without_other_gates_has_this_one_only_while_it_is_frozen() -> None:
    frozen = True
    other = replace(GATE, name="other", concerns=lambda _: False, is_permanent=True)
    gates = Gates(moment=(other, replace(GATE, concerns=lambda _: frozen)))
    waits = GateStatus(name="freeze", state="Waiting"), GateStatus(name="window", state="Waiting")
    assert not gates.any_of(SPEC)
    assert gates.kept(SPEC, waits) == waits[:1]
    frozen = False
    assert gates.kept(SPEC, waits) == ()


def ended(reason: str | None) -> Attempted:
    """The attempt that was running when its Job was ended for this reason."""
    annotations = {"operator.werf.dev/given-up": reason} if reason else {}
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    job = read_job(
        {
            "metadata": {"labels": {"operator.werf.dev/job": "deploy"}, "annotations": annotations},
            "status": {"conditions": [condition]},
        }
    )
    assert job is not None
    ending = ending_of(job, [])
    running = Attempted(
        version="1", attempt=1, outcome=Outcome.RUNNING, failures=2, interruptions=3
    )
    status = BundleStatus(attempted=running)
    return state.finish(status, ending, state.Evidence(), Retry(), NOON).attempted


def test_an_attempt_that_a_freeze_ended_does_not_count_and_is_due_at_once() -> None:
    found = ended("Frozen")
    assert (found.outcome, found.reason) == ("Interrupted", "Frozen")
    assert (found.failures, found.interruptions) == (2, 3)
    assert found.next_retry_at == "2026-11-25T12:00:00Z"
    assert ended("true").interruptions == 4
    assert ended("PlanChanged").reason == "PlanChanged"
