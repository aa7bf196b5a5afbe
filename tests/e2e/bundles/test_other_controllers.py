"""Jobs into whose pods others inject containers, as service meshes and Vault do."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from tests.e2e.bundles.conftest import TEMPLATE, Team
from tests.e2e.mutating_webhook import Patch, mutating
from tests.e2e.operator_process import until

pytestmark = pytest.mark.usefixtures("operator")

BROKEN = TEMPLATE.replace("kind: ConfigMap", "kind: NoSuchKind")
IMAGE = "proxy.example.com/proxy"
ENDLESS = {"name": "proxy", "image": IMAGE, "command": ["sleep", "100000"]}
NATIVE = {**ENDLESS, "restartPolicy": "Always"}
SETS_UP = {"name": "proxy-init", "image": IMAGE, "command": ["true"]}


def adding(containers: list[dict[str, Any]], inits: list[dict[str, Any]]) -> Patch:
    """Injectors put init containers before those of the pod, and containers after or before."""
    found: Patch = [
        {"op": "add", "path": f"/spec/containers/{place}", "value": one}
        for place, one in zip("0-", containers, strict=False)
    ]
    return [
        *found,
        *({"op": "add", "path": "/spec/initContainers", "value": [one]} for one in inits),
    ]


def injecting(
    team: Team,
    *containers: dict[str, Any],
    inits: tuple[dict[str, Any], ...] = (),
    selector: dict[str, Any] | None = None,
) -> AbstractContextManager[None]:
    changes = adding(list(containers), list(inits))
    return mutating(team.cluster, team.namespace, "pods", lambda _: changes, selector=selector)


def pods(team: Team, job: str) -> list[dict[str, Any]]:
    selector = f"batch.kubernetes.io/job-name={job}"
    found: list[dict[str, Any]] = team.api.get(team.path("pods"), labelSelector=selector)["items"]
    return found


def running(team: Team, job: str) -> list[str]:
    """The containers that run in a Job's pods."""
    return [
        one["name"]
        for pod in pods(team, job)
        for one in pod["status"].get("containerStatuses", ())
        if "running" in one["state"]
    ]


def deadline(team: Team, job: str) -> int:
    return int((team.get("jobs", job) or {})["spec"]["activeDeadlineSeconds"])


@pytest.fixture
def proxied(team: Team) -> Iterator[Team]:
    """A team into whose pods a container that never ends is injected."""
    with injecting(team, ENDLESS):
        yield team


@pytest.mark.parametrize(
    ("containers", "inits"),
    [
        pytest.param((ENDLESS,), (SETS_UP,), id="a sidecar, set up by an init container"),
        pytest.param((), (NATIVE,), id="a native sidecar"),
    ],
)
def test_the_end_of_werf_decides_over_a_bundles_whole_life(
    team: Team, containers: tuple[dict[str, Any], ...], inits: tuple[dict[str, Any], ...]
) -> None:
    first = team.publish("1.0.0", "first")
    with injecting(team, *containers, inits=inits):
        team.bundle("shop", version="1.*", retry={"limit": 0, "backoff": "1s"})
        team.wait_deployed("shop", first)
        second = team.publish("1.1.0", "second")
        team.wait_deployed("shop", second)
        assert (team.release("shop") or {})["text"] == "second"

        team.annotate("shop", pin=f"1.0.0@{first}")
        team.wait_deployed("shop", first)
        assert (team.release("shop") or {})["text"] == "first"

        team.annotate("shop", pin="none")
        team.publish("1.2.0", "third", template=BROKEN)
        team.wait_reason("shop", "Quarantined")
        status = team.status("shop")
        assert status["attempted"]["failures"] == 1
        assert "NoSuchKind" in status["lastError"]["message"] + status["lastError"]["logTail"]
        outcomes = [entry["outcome"] for entry in status["history"]]
        assert (outcomes[0], *outcomes[-3:]) == ("Failed", *["Succeeded"] * 3)

        team.delete("bundles", "shop")
        team.wait_gone("bundles", "shop")
        assert team.release("shop") is None
        assert len(team.jobs("shop", "uninstall")) == 1


def test_a_plan_of_which_a_sidecar_runs_on_is_read_and_kept_for_the_approver(
    proxied: Team,
) -> None:
    """And it gives its slot back: a namespace may have two of the four."""
    team = proxied
    digest = team.publish("1.0.0", "first")
    names = ["shop", "stall", "store"]
    for name in names:
        team.bundle(name, approval={"mode": "Always"})
    for name in names:
        team.wait_reason(name, "AwaitingApproval")

    plan = team.status("shop")["plan"]
    kept = 3 * 24 * 3600
    until(lambda: deadline(team, plan["job"]) >= kept, "its deadline is moved ahead")
    assert running(team, plan["job"]) == ["proxy"]
    (pod,) = pods(team, plan["job"])
    log = team.api.get(f"{team.path('pods', pod['metadata']['name'])}/log", container="werf")
    assert f"create ::ConfigMap:{'shop'}-app" in log

    team.annotate("shop", **{"approved-plan": plan["id"], "approved-by": "ann"})
    team.wait_deployed("shop", digest)
    until(lambda: deadline(team, plan["job"]) < kept, "the plan's Job is ended, as it is decided")


# --- Jobs that a queue, as Kueue is one, lets wait by `spec.suspend`


SUSPENDED = "suspended by a queue"
SUSPEND = [{"op": "add", "path": "/spec/suspend", "value": True}]


@pytest.fixture
def queued(team: Team) -> Iterator[Team]:
    """A team all of whose Jobs are suspended when they are created."""
    with mutating(team.cluster, team.namespace, "jobs.batch", lambda _: SUSPEND):
        yield team


def resume(team: Team, job: dict[str, Any], *, suspend: bool = False) -> None:
    team.patch("jobs", job["metadata"]["name"], spec={"suspend": suspend})


def wait_queued(team: Team, name: str = "shop") -> dict[str, Any]:
    until(
        lambda: SUSPENDED in team.condition(name).get("message", ""),
        lambda: f"{name} is queued: {json.dumps(team.status(name))}",
    )
    return team.condition(name)


def test_a_queued_deploy_waits_and_goes_on_and_so_does_the_uninstall(queued: Team) -> None:
    team = queued
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", timeout="1s")
    condition = wait_queued(team)
    assert (condition["status"], condition["reason"]) == ("Unknown", "Deploying")
    newer = team.publish("1.1.0", "second")
    until(
        lambda: team.status("shop").get("attempted", {}).get("digest") == digest,
        "the version that waits is deployed first",
    )
    (job,) = team.jobs("shop")

    resume(team, job)
    until(lambda: len(team.jobs("shop")) == 2, "the newer one follows")
    assert team.status("shop")["history"][0]["job"] == job["metadata"]["name"]
    assert team.status("shop")["deployed"]["digest"] == digest
    wait_queued(team)
    resume(team, team.jobs("shop")[1])
    status = team.wait_deployed("shop", newer)
    assert [entry["outcome"] for entry in status["history"]] == ["Succeeded"] * 2

    team.delete("bundles", "shop")
    condition = wait_queued(team)
    assert condition["reason"] == "Uninstalling"
    (job,) = team.jobs("shop", "uninstall")
    resume(team, job)
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None
    assert len(team.jobs("shop", "uninstall")) == 1
