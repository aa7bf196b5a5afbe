"""The shape of gates: verdicts, what they hold back, what the status says and when it changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import bundle, parsed
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    MAX_GATES,
    Attempted,
    BundleStatus,
    Deployed,
    GateStatus,
    Outcome,
    PassedOver,
    VersionRef,
)
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.bundle import DeployRequest
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Passed,
    Refused,
    Verdict,
    Waiting,
)

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
ONE = Candidate("1.0.1", "sha256:" + "1" * 64)
YOUNG = Waiting("TooYoung", "seen a moment ago", NOW + timedelta(hours=2))
ASKS = Waiting("AwaitingApproval", "nobody has approved it")
NEVER = Refused("Unsigned", "no signature")


def spec() -> BundleSpec:
    return parsed(bundle(namespace="apps"))


def gate(
    name: str,
    verdict: Verdict,
    *occasions: Occasion,
    concerns: bool = True,
) -> Gate:
    def required(asked: object) -> bool:
        return concerns and isinstance(asked, BundleSpec)

    return Gate(name, required, frozenset(occasions or Occasion), lambda *_: verdict)


def judged(*found: Gate, occasion: Occasion = Occasion.EDIT) -> tuple[gates.GateResult, ...]:
    return gates.judge(found, spec(), ONE, Facts(BundleStatus(), occasion), NOW)


def test_gates_are_asked_in_order_and_only_those_that_the_spec_asks_for() -> None:
    results = judged(gate("a", PASSED), gate("b", NEVER, concerns=False), gate("c", YOUNG))
    assert [one.gate for one in results] == ["a", "c"]
    assert [one.objects for one in results] == [False, True]


def test_a_gate_that_isnt_asked_on_this_occasion_passes() -> None:
    (result,) = judged(gate("a", NEVER, Occasion.NEW_DIGEST), occasion=Occasion.FORCE)
    assert (result.gate, result.verdict) == ("a", PASSED)


ALL = tuple(Occasion)


@pytest.mark.parametrize(
    ("occasions", "said", "over"),
    [
        ((Occasion.REQUEST,), NEVER, NEVER),
        ((Occasion.NEW_DIGEST, Occasion.REQUEST), YOUNG, YOUNG),
        ((Occasion.REQUEST,), PASSED, None),
        ((Occasion.NEW_DIGEST,), NEVER, None),
    ],
)
def test_a_force_passes_over_what_a_request_is_asked_for(
    occasions: tuple[Occasion, ...], said: Verdict, over: Verdict | None
) -> None:
    (result,) = judged(gate("a", said, *occasions), occasion=Occasion.FORCE)
    assert (result.passed_over, result.objects) == (over, False)
    (found,) = gates.record_verdicts([result])
    assert found.state == "Passed"
    assert (found.message is not None) is (over is not None)


def test_what_a_force_passes_over_is_recorded_with_its_environments() -> None:
    elsewhere = Waiting("NotPromoted", "no evidence", environments=("prod", "stage"))
    asked = (
        gate("a", PASSED, Occasion.REQUEST),
        gate("b", elsewhere, Occasion.REQUEST),
        gate("c", NEVER, Occasion.REQUEST),
    )
    results = judged(*asked, occasion=Occasion.FORCE)
    assert gates.record_passed_over(results) == (
        PassedOver(name="b", reason="NotPromoted", environments=("prod", "stage")),
        PassedOver(name="c", reason="Unsigned", environments=()),
    )


def test_nothing_else_passes_over_a_gate() -> None:
    over = {Occasion.FORCE, Occasion.ROLLBACK}
    for occasion in set(Occasion) - over:
        others = [one for one in ALL if one not in (occasion, *over)]
        (result,) = judged(gate("a", NEVER, *others), occasion=occasion)
        assert (result.passed_over, result.verdict) == (None, PASSED)
    (result,) = judged(gate("a", NEVER, *ALL), occasion=Occasion.FORCE)
    assert (result.passed_over, result.verdict) == (None, NEVER)


def test_the_first_objection_is_named_and_a_refusal_is_final_and_named_before() -> None:
    results = judged(gate("a", PASSED), gate("b", ASKS), gate("c", YOUNG))
    waits = gates.hold_back(ONE, results)
    assert waits is not None
    assert waits == gates.Held(ONE, results)
    assert waits.objection == ASKS
    assert not waits.is_final
    refused = gates.hold_back(ONE, judged(gate("a", ASKS), gate("b", NEVER)))
    assert refused is not None
    assert refused.objection == NEVER, "waiting is in vain"
    assert refused.is_final


def test_a_refusal_that_a_poll_may_change_is_named_before_waits_and_after_others() -> None:
    again = Refused("NotPromoted", "no such Bundle", is_retried=True)
    held = gates.hold_back(ONE, judged(gate("a", YOUNG), gate("b", again)))
    assert held is not None
    assert (held.objection, held.is_final) == (again, False)
    final = gates.hold_back(ONE, judged(gate("a", again), gate("b", NEVER)))
    assert final is not None
    assert final.objection == NEVER


def test_the_status_says_what_each_gate_says() -> None:
    signed = Passed("signed by ann")
    asked = (gate("a", PASSED), gate("b", YOUNG), gate("c", NEVER), gate("d", signed))
    assert [one.to_dict() for one in gates.record_verdicts(judged(*asked))] == [
        {"name": "a", "state": "Passed"},
        {
            "name": "b",
            "state": "Waiting",
            "reason": "TooYoung",
            "message": "seen a moment ago",
            "until": "2026-05-04T14:00:00Z",
        },
        {"name": "c", "state": "Refused", "reason": "Unsigned", "message": "no signature"},
        {"name": "d", "state": "Passed", "message": "signed by ann"},
    ]


@given(st.integers(0, 999_999))
def test_a_recorded_time_is_never_before_the_gate_opens(microseconds: int) -> None:
    opens = NOW + timedelta(microseconds=microseconds)
    found = gates.record_verdicts(judged(gate("a", Waiting("R", "m", opens))))
    at = gates.next_verdict_change(found)
    assert at is not None
    assert timedelta(0) <= at - opens < timedelta(seconds=1)


def test_the_gates_are_asked_again_at_the_first_time_that_a_wait_ends() -> None:
    later = Waiting("OutsideWindow", "closed", NOW + timedelta(days=1))
    found = gates.record_verdicts(judged(gate("a", later), gate("b", YOUNG), gate("c", ASKS)))
    assert gates.next_verdict_change(found) == NOW + timedelta(hours=2)
    assert (
        gates.next_verdict_change(gates.record_verdicts(judged(gate("c", ASKS), gate("d", NEVER))))
        is None
    )
    stale = GateStatus(name="a", state="Passed", until="2026-05-04T14:00:00Z")
    assert gates.next_verdict_change([stale]) is None


def test_a_status_lists_ten_gates_at_most() -> None:
    many = tuple(GateStatus(name=f"g{number}", state="Passed") for number in range(20))
    assert len(BundleStatus(gates=many).to_dict()["gates"]) == MAX_GATES


def test_which_gates_a_bundle_has() -> None:
    mine, other = gate("a", PASSED), gate("b", PASSED, concerns=False)
    assert Gates(version=(mine,)).judge_versions(spec())
    assert not Gates(version=(other,), moment=(mine,)).judge_versions(spec())
    assert Gates(version=(other,), moment=(mine,)).any_of(spec())
    assert not Gates(version=(other,), moment=(other,)).any_of(spec())
    both = Gates(version=(other,), moment=(mine,))
    found = [GateStatus(name=name, state="Passed") for name in ("a", "b", "c")]
    assert both.kept(spec(), found) == (found[0],)


@pytest.mark.parametrize(
    ("request_", "deployed", "expected"),
    [
        (None, None, Occasion.NEW_DIGEST),
        (None, "sha256:other", Occasion.NEW_DIGEST),
        (None, ONE.digest, Occasion.EDIT),
        (DeployRequest(requested_at="x"), ONE.digest, Occasion.REQUEST),
        (DeployRequest(force_at="x"), ONE.digest, Occasion.FORCE),
        (DeployRequest(force_update=True), None, Occasion.FORCE),
        (DeployRequest(requested_at="x", force_at="y"), None, Occasion.FORCE),
    ],
)
def test_the_occasion(
    request_: DeployRequest | None, deployed: str | None, expected: Occasion
) -> None:
    assert gates.occasion(request_, deployed, ONE.digest) is expected


@pytest.mark.parametrize(
    ("need", "outcome", "expected"),
    [
        (deciding.DeployReason.RETRY, Outcome.FAILED, Occasion.RETRY),
        (deciding.DeployReason.AGAIN, Outcome.INTERRUPTED, Occasion.INTERRUPTED),
        (deciding.DeployReason.VERSION, Outcome.SUCCEEDED, Occasion.NEW_DIGEST),
        (deciding.DeployReason.FIRST, None, Occasion.NEW_DIGEST),
        (deciding.DeployReason.VALUES, Outcome.SUCCEEDED, Occasion.EDIT),
        (deciding.DeployReason.CORRECTION, Outcome.SUCCEEDED, Occasion.CORRECTION),
        (deciding.DeployReason.REPAIR, Outcome.FAILED, Occasion.EDIT),
    ],
)
def test_the_occasion_of_a_deploy(
    need: deciding.DeployReason, outcome: Outcome | None, expected: Occasion
) -> None:
    same = expected is Occasion.EDIT
    status = BundleStatus(
        attempted=Attempted(outcome=outcome),
        deployed=Deployed(digest=ONE.digest if same else "sha256:other"),
    )
    wanted = deciding.DesiredDeploy(
        version="1", digest=ONE.digest, values_hash=None, spec_hash="s", generation=1
    )
    assert deciding.occasion(need, wanted, status) is expected


@pytest.mark.parametrize(
    ("attempted", "change", "expected"),
    [
        (Attempted(outcome=Outcome.FAILED), {}, Occasion.RETRY),
        (Attempted(outcome=Outcome.INTERRUPTED), {}, Occasion.INTERRUPTED),
        (Attempted(outcome=Outcome.SUCCEEDED), {}, Occasion.NEW_DIGEST),
        (Attempted(), {}, Occasion.NEW_DIGEST),
        (Attempted(outcome=Outcome.FAILED), {"digest": "sha256:x"}, Occasion.NEW_DIGEST),
        (Attempted(outcome=Outcome.FAILED), {"version": "2"}, Occasion.NEW_DIGEST),
        (Attempted(outcome=Outcome.FAILED), {"values_hash": "w"}, Occasion.NEW_DIGEST),
        (Attempted(outcome=Outcome.FAILED), {"spec_hash": "t"}, Occasion.NEW_DIGEST),
        (Attempted(outcome=Outcome.FAILED), {"generation": 2}, Occasion.NEW_DIGEST),
        (
            Attempted(outcome=Outcome.FAILED),
            {"request": DeployRequest(force_at="x")},
            Occasion.FORCE,
        ),
    ],
)
def test_version_gates_are_asked_about_the_same_again_as_about_a_retry(
    attempted: Attempted, change: dict[str, Any], expected: Occasion
) -> None:
    made_of: dict[str, Any] = {
        "version": "1",
        "digest": ONE.digest,
        "values_hash": "v",
        "spec_hash": "s",
        "generation": 1,
    }
    status = BundleStatus(
        attempted=replace(attempted, **made_of), deployed=Deployed(digest="sha256:other")
    )
    assert deciding.occasion_of(status, deciding.DesiredDeploy(**made_of | change)) is expected


def test_update_pending_names_the_first_gate_that_objects() -> None:
    found = gates.record_verdicts(judged(gate("a", PASSED), gate("b", YOUNG), gate("c", YOUNG)))
    update = ready_conditions.update_pending(BundleStatus(gates=found))
    assert (update.status, update.reason) == ("True", "TooYoung")
    assert update.message == "Gate b: seen a moment ago"
    idle = ready_conditions.update_pending(
        BundleStatus(gates=gates.record_verdicts(judged(gate("a", PASSED))))
    )
    assert (idle.status, idle.reason) == ("False", "UpToDate")
    assert idle.message == "No version waits for a gate"


@pytest.mark.parametrize(
    ("deployed", "said"),
    [
        (None, "nothing is deployed, 1.3.0 isn't"),
        ("sha256:2", "1.2.0 is deployed, 1.3.0 isn't"),
        ("sha256:3", "1.2.0 is deployed"),
    ],
)
def test_an_update_is_not_called_up_to_date_where_ready_is_not_deployed(deployed, said) -> None:
    status = BundleStatus(
        gates=gates.record_verdicts(judged(gate("a", PASSED))),
        target=VersionRef(version="1.3.0", digest="sha256:3"),
        deployed=Deployed(version="1.2.0", digest=deployed),
    )
    ready = ready_conditions.quarantined(status)
    found = ready_conditions.update_pending(status, ready)
    assert (found.status, found.reason) == ("False", "Quarantined")
    assert found.message == f"No version waits for a gate; {said}, see the condition Ready"


def test_a_refusal_is_named_before_gates_that_only_wait() -> None:
    found = gates.record_verdicts(judged(gate("a", YOUNG), gate("b", NEVER)))
    assert ready_conditions.update_pending(BundleStatus(gates=found)).message.startswith("Gate b: ")


def test_a_person_who_is_awaited_is_named_before_other_gates() -> None:
    waits = Waiting("AwaitingApproval", "approve it")
    found = gates.record_verdicts(judged(gate("a", Refused("Unsigned", "no")), gate("b", waits)))
    assert ready_conditions.update_pending(BundleStatus(gates=found)).reason == "AwaitingApproval"
