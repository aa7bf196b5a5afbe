"""Deleted Bundles: uninstalled, or let go with a word about what stays behind."""

import pytest
from tests.e2e.bundles.conftest import Operator, Team, is_gone
from tests.e2e.operator_process import until

from localcluster import Api

pytestmark = pytest.mark.usefixtures("operator")


def test_a_namespace_that_is_deleted_is_not_held_up(
    team: Team, api: Api, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)

    api.delete(f"/api/v1/namespaces/{team.namespace}")

    until(lambda: is_gone(api, f"/api/v1/namespaces/{team.namespace}"), "it goes")
    assert "is orphaned (namespace-terminating)" in operator.log.read_text()
    field = f"involvedObject.kind=Namespace,involvedObject.name={team.namespace}"
    until(lambda: events(api, field, "ReleaseOrphaned"), "an Event on the Namespace")


FIRST_REFUSALS = [("list", "secrets"), ("get", "namespaces")]
"""Of an account without any right: what werf 2 asks for first, and what werf 3 does."""


def events(api: Api, field: str, reason: str) -> list[str]:
    items = api.get("/api/v1/namespaces/default/events", fieldSelector=field)["items"]
    return [item["message"] for item in items if item["reason"] == reason]


def test_an_uninstall_without_rights_fails_until_they_are_granted(
    team: Team, api: Api, operator: Operator
) -> None:
    """Helm 3 calls a release that it may not see "not found"."""
    digest = team.publish("1.0.0", "first")
    team.create("serviceaccounts", "admin")
    team.bundle("shop")
    team.wait_deployed("shop", digest)
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team.namespace}/rolebindings"
    binding = api.get(f"{rights}/werf")
    api.delete(f"{rights}/werf")
    team.patch("bundles", "shop", spec={"serviceAccountName": "admin"})

    team.delete("bundles", "shop")
    condition = team.wait_reason("shop", "UninstallFailed")
    assert "admin isn't allowed" in condition["message"]
    assert team.jobs("shop", "uninstall") == []

    team.patch("bundles", "shop", spec={"serviceAccountName": None})
    until(
        lambda: any(
            f"cannot {verb} {resource}" in team.condition("shop")["message"]
            for verb, resource in FIRST_REFUSALS
        ),
        "werf may not, either",
    )
    assert team.condition("shop")["reason"] == "UninstallFailed"
    assert team.status("shop")["attempted"]["missing"] in [
        [{"verbs": [verb], "resource": resource, "namespace": team.namespace}]
        for verb, resource in FIRST_REFUSALS
    ]
    assert team.release("shop") is not None

    api.create(rights, {**binding, "metadata": {"name": "werf"}})
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None
    text = f"bundle/{team.namespace}/shop: its release is uninstalled"
    assert operator.log.read_text().count(text) == 1
