"""A plan that was approved and then rejected isn't deployed, whatever an editor does then.

With the policy in force, real Jobs, and an operator that is stopped while people decide.
"""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.approval_policy.conftest import Guarded
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until
from tests.e2e.person import RefusedError
from tests.e2e.rights.conftest import settings


@pytest.fixture
def operator(guarded: Guarded, tmp_path: Path) -> Iterator[Operator]:
    often = {"WERF_OPERATOR_TIMER_INTERVAL": "2", "WERF_OPERATOR_TIMER_IDLE": "0"}
    operator = Operator(
        guarded.cluster,
        guarded.home,
        guarded.kubeconfig,
        guarded.operator.user,
        tmp_path / "operator.log",
        settings(guarded.rendered) | often,
    )
    operator.start()
    yield operator
    if operator.process is not None:
        operator.stop()
    assert "Traceback" not in operator.log.read_text()


@pytest.fixture
def shop(guarded: Guarded, team: str, tmp_path: Path) -> Team:
    return make_team(guarded.cluster, guarded.api, team, tmp_path)


def test_the_operator_is_stopped_while_a_plan_is_rejected(
    guarded: Guarded, operator: Operator, shop: Team, team: str
) -> None:
    editor = guarded.person("editor", team, "copyrator-deployer")
    approver = guarded.person("approver", team, "copyrator-deployer", "copyrator-approver")
    where = f"{team}/shop"
    digest = shop.publish("1.0.0", "first")
    shop.bundle("shop", approval={"mode": "Always"})

    def plan() -> dict[str, object]:
        return dict(shop.status("shop").get("plan", {}))

    shop.wait_reason("shop", "AwaitingApproval")
    shop.patch("bundles", "shop", spec={"suspend": True})  # what is approved waits
    shop.wait_reason("shop", "Suspended")
    found = str(plan()["id"])
    approver.approves(where, found)
    until(lambda: plan().get("decision") == "Approved", lambda: json.dumps(shop.status("shop")))

    operator.stop()
    approver.annotate(where, rejected_plan=found, approved_by=None, rejection_reason="too early")
    with pytest.raises(RefusedError, match="the operator has not recorded the rejection yet"):
        editor.annotate(where, rejected_plan=None)
    editor.annotate(where, requestedAt=secrets.token_hex(3))
    operator.start()
    until(lambda: plan().get("decision") == "Rejected", lambda: json.dumps(shop.status("shop")))
    editor.patch(where, {"spec": {"suspend": None}})
    refused = shop.wait_condition("shop", "UpdatePending", "PlanRejected")
    assert refused["message"].endswith("was rejected: too early")

    for name in ("rejected_plan", "approved_plan"):
        operator.stop()
        editor.annotate(where, **{name: None})
        operator.start()
    until(lambda: plan().get("approvalCleared"), lambda: json.dumps(shop.status("shop")))
    with pytest.raises(RefusedError, match="editor may not approve or reject"):
        editor.approves(where, found)
    assert plan()["decision"] == "Rejected"
    assert shop.jobs("shop") == []
    assert shop.release("shop") is None

    editor.annotate(where, plan_at="now")  # the same is planned under another ID
    until(lambda: plan().get("id") not in (None, found), lambda: json.dumps(shop.status("shop")))
    shop.wait_reason("shop", "AwaitingApproval")
    assert shop.jobs("shop") == []
    approver.approves(where, str(plan()["id"]))
    (done,) = shop.wait_deployed("shop", digest)["history"]
    assert (done["cause"], done["by"]) == ("Requested", "approver")
    # An editor who calls a field manager, or itself in an annotation, like a person is none.
    editor.annotate(where, approved_plan=None, approved_by=None)
    with pytest.raises(RefusedError, match="editor may not approve or reject"):
        editor.annotate(where, approved_by="approver")
    shop.patch("bundles", "shop", spec={"approval": {"mode": "OnRisk"}})
    forged = {"metadata": {"annotations": {"operator.werf.dev/requestedAt": "approver"}}}
    editor.patch(where, forged, manager="approver")
    until(lambda: len(shop.status("shop")["history"]) > 1, lambda: json.dumps(shop.status("shop")))
    done = shop.status("shop")["history"][0]
    assert (done["cause"], done["by"]) == ("Requested", "field manager approver")

    # Nothing was to be changed, so werf stored no revision: the first one is still deployed.
    assert shop.status("shop")["deployed"]["revision"] == done["revision"] == 1
    digest = shop.publish("1.1.0", "second")
    shop.patch("bundles", "shop", spec={"version": "1.1.0", "approval": {"mode": "Always"}})
    shop.wait_condition("shop", "UpdatePending", "AwaitingApproval")
    approver.approves(where, str(plan()["id"]))
    assert shop.wait_deployed("shop", digest)["deployed"]["revision"] == 2
