"""What a person sees of a release that failed, with each version of werf."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tests.e2e.bundles.conftest import Team
from tests.e2e.bundles.features.approval.test_approval import ALWAYS
from tests.e2e.operator_process import until
from tests.long import LONG

from copyrator.cli import cli

pytestmark = pytest.mark.usefixtures("operator")

VERSIONS = ("2.67.0", "2.75.3", "3.2.0")
NEWEST = VERSIONS if LONG else VERSIONS[1:2]
"""``make test`` uses the newest werf 2, and werf 3 where it differs."""
BAD_SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: TEXT}
spec: {ports: [{port: 99999}]}
"""
TOO_HIGH = "Invalid value: 99999: must be between 1 and 65535, inclusive"
FAULT = (
    'Service "bad" is invalid: '
    f"[spec.ports[0].port: {TOO_HIGH}, spec.ports[0].targetPort: {TOO_HIGH}]"
)


@pytest.mark.parametrize("version", NEWEST)
def test_the_first_cause_is_in_the_status_the_events_why_and_history(
    team: Team, version: str
) -> None:
    team.publish("1.0.0", "bad", template=BAD_SERVICE)
    team.bundle("shop", werf={"version": version}, retry={"limit": 0})

    ready = team.wait_reason("shop", "Quarantined")["message"]

    status = team.status("shop")
    message = status["lastError"]["message"]
    assert message == (
        f'create: Service/bad failed: server-side apply resource "Service/bad": {FAULT}'
    )
    assert status["attempted"]["message"] == message
    assert f": {message}. It isn't retried" in ready
    until(lambda: any(message in one for one in events(team)), lambda: str(events(team)))
    assert message in said(team, "why", "shop")
    assert message in said(team, "history", "bundle", "shop")


@pytest.mark.parametrize("version", NEWEST)
def test_broken_values_are_named_by_object_key_and_line(team: Team, version: str) -> None:
    """As they are mounted, and as a planned Job has copies of them."""
    team.publish("1.0.0", "abc")
    team.create("configmaps", "settings", data={"a.yaml": "a: 1\n", "b.yaml": "a: 1\nb: : x\n"})
    spec = {"werf": {"version": version}, "values": "settings", "retry": {"limit": 0}}
    optional = {"kind": "ConfigMap", "name": "missing", "optional": True}
    broken = f"failed to parse ConfigMap {team.namespace}/settings, key b.yaml: "

    team.bundle("shop", **spec)
    team.bundle("gated", **spec, valuesFrom=[optional], approval=ALWAYS)

    assert (
        f"{broken}error converting YAML to JSON: yaml: line 2: "
        in (team.wait_reason("shop", "Quarantined")["message"])
    )
    team.wait_reason("gated", "PlanUnstable", says=f"{broken}error converting")


def events(team: Team) -> list[str]:
    """The messages of the Events of the Bundle."""
    items = team.api.get(team.path("events"))["items"]
    return [one["message"] for one in items if one["involvedObject"]["kind"] == "Bundle"]


def said(team: Team, *command: str) -> str:
    """What the command prints."""
    environment = {"KUBECONFIG": str(team.cluster.admin_kubeconfig), "COLUMNS": "300"}
    result = CliRunner().invoke(cli, [*command, "-n", team.namespace], env=environment)
    assert result.exit_code == 0, result.output
    return result.output
