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


def test_conditions_that_arent_true_dont_count() -> None:
    change = {"status": conditions(("Reconciling", "False", ""), ("Stalled", "Unknown", ""))}
    assert compute("Job", merged(JOB, change)).status is Status.CURRENT


OF_KINDS: list[tuple[str, Body, Status, str]] = [
    # deploymentConditions
    ("Deployment", {"status": {"replicas": 2}}, Status.IN_PROGRESS, "Replicas: 2/3"),
    ("Deployment", {"status": {"updatedReplicas": 1}}, Status.IN_PROGRESS, "Updated: 1/3"),
    ("Deployment", {"status": {"replicas": 5}}, Status.IN_PROGRESS, "Pending termination: 2"),
    ("Deployment", {"status": {"availableReplicas": 2}}, Status.IN_PROGRESS, "Available: 2/3"),
    ("Deployment", {"status": {"readyReplicas": None}}, Status.IN_PROGRESS, "Ready: 0/3"),
    (
        "Deployment",
        {"status": conditions(("Progressing", "False", "ProgressDeadlineExceeded"))},
        Status.FAILED,
        "Progress deadline exceeded",
    ),
    (
        "Deployment",
        {
            "status": {"replicas": 0}
            | conditions(("Progressing", "False", "ProgressDeadlineExceeded"))
        },
        Status.FAILED,
        "Progress deadline exceeded",
    ),
    (
        "Deployment",
        {
            "status": conditions(
                ("Progressing", "True", "ReplicaSetUpdated"), ("Available", "True", "")
            )
        },
        Status.IN_PROGRESS,
        "ReplicaSet not Available",
    ),
    (
        "Deployment",
        {"status": conditions(("Available", "True", ""))},
        Status.IN_PROGRESS,
        "ReplicaSet not Available",
    ),
    (
        "Deployment",
        {
            "spec": {"progressDeadlineSeconds": None},
            "status": conditions(("Available", "True", "")),
        },
        Status.CURRENT,
        "",
    ),
    (
        "Deployment",
        {
            "spec": {"progressDeadlineSeconds": 2**31 - 1},
            "status": conditions(("Available", "True", "")),
        },
        Status.CURRENT,
        "",
    ),
    (
        "Deployment",
        {"status": conditions(("Progressing", "True", "NewReplicaSetAvailable"))},
        Status.IN_PROGRESS,
        "Deployment not Available",
    ),
    (
        "Deployment",
        {
            "status": conditions(
                ("Progressing", "True", "NewReplicaSetAvailable"), ("Available", "False", "")
            )
        },
        Status.IN_PROGRESS,
        "Deployment not Available",
    ),
    ("Deployment", {"spec": {"replicas": None}}, Status.IN_PROGRESS, "Pending termination: 2"),
    ("Deployment", {"status": None}, Status.IN_PROGRESS, "Replicas: 0/3"),
    (
        "Deployment",
        {
            "spec": {"replicas": 0},
            "status": {"replicas": 0, "updatedReplicas": 0, "availableReplicas": 0},
        },
        Status.CURRENT,
        "",
    ),
    # stsConditions
    (
        "StatefulSet",
        {"spec": {"updateStrategy": {"type": "OnDelete"}}, "status": {"readyReplicas": 0}},
        Status.CURRENT,
        "",
    ),
    ("StatefulSet", {"status": {"replicas": 1}}, Status.IN_PROGRESS, "Replicas: 1/3"),
    ("StatefulSet", {"status": {"readyReplicas": 1}}, Status.IN_PROGRESS, "Ready: 1/3"),
    ("StatefulSet", {"status": {"replicas": 4}}, Status.IN_PROGRESS, "Pending termination: 1"),
    (
        "StatefulSet",
        {
            "spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
            "status": {"updatedReplicas": 1},
        },
        Status.IN_PROGRESS,
        "Updated: 1/2",
    ),
    (
        "StatefulSet",
        {
            "spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}},
            "status": {"updatedReplicas": 2, "currentReplicas": 1, "updateRevision": "db-2"},
        },
        Status.CURRENT,
        "",
    ),
    ("StatefulSet", {"status": {"currentReplicas": 2}}, Status.IN_PROGRESS, "Current: 2/3"),
    (
        "StatefulSet",
        {"status": {"updateRevision": "db-2"}},
        Status.IN_PROGRESS,
        "Waiting for updated revision to match current",
    ),
    ("StatefulSet", {"spec": {"replicas": None}}, Status.IN_PROGRESS, "Pending termination: 2"),
    # daemonsetConditions, checkGenerationSet
    (
        "DaemonSet",
        {"metadata": {"generation": None}},
        Status.IN_PROGRESS,
        "its controller hasn't seen it",
    ),
    (
        "DaemonSet",
        {"status": {"observedGeneration": None}},
        Status.IN_PROGRESS,
        "its controller hasn't seen it",
    ),
    (
        "DaemonSet",
        {"status": {"desiredNumberScheduled": None}},
        Status.IN_PROGRESS,
        "Missing .status.desiredNumberScheduled",
    ),
    ("DaemonSet", {"status": {"currentNumberScheduled": 2}}, Status.IN_PROGRESS, "Current: 2/3"),
    ("DaemonSet", {"status": {"updatedNumberScheduled": 0}}, Status.IN_PROGRESS, "Updated: 0/3"),
    ("DaemonSet", {"status": {"numberAvailable": 1}}, Status.IN_PROGRESS, "Available: 1/3"),
    ("DaemonSet", {"status": {"numberReady": 1}}, Status.IN_PROGRESS, "Ready: 1/3"),
    ("DaemonSet", {"status": {"desiredNumberScheduled": 0}}, Status.CURRENT, ""),
    # jobConditions
    ("Job", {"status": {"startTime": None}}, Status.IN_PROGRESS, "Job not started"),
    (
        "Job",
        {"status": {"startTime": None} | conditions(("Complete", "True", ""))},
        Status.CURRENT,
        "",
    ),
    (
        "Job",
        {"status": {"failed": 4} | conditions(("Failed", "True", "BackoffLimitExceeded"))},
        Status.FAILED,
        "Job Failed. failed: 4/2",
    ),
    (
        "Job",
        {
            "spec": {"completions": None, "parallelism": 5},
            "status": conditions(("Failed", "True", "")),
        },
        Status.FAILED,
        "Job Failed. failed: 0/5",
    ),
    (
        "Job",
        {"spec": {"completions": None}, "status": conditions(("Failed", "True", ""))},
        Status.FAILED,
        "Job Failed. failed: 0/1",
    ),
    ("Job", {"status": conditions(("Failed", "False", ""))}, Status.CURRENT, ""),
    (
        "Job",
        {
            "spec": {"suspend": True},
            "status": {"startTime": None} | conditions(("Suspended", "True", "")),
        },
        Status.CURRENT,
        "",
    ),
    (
        "Job",
        {
            "spec": {"suspend": False},
            "status": {"startTime": None} | conditions(("Suspended", "True", "")),
        },
        Status.IN_PROGRESS,
        "Job not started",
    ),
]


@pytest.mark.parametrize(("kind", "change", "status", "said"), OF_KINDS)
def test_rules_of_each_kind(kind: str, change: Body, status: Status, said: str) -> None:
    found = compute(kind, merged(BODIES[kind], change))
    assert found.status is status
    assert found.message == said


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


@given(
    wanted=st.integers(0, 5),
    replicas=st.integers(0, 5),
    updated=st.integers(0, 5),
    ready=st.integers(0, 5),
    available=st.integers(0, 5),
)
def test_a_deployment_is_current_only_with_all_its_replicas(
    wanted: int, replicas: int, updated: int, ready: int, available: int
) -> None:
    status = {
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": available,
    }
    body = merged(DEPLOYMENT, {"spec": {"replicas": wanted}, "status": status})
    is_current = compute("Deployment", body).status is Status.CURRENT
    assert is_current == (
        replicas == wanted and updated >= wanted and ready >= wanted and available >= updated
    )
