"""An API server without the policy API, as Kubernetes 1.29: approval works, and what lacks is said.

On Kubernetes 1.29 itself nothing has to be switched off.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.e2e import rbac
from tests.e2e.approval_policy.conftest import Person
from tests.e2e.bundles.conftest import Operator, Team, make_team, operating
from tests.e2e.conftest import directory_of
from tests.e2e.owned_cluster import owned_cluster
from tests.long import long_form

from copyrator.cli import cli
from demo.chart import CHART, SET_IMAGE
from localcluster import Cluster

ADMISSION = "admissionregistration.k8s.io/v1"
KINDS = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
WITHOUT = (
    "--runtime-config=" + ",".join(f"{ADMISSION}/{kind}=false" for kind in KINDS),
    "--disable-admission-plugins=ValidatingAdmissionPolicy",
)


@dataclass
class Bare:
    """A control plane without policies, and an operator on it."""

    cluster: Cluster
    operator: Operator
    team: Team


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    home = tmp_path_factory.mktemp("bare")
    with (
        owned_cluster(directory_of("-bare"), WITHOUT) as cluster,
        operating(cluster, home / "operator.log") as operator,
    ):
        api, namespace = cluster.api(), f"team-{secrets.token_hex(3)}"
        api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield Bare(cluster, operator, make_team(cluster, api, namespace, home))


def run(bare: Bare, kubeconfig: Path, *command: str) -> tuple[int, str]:
    environment = {
        "KUBECONFIG": str(kubeconfig),
        "COPYRATOR_OPERATOR_NAMESPACE": bare.operator.namespace,
        "COLUMNS": "300",
    }
    result = CliRunner().invoke(cli, command, env=environment)
    return result.exit_code, result.output


@long_form(
    "tests/e2e/bundles/features/approval/test_approval.py::test_nothing_is_deployed_until_its_plan_is_approved"
)
def test_a_plan_is_approved_by_whoever_may_edit(bare: Bare) -> None:
    team = bare.team
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", approval={"mode": "Always"})
    found = team.wait_condition("shop", "Ready", "AwaitingApproval")
    assert "copyrator approve" in found["message"]
    editor = bare.cluster.kubeconfig_for_user("editor")
    rule = rbac.rule("get patch", "bundles", group="operator.werf.dev")
    rbac.grant(team.api, rbac.user("editor"), rule, namespace=team.namespace)
    where = f"{team.namespace}/shop"
    code, said = run(bare, editor, "approve", "bundle", where, "--yes")
    assert code == 1, "the command refuses whom the API server lets"
    assert "approve" in said
    plan = team.status("shop")["plan"]["id"]
    Person(team.api.as_user("editor"), "editor").annotate(
        where, approved_plan=plan, approved_by="boss"
    )
    status = team.wait_deployed("shop", digest)
    done = status["history"][0]
    assert done["approvedBy"] == "boss", "nobody checks the name"
    assert done["by"].startswith("field manager "), "so it isn't who made it"


@long_form(
    "tests/unit/cli/doctor/test_command.py::test_a_policy_that_cant_be_there_or_seen_is_a_warning"
)
def test_doctor_and_the_chart_say_so(bare: Bare) -> None:
    _, said = run(bare, bare.cluster.admin_kubeconfig, "doctor")
    (line,) = [one for one in said.splitlines() if "Approval policy" in one]
    assert "not served as v1 by this API server (Kubernetes 1.30 and later)" in line
    assert "whoever can edit a Bundle can also approve its plans" in line
    required = ("--set-json", 'bundles.requireApproval={"*":"Always"}')
    options = ("--dry-run=server", "--namespace", "x", "--set", "crds.enabled=false", *required)
    manifest, _, notes = bare.cluster.helm(
        "install", "copyrator", str(CHART), *SET_IMAGE, *options
    ).partition("NOTES:")
    assert "ValidatingAdmissionPolicy" not in manifest
    assert "because this API server doesn't serve ValidatingAdmissionPolicy v1" in notes
