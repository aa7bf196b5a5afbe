"""Jobs that a queue, as Kueue is one, lets wait by `spec.suspend`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Team
from tests.e2e.mutating_webhook import mutating
from tests.e2e.operator_process import until

pytestmark = pytest.mark.usefixtures("operator")

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


def test_a_queued_plan_waits_and_goes_on(queued: Team) -> None:
    team = queued
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", approval={"mode": "Always"})
    until(
        lambda: SUSPENDED in (team.status("shop").get("plan") or {}).get("message", ""),
        lambda: f"its plan is queued: {json.dumps(team.status('shop'))}",
    )
    (job,) = team.jobs("shop", "plan")
    resume(team, job)
    team.wait_reason("shop", "AwaitingApproval")
    plan = team.status("shop")["plan"]
    assert plan["job"] == job["metadata"]["name"]
    team.annotate("shop", **{"approved-plan": plan["id"], "approved-by": "ann"})
    wait_queued(team)
    resume(team, team.jobs("shop")[0])
    team.wait_deployed("shop", digest)
    assert len(team.jobs("shop", "plan")) == 1


def test_a_queued_deploy_gives_way_to_an_edited_spec_and_to_a_deletion(queued: Team) -> None:
    team = queued
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")
    wait_queued(team)
    (first,) = team.jobs("shop")
    team.patch("bundles", "shop", spec={"releasesHistoryMax": 3})
    until(lambda: len(team.jobs("shop")) == 2, "a Job for the edited spec")
    # By name: both may be of the same second.
    name = first["metadata"]["name"]
    (second,) = (one for one in team.jobs("shop") if one["metadata"]["name"] != name)
    until(
        lambda: (
            (team.get("jobs", first["metadata"]["name"]) or {})["status"].get("conditions")[-1][
                "type"
            ]
            == "Failed"
        ),
        "the former Job ends without a queue's doing",
    )
    assert not (team.get("jobs", first["metadata"]["name"]) or {})["status"].get("failed")
    assert team.release("shop") is None

    team.delete("bundles", "shop")
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None
    assert second["metadata"]["annotations"]["operator.werf.dev/digest"] == digest
