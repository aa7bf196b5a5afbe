"""Accounts that may do too little: what plans and deploys say of it, and the roles that suffice.

The Jobs run with the accounts' own tokens, so that what is granted is what werf can use.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.bundles.conftest import SERVICE, TEMPLATE, Team
from tests.e2e.bundles.features.approval.test_approval import ALWAYS, approve, plan, wait_planned
from tests.e2e.documents import commands
from tests.e2e.operator_process import until

from copyrator.cli import cli
from localcluster import Api, Cluster

pytestmark = pytest.mark.usefixtures("operator")

ONCE = {"limit": 0}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RELEASE = 20
"""Reviews of what every release needs."""
PRIORITY = """\
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: {{ .Release.Namespace }}
value: 1
"""


@pytest.fixture
def bare(
    cluster: Cluster, api: Api, namespace: Callable[..., str], tmp_path: Path
) -> Iterator[Team]:
    """A namespace whose service account may do nothing."""
    team = Team(api, cluster, namespace("bare"), tmp_path)
    team.create("serviceaccounts", "werf")
    yield team
    for kind in ("clusterrolebindings", "clusterroles"):
        for one in api.get(f"{RBAC}/{kind}")["items"]:
            if one["metadata"]["name"].startswith(f"{team.namespace}-"):
                api.delete(f"{RBAC}/{kind}/{one['metadata']['name']}")


def types(team: Team, *words: str, code: int = 0) -> str:
    """What a person's command prints to stdout."""
    environment = {"KUBECONFIG": team.cluster.environment()["KUBECONFIG"], "COLUMNS": "200"}
    result = CliRunner().invoke(cli, words, env=environment)
    assert result.exit_code == code, result.output
    return str(result.stdout) if code == 0 else str(result.output)


def roles(team: Team) -> str:
    return types(team, "why", f"{team.namespace}/shop", "--kind", "bundle", "--roles")


def grant(team: Team) -> list[dict[str, Any]]:
    """Pipe the roles into kubectl, as `why` says; wait until the authorizer knows of them."""
    text = roles(team)
    team.cluster.kubectl("apply", "-f", "-", input=text)
    found = [one for one in yaml.safe_load_all(text) if one]
    for role in found:
        for rule in role.get("rules", ()):
            until(lambda role=role, rule=rule: may(team, role, rule), "granted")
    return found


def may(team: Team, role: dict[str, Any], rule: dict[str, Any]) -> bool:
    """Whether the account may do the last thing of a rule."""
    resource, _, subresource = rule["resources"][-1].partition("/")
    asked = {
        "verb": rule["verbs"][-1],
        "group": rule["apiGroups"][-1],
        "resource": resource,
        "subresource": subresource,
        "namespace": role["metadata"].get("namespace", ""),
    }
    user = f"system:serviceaccount:{team.namespace}:werf"
    body = {"spec": {"user": user, "resourceAttributes": asked}}
    answer = team.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def reviewed(team: Team, job: str = "") -> dict[str, Any]:
    """A plan other than that Job's, once its permissions were reviewed."""

    def look() -> dict[str, Any] | None:
        found = plan(team)
        return found if "missingPermissions" in found and found["job"] != job else None

    found: dict[str, Any] = until(look, lambda: f"reviewed: {json.dumps(team.status('shop'))}")
    return found


def replan(team: Team) -> dict[str, Any]:
    job = plan(team)["job"]
    team.annotate("shop", **{"plan-at": job})
    return reviewed(team, job)


def test_an_account_that_may_do_nothing_gets_what_suffices_also_for_kinds_in_no_namespace(
    bare: Team, api: Api
) -> None:
    digest = bare.publish("1.0.0", "first", template=TEMPLATE + SERVICE + PRIORITY)
    bare.bundle("shop", approval=ALWAYS, retry=ONCE)
    found = reviewed(bare)
    assert found["outcome"] == "Failed"
    said = f"the service account {bare.namespace}/werf cannot list secrets in {bare.namespace}"
    assert said in found["message"]
    everything = {one["resource"] for one in found["missing"]}
    assert everything >= {"configmaps", "events", "namespaces", "pods", "pods/log", "secrets"}
    assert everything >= {"services", "priorityclasses.scheduling.k8s.io"}, "of the chart"

    said = types(bare, "why", f"{bare.namespace}/shop", "--kind", "bundle")
    assert 0 < said.index("werf.namespaces") < said.index(" lacked permissions")
    grant(bare)  # what the first failure names is enough
    found = replan(bare)
    assert (found["outcome"], found["missingPermissions"]) == ("Planned", 0), found
    approve(bare, wait_planned(bare, "1.0.0"))

    bare.wait_deployed("shop", digest)
    assert bare.release("shop") == {"text": "first", "greeting": "none"}
    assert bare.get("services", "shop-app") is not None
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{bare.namespace}"
    assert api.get(path)["value"] == 1, "by a cluster role"
    api.delete(path)
    assert "nothing that the plan was reviewed for" in types(
        bare, "why", f"{bare.namespace}/shop", "--roles", code=1
    )


def test_objects_in_no_namespace_are_deployed_without_events_in_default_until_these_may_be_read(
    bare: Team, api: Api
) -> None:
    where = bare.namespace
    create = ("create", "clusterrole", f"{where}-all", "--verb=*")
    bare.cluster.kubectl(*create, "--resource=priorityclasses.scheduling.k8s.io")
    bind = (f"{where}-all", "--clusterrole", f"{where}-all", f"--serviceaccount={where}:werf")
    bare.cluster.kubectl("create", "clusterrolebinding", *bind)
    admin = ("admin", "--clusterrole=admin", f"--serviceaccount={where}:werf")
    bare.cluster.kubectl("-n", where, "create", "rolebinding", *admin)
    said = "KUBEDOG_DISABLE_EVENTS=1: the account may not list events in namespace default\n"
    first = bare.publish("1.0.0", "first", template=TEMPLATE + PRIORITY)
    bare.bundle("shop", retry=ONCE)
    bare.wait_deployed("shop", first)
    path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{where}"
    assert api.get(path)["value"] == 1
    assert said in log_of(bare, bare.status("shop")["attempted"]["job"])

    shown = commands("docs/bundles.md", "Objects in no namespace")
    assert len(shown) == 2
    try:
        for command in shown:
            _, *words = command.replace("=apps:werf", f"={where}:werf").split()
            bare.cluster.kubectl(*words)
        rule = {"verbs": ["watch"], "apiGroups": [""], "resources": ["events"]}
        until(lambda: may(bare, {"metadata": {"namespace": "default"}}, rule), "granted")
        second = bare.publish("1.1.0", "second", template=TEMPLATE + PRIORITY)
        bare.patch("bundles", "shop", spec={"version": "1.1.0"})
        bare.wait_deployed("shop", second)
        assert "KUBEDOG" not in log_of(bare, bare.status("shop")["attempted"]["job"])
    finally:
        bare.cluster.kubectl("-n", "default", "delete", "role", "read-events")
        bare.cluster.kubectl("-n", "default", "delete", "rolebinding", "apps-read-events")
        api.delete(path)


def log_of(team: Team, job: str) -> str:
    return team.cluster.kubectl("-n", team.namespace, "logs", f"job/{job}")
