"""kstatus's rules of the four kinds, each as sigs.k8s.io/cli-utils has it (pkg/kstatus/status)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.kstatus import RULES, Status, compute
from copyrator.api.schema import NOT_WHOLE
from hostile.mangled import JSON

Body = dict[str, Any]

ROLLED_OUT = [
    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
]


def merged(body: Body, change: Body) -> Body:
    """A body in which some fields are others; None removes one."""
    found = dict(body)
    for name, value in change.items():
        if value is None:
            found.pop(name, None)
        elif isinstance(value, dict) and isinstance(found.get(name), dict):
            found[name] = merged(found[name], value)
        else:
            found[name] = value
    return found


DEPLOYMENT: Body = {
    "metadata": {"name": "web", "generation": 2},
    "spec": {"replicas": 3, "progressDeadlineSeconds": 600},
    "status": {
        "observedGeneration": 2,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "conditions": ROLLED_OUT,
    },
}
STATEFUL_SET: Body = {
    "metadata": {"name": "db", "generation": 2},
    "spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}},
    "status": {
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 3,
        "currentReplicas": 3,
        "updatedReplicas": 3,
        "currentRevision": "db-1",
        "updateRevision": "db-1",
    },
}
DAEMON_SET: Body = {
    "metadata": {"name": "agent", "generation": 2},
    "spec": {},
    "status": {
        "observedGeneration": 2,
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3,
        "numberAvailable": 3,
        "numberReady": 3,
    },
}
JOB: Body = {
    "metadata": {"name": "migrate", "generation": 1},
    "spec": {"completions": 2},
    "status": {"startTime": "2026-01-01T00:00:00Z", "active": 1},
}
BODIES = {
    "Deployment": DEPLOYMENT,
    "StatefulSet": STATEFUL_SET,
    "DaemonSet": DAEMON_SET,
    "Job": JOB,
}


def conditions(*found: tuple[str, str, str]) -> Body:
    return {
        "conditions": [{"type": t, "status": s, "reason": r, "message": "m"} for t, s, r in found]
    }


GENERIC = [
    ("current", {}, Status.CURRENT, ""),
    (
        "deletionTimestamp, also before a failure",
        {
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": conditions(("Stalled", "True", "")),
        },
        Status.TERMINATING,
        "it is being deleted",
    ),
    (
        "generation",
        {"metadata": {"generation": 9}, "status": {"observedGeneration": 2}},
        Status.IN_PROGRESS,
        "its controller hasn't seen its newest generation",
    ),
    ("Reconciling", {"status": conditions(("Reconciling", "True", ""))}, Status.IN_PROGRESS, "m"),
    ("Stalled", {"status": conditions(("Stalled", "True", ""))}, Status.FAILED, "m"),
    (
        "too large",
        {"metadata": {NOT_WHOLE: "it has more"}},
        Status.UNKNOWN,
        "it is too large to be read",
    ),
]


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize(
    ("_name", "change", "status", "said"), GENERIC, ids=[g[0] for g in GENERIC]
)
def test_rules_of_all_kinds(kind: str, _name: str, change: Body, status: Status, said: str) -> None:
    found = compute(kind, merged(BODIES[kind], change))
    assert found.status is status
    assert found.message == said


def case(kind: str, said: str, spec: Body | None = None, **status: Any) -> Any:
    """In progress, as is said, or current where nothing is; with another spec or status."""
    change = {"spec": spec or {}, "status": status}
    expected = Status.IN_PROGRESS if said else Status.CURRENT
    return pytest.param(kind, change, expected, said, id=f"{kind} {said or status}")


def failed(kind: str, said: str, spec: Body | None = None, **status: Any) -> Any:
    change = {"spec": spec or {}, "status": status}
    return pytest.param(kind, change, Status.FAILED, said, id=f"{kind} {said} {status}")


LATE = ("Progressing", "False", "ProgressDeadlineExceeded")
ROLLS, ROLLED = (
    ("Progressing", "True", "ReplicaSetUpdated"),
    ("Progressing", "True", "NewReplicaSetAvailable"),
)
IS_THERE, IS_AWAY = ("Available", "True", ""), ("Available", "False", "")
PARTED = {"updateStrategy": {"rollingUpdate": {"partition": 1}}}
OF_KINDS = [
    # deploymentConditions
    case("Deployment", "Replicas: 2/3", replicas=2),
    case("Deployment", "Updated: 1/3", updatedReplicas=1),
    case("Deployment", "Pending termination: 2", replicas=5),
    case("Deployment", "Available: 2/3", availableReplicas=2),
    case("Deployment", "Ready: 0/3", readyReplicas=None),
    failed("Deployment", "Progress deadline exceeded", **conditions(LATE)),
    failed("Deployment", "Progress deadline exceeded", replicas=0, **conditions(LATE)),
    case("Deployment", "ReplicaSet not Available", **conditions(ROLLS, IS_THERE)),
    case("Deployment", "ReplicaSet not Available", **conditions(IS_THERE)),
    case("Deployment", "", {"progressDeadlineSeconds": None}, **conditions(IS_THERE)),
    case("Deployment", "", {"progressDeadlineSeconds": 2**31 - 1}, **conditions(IS_THERE)),
    case("Deployment", "Deployment not Available", **conditions(ROLLED)),
    case("Deployment", "Deployment not Available", **conditions(ROLLED, IS_AWAY)),
    case("Deployment", "Pending termination: 2", {"replicas": None}),
    case("Deployment", "", {"replicas": 0}, replicas=0, updatedReplicas=0, availableReplicas=0),
    # stsConditions
    case("StatefulSet", "", {"updateStrategy": {"type": "OnDelete"}}, readyReplicas=0),
    case("StatefulSet", "Replicas: 1/3", replicas=1),
    case("StatefulSet", "Ready: 1/3", readyReplicas=1),
    case("StatefulSet", "Pending termination: 1", replicas=4),
    case("StatefulSet", "Updated: 1/2", PARTED, updatedReplicas=1),
    case("StatefulSet", "", PARTED, updatedReplicas=2, currentReplicas=1, updateRevision="db-2"),
    case("StatefulSet", "Current: 2/3", currentReplicas=2),
    case("StatefulSet", "Waiting for updated revision to match current", updateRevision="db-2"),
    case("StatefulSet", "Pending termination: 2", {"replicas": None}),
    # daemonsetConditions, checkGenerationSet
    case("DaemonSet", "its controller hasn't seen it", observedGeneration=None),
    case("DaemonSet", "Missing .status.desiredNumberScheduled", desiredNumberScheduled=None),
    case("DaemonSet", "Current: 2/3", currentNumberScheduled=2),
    case("DaemonSet", "Updated: 0/3", updatedNumberScheduled=0),
    case("DaemonSet", "Available: 1/3", numberAvailable=1),
    case("DaemonSet", "Ready: 1/3", numberReady=1),
    case("DaemonSet", "", desiredNumberScheduled=0),
    # jobConditions
    case("Job", "Job not started", startTime=None),
    case("Job", "", startTime=None, **conditions(("Complete", "True", ""))),
    failed("Job", "Job Failed. failed: 4/2", failed=4, **conditions(("Failed", "True", "x"))),
    failed(
        "Job",
        "Job Failed. failed: 0/5",
        {"completions": None, "parallelism": 5},
        **conditions(("Failed", "True", "")),
    ),
    failed(
        "Job",
        "Job Failed. failed: 0/1",
        {"completions": None},
        **conditions(("Failed", "True", "")),
    ),
    case("Job", "", **conditions(("Failed", "False", ""))),
    case("Job", "", {"suspend": True}, startTime=None, **conditions(("Suspended", "True", ""))),
    case(
        "Job",
        "Job not started",
        {"suspend": False},
        startTime=None,
        **conditions(("Suspended", "True", "")),
    ),
]


@pytest.mark.parametrize(("kind", "change", "status", "said"), OF_KINDS)
def test_rules_of_each_kind(kind: str, change: Body, status: Status, said: str) -> None:
    found = compute(kind, merged(BODIES[kind], change))
    assert found.status is status
    assert found.message == said


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("Deployment", {"status": None}, "Replicas: 0/3"),
        ("DaemonSet", {"metadata": {"generation": None}}, "its controller hasn't seen it"),
    ],
)
def test_what_no_controller_has_seen_is_in_progress(kind: str, change: Body, said: str) -> None:
    found = compute(kind, merged(BODIES[kind], change))
    assert (found.status, found.message) == (Status.IN_PROGRESS, said)


@pytest.mark.parametrize("wrong", ["3", True, 3.5, None, [], {}], ids=repr)
def test_a_field_of_another_type_counts_as_absent(wrong: Any) -> None:
    body = merged(DEPLOYMENT, {"status": {"readyReplicas": -1}})
    body["status"]["readyReplicas"] = wrong
    assert compute("Deployment", body).message == "Ready: 0/3"


@given(kind=st.sampled_from(list(RULES)), spec=JSON, status=JSON, found=JSON)
def test_whatever_is_there_has_a_status(kind: str, spec: Any, status: Any, found: Any) -> None:
    body = {"metadata": {"generation": found}, "spec": spec, "status": status}
    assert compute(kind, body).status in Status
    inner = {"conditions": found, "observedGeneration": found, "replicas": found}
    assert compute(kind, {"metadata": {}, "spec": {"replicas": found}, "status": inner})
