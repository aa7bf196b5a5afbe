"""The status on a real API server: what others wrote there, and what it costs to mend that."""

import pytest
from tests.e2e.bundles.conftest import INTERVAL, Operator, Team, stays
from tests.e2e.operator_process import until

from localcluster import AuditEvent, Requests

pytestmark = pytest.mark.usefixtures("operator")


def test_a_status_that_somebody_else_wrote_is_mended_by_one_write(
    team: Team, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)
    body = team.get("bundles", "shop")
    assert body
    status = body["status"]
    status["lastError"] = {"reason": "RegistryUnreachable", "message": "as a backup had it"}
    status["available"]["rejected"] = [{"version": "2.0.0-rc", "reason": "PreRelease"}]
    unmanaged = {"type": "Audited", "status": "True", "reason": "Seen", "message": ""}
    status["conditions"].append({**unmanaged, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    status["forceUpdate"] = 0
    # All fields are this client's now, as after a restore: server-side apply would leave them.
    since = team.cluster.requests()
    team.api.replace(team.path("bundles", "shop") + "/status", body)

    until(lambda: "lastError" not in team.status("shop"), "the error is taken away")
    assert "rejected" not in team.status("shop")["available"]
    assert team.status("shop")["forceUpdate"] == 0
    assert team.condition("shop", "Audited")["status"] == "True"
    stays(2 * INTERVAL + 1, lambda: len(_writes(since, operator, team)) == 1, "one write mends it")
    assert len(team.jobs("shop")) == 1


def test_kubectl_waits_for_a_suspended_bundle_and_for_those_that_depend_on_it(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)
    before = f"suspended; before: Deployed: {team.condition('shop')['message']}"
    team.patch("bundles", "shop", spec={"suspend": True})
    team.wait_reason("shop", "Suspended")
    for condition in ("Ready", "Reconciling=false", "Stalled=false"):
        _wait(team, "shop", condition)
    assert team.condition("shop")["message"] == before
    assert team.status("shop")["observedGeneration"] == _generation(team)

    team.publish("1.0.0", "other", repo="other/app")
    team.bundle("after", repo="other/app", dependsOn=[{"name": "shop"}])
    _wait(team, "after", "Ready")

    team.patch("bundles", "shop", spec={"serviceAccountName": "root"})
    team.wait_reason("shop", "InvalidSpec")
    _wait(team, "shop", "Ready=false")
    team.patch("bundles", "shop", spec={"serviceAccountName": None, "minAge": "1h"})
    team.wait_reason("shop", "Suspended")
    _wait(team, "shop", "Ready")
    assert team.condition("shop")["message"] == f"{before}; edited while suspended"
    assert team.status("shop")["observedGeneration"] == _generation(team)


def _wait(team: Team, name: str, condition: str) -> None:
    arguments = (f"--for=condition={condition}", f"bundle/{name}", "-n", team.namespace)
    team.cluster.kubectl("wait", *arguments, "--timeout=120s")


def _generation(team: Team) -> int:
    found = team.get("bundles", "shop")
    assert found
    generation: int = found["metadata"]["generation"]
    return generation


def _writes(since: Requests, operator: Operator, team: Team) -> list[AuditEvent]:
    return since.writes(user=operator.user, resource="bundles", namespace=team.namespace)
