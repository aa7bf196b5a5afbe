"""Why a pod doesn't start, as far as it can be seen."""

from typing import Any

import pytest

from copyrator.api.bundle_status import BundleReason
from copyrator.bundles.policy.blocked import (
    Mount,
    blocked_by,
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
    blocked = blocked_by([found])

    assert (blocked and blocked.reason) == reason


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

    found = mounts_of([{"spec": {"volumes": volumes}}])

    assert found == [Mount("values-000", "a", secret=False), Mount("ca", "b", secret=True)]


def test_knows_every_secret_that_a_pod_was_given() -> None:
    password = {"secretKeyRef": {"name": "creds", "key": "password"}}
    pod = {
        "volumes": [
            {"name": "values-000", "configMap": {"name": "plain"}},
            {"name": "values-001", "secret": {"secretName": "values"}},
        ],
        "initContainers": [{"env": [{"name": "WERF_PASSWORD", "valueFrom": password}]}],
        "containers": [{"env": [{"name": "HOME", "value": "/"}]}],
    }

    assert secrets_of([{"spec": pod}]) == ["creds", "values"]
    assert secrets_of([]) == []
