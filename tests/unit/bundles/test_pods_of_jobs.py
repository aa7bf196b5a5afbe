"""What a Job's pod tells before the Job does: whether the operator's containers have ended."""

from typing import Any

import pytest

from copyrator.api.times import parse_time
from copyrator.bundles.deploy.outcome import Blocked, find_blocked_pod, read_pod

ENDED = "2026-01-01T00:01:00Z"


def state(name: str, code: int | None, **more: Any) -> dict[str, Any]:
    if code is None:
        return {"name": name, "state": {"running": {}}, **more}
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": ENDED}}, **more}


def pod(
    *containers: dict[str, Any],
    inits: tuple[dict[str, Any], ...] = (),
    phase: str = "Running",
    **metadata: Any,
) -> dict[str, Any]:
    owners = [{"uid": "other"}, {"uid": "job-1", "controller": True}]
    return {
        "metadata": {
            "namespace": "apps",
            "labels": {"operator.werf.dev/bundle": "shop"},
            "ownerReferences": owners,
            **metadata,
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(containers),
            "initContainerStatuses": list(inits),
        },
    }


PROXY = state("proxy", None)


def deleted(at: str) -> dict[str, Any]:
    """Of a pod with 30 s to end."""
    return {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("body", "has_ended"),
    [
        pytest.param(pod(state("werf", 0), PROXY), True, id="werf succeeded, a sidecar runs"),
        pytest.param(pod(PROXY, state("werf", 1)), True, id="werf failed, a sidecar runs"),
        pytest.param(
            pod(state("werf", 0), PROXY, phase="Pending"), True, id="a sidecar has yet to start"
        ),
        pytest.param(
            pod(state("werf", 0), inits=(PROXY,)), True, id="a native sidecar has yet to end"
        ),
        pytest.param(pod(PROXY, inits=(state("login", 1),)), True, id="the login failed"),
        pytest.param(pod(PROXY, inits=(state("login", 0),)), False, id="the login succeeded"),
        pytest.param(pod(state("werf", None), PROXY), False, id="werf runs"),
        pytest.param(pod(state("werf", None), state("proxy", 1)), False, id="a sidecar failed"),
        pytest.param(
            pod(PROXY, inits=(state("proxy-init", 1),)), False, id="another init container failed"
        ),
        pytest.param(pod(state("werf", 0), phase="Succeeded"), False, id="the Job will tell"),
        pytest.param(pod(state("werf", 1), phase="Failed"), False, id="the Job will tell of it"),
        pytest.param(
            pod(state("werf", 143), PROXY, **deleted("2026-01-01T00:01:29Z")),
            False,
            id="it was ended by the pod's deletion",
        ),
        pytest.param(
            pod(state("werf", 0), PROXY, **deleted("2026-01-01T00:01:31Z")),
            True,
            id="it had ended before the deletion",
        ),
        pytest.param({"metadata": {}}, False, id="a pod without anything"),
    ],
)
def test_the_end_of_the_operators_containers_is_seen(body: dict[str, Any], has_ended: bool) -> None:
    assert read_pod(body).ended == (parse_time(ENDED) if has_ended else None)


def test_a_pod_belongs_to_the_job_that_controls_it() -> None:
    found = read_pod(pod())
    assert (found.namespace, found.bundle, found.job_uid) == ("apps", "shop", "job-1")


STAYS = {"spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}}


@pytest.mark.parametrize(
    ("body", "waits_for"),
    [
        pytest.param(pod(inits=(state("vault-agent-init", None),)), "vault-agent-init", id="runs"),
        pytest.param(pod(inits=(state("vault-agent-init", 0),)), None, id="has ended"),
        pytest.param(pod(inits=(state("login", None),)), None, id="the operator's own"),
        pytest.param(
            pod(inits=(state("proxy", None, started=False),)) | STAYS,
            "proxy",
            id="a native sidecar that hasn't started",
        ),
        pytest.param(
            pod(inits=(state("proxy", None, started=True),)) | STAYS,
            None,
            id="a native sidecar that has",
        ),
    ],
)
def test_an_injected_init_container_that_ours_wait_for_is_named(
    body: dict[str, Any], waits_for: str | None
) -> None:
    found = find_blocked_pod([body])
    if waits_for is None:
        assert found is None
    else:
        assert isinstance(found, Blocked)
        assert f"waits for its init container {waits_for}," in found.message
