"""Why a pod doesn't start, as far as it can be seen."""

from typing import Any

import pytest

from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.outcome import (
    Blocked,
    Mount,
    find_blocked_pod,
    has_started,
    mounts_of,
    secrets_of,
)


def waiting(reason: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": "because"}}
    return {"status": {"containerStatuses": [{"name": "werf", "image": "i", "state": state}]}}


UNSCHEDULED = {
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}]}
}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (UNSCHEDULED, BundleReason.JOB_UNSCHEDULABLE),
        (waiting("ImagePullBackOff"), BundleReason.IMAGE_PULL_FAILED),
        (waiting("CreateContainerConfigError"), BundleReason.JOB_UNSCHEDULABLE),
        (waiting("ContainerCreating"), None),
        ({"status": {}}, None),
    ],
)
def test_says_why_a_pod_does_not_start(found: dict[str, Any], reason: str | None) -> None:
    blocked = find_blocked_pod([found])

    assert (blocked and blocked.reason) == reason


def state(**waits: str) -> dict[str, Any]:
    return {"name": "werf", "image": "werf:2", "state": {"waiting": waits}}


def unscheduled(**why: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", **why}]}


UNSCHEDULABLE, UNPULLED = BundleReason.JOB_UNSCHEDULABLE, BundleReason.IMAGE_PULL_FAILED


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            unscheduled(message="0/3 nodes", reason="Unschedulable"),
            Blocked(UNSCHEDULABLE, "the pod can't be scheduled: 0/3 nodes"),
        ),
        (
            unscheduled(reason="SchedulingGated"),
            Blocked(UNSCHEDULABLE, "the pod can't be scheduled: SchedulingGated"),
        ),
        (unscheduled(), Blocked(UNSCHEDULABLE, "the pod can't be scheduled: no node is suitable")),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, None),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, None),
        *(
            (
                {"containerStatuses": [state(reason=reason, message="not found")]},
                Blocked(UNPULLED, "the image werf:2 can't be pulled: not found"),
            )
            for reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")
        ),
        (
            {"initContainerStatuses": [state(reason="ErrImagePull")]},
            Blocked(UNPULLED, "the image werf:2 can't be pulled: ErrImagePull"),
        ),
        *(
            (
                {"containerStatuses": [{}, state(reason=reason, message="no Secret v")]},
                Blocked(UNSCHEDULABLE, "a container can't start: no Secret v"),
            )
            for reason in (
                "CreateContainerConfigError",
                "CreateContainerError",
                "RunContainerError",
            )
        ),
        (
            {"containerStatuses": [state(reason="CreateContainerError")]},
            Blocked(UNSCHEDULABLE, "a container can't start: CreateContainerError"),
        ),
        ({"containerStatuses": [state()]}, None),
    ],
)
def test_says_it_in_a_sentence(status: dict[str, Any], expected: Blocked | None) -> None:
    assert find_blocked_pod([{"status": {}}, {"status": status}]) == expected
    assert find_blocked_pod([{"status": status}, {}]) is None  # the newest counts
    assert find_blocked_pod([]) is None


RUNNING = {"containerStatuses": [{"name": "werf", "state": {"running": {}}}]}
ENDED = {"containerStatuses": [{"name": "werf", "state": {"terminated": {"exitCode": 1}}}]}


@pytest.mark.parametrize(
    ("pods", "started"),
    [
        ([], False),
        ([{"status": {}}], False),
        ([waiting("ContainerCreating")], False),
        ([{"status": RUNNING}], True),
        ([{"status": ENDED}], True),
        ([{"status": RUNNING}, waiting("ContainerCreating")], False),  # the newest counts
    ],
)
def test_a_pod_has_started_when_a_container_has(pods: list[dict[str, Any]], started: bool) -> None:
    assert has_started(pods) is started


def test_knows_what_a_pod_cannot_start_without() -> None:
    volumes = [
        {"name": "home", "emptyDir": {}},
        {"name": "values-000", "configMap": {"name": "a"}},
        {"name": "ca", "secret": {"secretName": "b"}},
        {"name": "token", "projected": {"sources": []}},
    ]

    found = mounts_of([{"spec": {}}, {"spec": {"volumes": volumes}}])

    assert mounts_of([]) == mounts_of([{}]) == []
    assert found == [Mount("values-000", "a", secret=False), Mount("ca", "b", secret=True)]


def test_knows_every_secret_that_a_pod_was_given() -> None:
    password = {"secretKeyRef": {"name": "creds", "key": "password"}}
    token = {"secretKeyRef": {"name": "token", "key": "token"}}
    pod = {
        "volumes": [
            {"name": "values-000", "configMap": {"name": "plain"}},
            {"name": "values-001", "secret": {"secretName": "values"}},
        ],
        "initContainers": [{"env": [{"name": "WERF_PASSWORD", "valueFrom": password}]}],
        "containers": [
            {"env": [{"name": "HOME", "value": "/"}, {"name": "T", "valueFrom": token}]}
        ],
    }

    assert secrets_of([{"spec": pod}]) == ["creds", "token", "values"]
    assert secrets_of([{}, {"spec": {}}, {"spec": pod}]) == ["creds", "token", "values"]
    assert secrets_of([{"spec": pod}, {"spec": {}}]) == []  # the newest counts
    assert secrets_of([]) == []
