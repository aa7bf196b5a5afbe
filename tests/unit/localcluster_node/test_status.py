"""A pod's phase and conditions follow from its containers."""

from datetime import UTC, datetime, timedelta

import pytest

from localcluster.node.recovery import take_up
from localcluster.node.status import (
    ContainerState,
    PodState,
    Running,
    Terminated,
    Verdict,
    Waiting,
    build,
    phase,
)
from localcluster.node.termination import exit_code, reason

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
State = Waiting | Running | Terminated
WAITS, RUNS = Waiting("ContainerCreating"), Running(NOW, "id")
GOOD, BAD = Terminated(0, "Completed"), Terminated(1, "Error")


def pod(*mains: State, inits: tuple[State, ...] = (), **more: object) -> PodState:
    def containers(prefix: str, states: tuple[State, ...]) -> list[ContainerState]:
        return [ContainerState({"name": f"{prefix}{i}"}, s) for i, s in enumerate(states)]

    state = PodState(containers("i", inits), containers("m", mains), NOW)
    for name, value in more.items():
        setattr(state, name, value)
    return state


@pytest.mark.parametrize(
    ("state", "never", "on_failure", "always"),
    [
        (pod(WAITS), "Pending", "Pending", "Pending"),
        (pod(RUNS, WAITS), "Pending", "Pending", "Pending"),
        (pod(RUNS), "Running", "Running", "Running"),
        (pod(GOOD, RUNS), "Running", "Running", "Running"),
        (pod(GOOD), "Succeeded", "Succeeded", "Running"),
        (pod(BAD), "Failed", "Running", "Running"),
        (pod(GOOD, BAD), "Failed", "Running", "Running"),
        (pod(WAITS, inits=(RUNS,)), "Pending", "Pending", "Pending"),
        (pod(WAITS, inits=(GOOD,)), "Pending", "Pending", "Pending"),
        (pod(WAITS, inits=(BAD,)), "Failed", "Pending", "Pending"),
        (pod(GOOD, ending=True), "Succeeded", "Succeeded", "Succeeded"),
        (pod(BAD, ending=True), "Failed", "Failed", "Failed"),
        (pod(RUNS, GOOD, ending=True), "Running", "Running", "Running"),
        (pod(BAD, verdict=Verdict("r", "m")), "Failed", "Failed", "Failed"),
        (pod(RUNS, verdict=Verdict("r", "m")), "Running", "Running", "Running"),
    ],
)
def test_phases(state: PodState, never: str, on_failure: str, always: str) -> None:
    assert phase(state, "Never") == never
    assert phase(state, "OnFailure") == on_failure
    assert phase(state, "Always") == always


def test_a_sidecar_that_still_runs_holds_up_the_end() -> None:
    state = pod(GOOD)
    side = ContainerState({"name": "side", "restartPolicy": "Always"}, RUNS)
    state.inits.append(side)
    assert phase(state, "Never") == "Running"

    side.state = BAD

    assert phase(state, "Never") == "Succeeded"


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    body = {"metadata": {"generation": 2}, "spec": {"restartPolicy": "Never"}}
    state = pod(RUNS)
    first = build(body, state, NOW)
    later = NOW + timedelta(minutes=1)

    same = build({**body, "status": first}, state, later)
    state.mains[0].state = GOOD
    changed = build({**body, "status": first}, state, later)

    assert same == first
    times = {c["type"]: (c["status"], c["lastTransitionTime"]) for c in changed["conditions"]}
    assert times["Ready"] == ("False", "2026-01-02T03:05:05Z")
    assert times["Initialized"] == ("True", "2026-01-02T03:04:05Z")


def test_a_container_between_runs_shows_how_the_last_one_ended() -> None:
    state = pod(Waiting("CrashLoopBackOff", "wait"))
    state.mains[0].last = BAD
    state.mains[0].restarts = 2
    body = {"metadata": {}, "spec": {"restartPolicy": "Always"}}

    shown = build(body, state, NOW)["containerStatuses"][0]

    assert shown["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "wait"}}
    assert shown["lastState"] == {"terminated": {"exitCode": 1, "reason": "Error"}}
    assert shown["restartCount"] == 2


def test_after_a_restart_of_the_node_a_pod_that_may_not_run_twice_has_failed() -> None:
    state = pod(WAITS, WAITS)
    known = {
        "containerStatuses": [
            {"name": "m0", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "m1", "state": {"running": {}}, "containerID": "process://1"},
        ]
    }

    assert take_up(state, known, "Never") is False

    assert phase(state, "Never") == "Failed"
    assert state.mains[0].state == GOOD
    assert isinstance(state.mains[1].state, Terminated)
    assert state.mains[1].state.reason == "NodeRestarted"


def test_after_a_restart_of_the_node_other_pods_go_on_counting() -> None:
    state = pod(WAITS)
    known = {
        "containerStatuses": [
            {"name": "m0", "restartCount": 3, "state": {"running": {}}, "containerID": "x"}
        ]
    }

    assert take_up(state, known, "Always") is True

    assert state.mains[0].restarts == 3
    assert state.mains[0].last is not None
    assert phase(state, "Always") == "Running"


@pytest.mark.parametrize(("returncode", "code"), [(0, 0), (3, 3), (-9, 137), (-15, 143)])
def test_a_signal_makes_an_exit_code(returncode: int, code: int) -> None:
    assert exit_code(returncode) == code
    assert reason(code) == ("Completed" if code == 0 else "Error")
