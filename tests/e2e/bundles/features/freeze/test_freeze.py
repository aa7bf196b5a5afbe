"""The stop button: real commands, a real operator, real deploys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.bundles.conftest import ROOT, Operator, Team
from tests.e2e.operator_process import until

from copyrator.cli import cli
from localcluster import Cluster

ROLES = ROOT / "examples" / "freeze-roles.yaml"


@dataclass
class Terminal:
    """Where a person types commands."""

    cluster: Cluster
    home: str
    """The operator's namespace."""

    def types(self, command: str, code: int = 0, reason: str = "") -> str:
        environment = {
            "KUBECONFIG": self.cluster.environment()["KUBECONFIG"],
            "COPYRATOR_OPERATOR_NAMESPACE": self.home,
            "COLUMNS": "300",
        }
        words = [*command.split(), *(["--reason", reason] if reason else [])]
        done = CliRunner().invoke(cli, words, env=environment)
        assert done.exit_code == code, f"{command}\n{done.output}"
        assert "Traceback" not in done.output
        return str(done.output)


@pytest.fixture
def terminal(operator: Operator) -> Iterator[Terminal]:
    found = Terminal(operator.cluster, operator.namespace)
    yield found
    found.types("thaw --all")


def gate(team: Team, name: str = "shop") -> dict[str, Any]:
    found = [one for one in team.status(name).get("gates", []) if one["name"] == "freeze"]
    return found[0] if found else {}


def waits(team: Team, name: str = "shop", reason: str = "Frozen") -> dict[str, Any]:
    until(
        lambda: gate(team, name).get("reason") == reason,
        lambda: f"{name} waits; {json.dumps(team.status(name))}",
    )
    return gate(team, name)


@pytest.fixture(scope="module")
def shop(operator: Operator, lasting_team: Team) -> Team:
    """A Bundle for all tests, made while no operator ran and what freezes couldn't be read."""
    team = lasting_team
    team.publish("1.0.0", "first")
    operator.stop()
    body = {"metadata": {"name": "copyrator-freeze"}, "data": {"until": "tomorrow"}}
    team.api.create(f"/api/v1/namespaces/{operator.namespace}/configmaps", body)
    team.bundle("shop", version="1.*", retry={"limit": 1, "backoff": "10m"})
    operator.start()
    return team


def test_all_namespaces_are_frozen_from_the_first_deploy_after_a_start_on(
    shop: Team, terminal: Terminal, operator: Operator
) -> None:
    """By what can't be read, as /readyz says, and by what is meant."""
    team = shop
    assert "'tomorrow' isn't an RFC 3339 time" in waits(team, reason="FreezeUnreadable")["message"]
    assert operator.process is not None
    operator.process.wait_says("copyrator-freeze can't be read")
    assert "FAIL Freeze: all namespaces are frozen because" in terminal.types("doctor", code=1)

    said = terminal.types("freeze --all", reason="incident")
    assert "All namespaces are frozen by " in said
    operator.process.wait_ready()
    assert "incident" in waits(team)["message"]
    assert team.condition("shop")["status"] == "Unknown"
    assert team.condition("shop", "Reconciling")["status"] == "True"
    assert team.jobs("shop") == []
    team.annotate("shop", forceAt="now")
    terminal.types(f"freeze -n {team.namespace}", reason="another")
    until(lambda: "another" in gate(team)["message"])

    said = terminal.types("thaw --all")

    assert f"Still: namespace {team.namespace} is frozen by " in said
    until(lambda: "incident" not in gate(team)["message"])
    assert team.jobs("shop") == []
    terminal.types(f"thaw -n {team.namespace}")
    team.wait_reason("shop", "Deployed")
    assert (team.release("shop") or {})["text"] == "first"


def test_a_namespace_is_frozen_and_thawed(shop: Team, terminal: Terminal) -> None:
    team = shop
    jobs = len(team.jobs("shop"))
    said = terminal.types(f"freeze -n {team.namespace}", reason="inventory  of the year")

    assert f"Namespace {team.namespace} is frozen by " in said
    assert "inventory of the year." in said
    assert f"copyrator thaw -n {team.namespace}" in said
    second = team.publish("1.1.0", "second")
    found = waits(team)
    assert "inventory of the year" in found["message"]
    assert "until" not in found
    assert team.condition("shop")["status"] == "True"
    assert team.condition("shop", "UpdatePending")["reason"] == "Frozen"
    assert len(team.jobs("shop")) == jobs

    shown = terminal.types(f"get bundles -n {team.namespace}")
    assert " Waiting  Frozen " in shown
    for command in ("why shop --kind bundle", "describe bundle shop"):
        assert "inventory of the year" in terminal.types(f"{command} -n {team.namespace}")
    assert "inventory of the year" in terminal.types("doctor")

    said = terminal.types(f"thaw -n {team.namespace}")

    assert f"Namespace {team.namespace} is thawed." in said
    team.wait_deployed("shop", second)
    assert gate(team) == {}
    assert "isn't frozen." in terminal.types(f"thaw -n {team.namespace}")

    def reasons() -> set[str]:
        found = team.api.get("/api/v1/namespaces/default/events")["items"]
        return {one["reason"] for one in found if one["involvedObject"]["name"] == team.namespace}

    until(lambda: reasons() >= {"Frozen", "Thawed"}, lambda: f"Events tell it: {reasons()}")


def test_the_examples_roles_are_enough_to_freeze_and_thaw(
    team: Team, operator: Operator, terminal: Terminal
) -> None:
    rbac, user = "/apis/rbac.authorization.k8s.io/v1", f"freezer-{team.namespace}"
    places = {"copyrator": operator.namespace, "apps": team.namespace}
    for role in yaml.safe_load_all(ROLES.read_text()):
        place = places[role["metadata"]["namespace"]]
        for rule in role["rules"]:
            names = rule.get("resourceNames")
            rule.update({"resourceNames": [places.get(one, one) for one in names]} if names else {})
        metadata = {"name": user}
        api = team.api
        api.create(
            f"{rbac}/namespaces/{place}/roles", {"metadata": metadata, "rules": role["rules"]}
        )
        api.create(
            f"{rbac}/namespaces/{place}/rolebindings",
            {
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
                ],
            },
        )
    for where in (f"-n {team.namespace}", "--all"):
        terminal.types(f"freeze {where} --as {user}", reason="by a role")
        terminal.types(f"thaw {where} --as {user}")
        terminal.types(f"freeze {where} --as nobody-{user}", code=1, reason="without one")
