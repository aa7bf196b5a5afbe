"""The chart with its approval policy, and users with different rights."""

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import person, rbac
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import BUNDLES, install, object_path, rendered, uninstall
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from copyrator.api import names
from demo.chart import Rendered
from localcluster import Api, Cluster

PLAN = "0123456789abcdef"
DECISION_ANNOTATIONS = (
    names.ANN_APPROVED_PLAN,
    names.ANN_REJECTED_PLAN,
    names.ANN_APPROVED_BY,
    names.ANN_REJECTION_REASON,
)
WRITES_STATUS = "writes-status"


class Person(person.Person):
    """A user who has to do with Bundles, each `where` its namespace and name."""

    def patch(self, where: str, body: Any, sub: str = "", **options: str) -> Any:
        return self.merge(f"{path_of(where)}{sub}", body, **options)

    def annotate(self, where: str, **annotations: str | None) -> Any:
        return self.patch(where, {"metadata": {"annotations": decision(**annotations)}})

    def approves(self, where: str, plan: str = PLAN) -> Any:
        return self.annotate(where, approved_plan=plan, approved_by=self.user)

    def sets_mode(self, where: str, mode: str | None) -> Any:
        return self.patch(where, {"spec": {"approval": mode and {"mode": mode}}})

    def writes_status(self, where: str, **status: Any) -> Any:
        return self.patch(where, {"status": status}, "/status")


def path_of(where: str) -> str:
    namespace, name = where.split("/")
    return f"{BUNDLES.format(namespace)}/{name}"


def decision(**annotations: str | None) -> dict[str, str | None]:
    """`approved_by="x"` as an annotation."""
    return {
        f"operator.werf.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
    }


def bundle(where: str, mode: str | None = None, **annotations: str | None) -> dict[str, Any]:
    """A Bundle that can't be deployed: its registry doesn't exist."""
    namespace, name = where.split("/")
    spec: dict[str, Any] = {"registry": "registry.invalid", "repo": "app", "version": "1.0.0"}
    return {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": decision(**annotations),
        },
        "spec": spec | ({"approval": {"mode": mode}} if mode else {}),
    }


@dataclass
class Guarded:
    """A cluster with the policy of an installation in `home`."""

    cluster: Cluster
    api: Api
    home: str
    rendered: Rendered
    kubeconfig: Path
    """The operator's."""
    operator: Person
    """The operator's account."""
    admin: Person
    made: list[str] = field(default_factory=list)
    """Namespaces of tests."""
    made_roles: list[str] = field(default_factory=list)

    @property
    def policy(self) -> str:
        (policy, _) = policies_of(self.rendered)
        return str(policy["metadata"]["name"])

    def person(self, user: str, namespace: str, *roles: str) -> Person:
        """A user with these ClusterRoles in a namespace, which the authorizer knows of."""
        for role in roles:
            rbac.bind(self.api, rbac.user(user), role, namespace, f"{user}-{role}")
        for role in roles:
            for rule in self.api.get(f"{rbac.RBAC}/clusterroles/{role}")["rules"]:
                self._wait_for(user, namespace, rule)
        return Person(self.api.as_user(user), user)

    def role(self, name: str, *rules: dict[str, Any]) -> None:
        """A ClusterRole."""
        self.api.create(
            f"{rbac.RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [*rules]}
        )
        self.made_roles.append(name)

    def _wait_for(self, user: str, namespace: str, rule: dict[str, Any]) -> None:
        resource, _, sub = rule["resources"][0].partition("/")
        asked = {"group": rule["apiGroups"][0], "resource": resource, "subresource": sub}
        asked |= {"namespace": namespace, "verb": rule["verbs"][-1]}
        asked |= {"name": rule.get("resourceNames", [""])[0]}
        until(lambda: rbac.may(self.api, user, **asked), f"{user} may {asked}")

    def get(self, where: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(path_of(where))
        return found

    def annotations(self, where: str) -> dict[str, str]:
        """The decision annotations of a Bundle."""
        found = self.get(where)["metadata"].get("annotations", {})
        return {key: found[key] for key in DECISION_ANNOTATIONS if key in found}


def policies_of(rendered: Rendered) -> list[dict[str, Any]]:
    """The approval policy and its binding."""
    return [
        one
        for one in rendered.rights
        if one["kind"].startswith("ValidatingAdmission")
        and one["metadata"]["name"].endswith(".bundles.operator.werf.dev")
    ]


@pytest.fixture(scope="module")
def guarded(cluster: Cluster) -> Iterator[Guarded]:
    """The policy is in force; the operator doesn't run."""
    api = cluster.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    home = f"approval-{secrets.token_hex(3)}"
    chart = rendered(cluster, home, policy=True)
    kubeconfig = install(cluster, home, chart)
    for left in api.metadata("/apis/operator.werf.dev/v1/bundles"):  # by other files
        path = path_of(f"{left['namespace']}/{left['name']}")
        api.delete(path)
        api.remove_finalizers(path)
    operator = f"system:serviceaccount:{home}:{chart.service_account}"
    guarded = Guarded(
        cluster,
        api,
        home,
        chart,
        kubeconfig,
        Person(api.as_user(operator), operator),
        Person(api, "admin"),
    )
    rule = {
        "apiGroups": ["operator.werf.dev"],
        "resources": ["bundles/status"],
        "verbs": ["get", "patch", "update"],
    }
    guarded.role(WRITES_STATUS, rule)
    _wait_in_force(guarded)
    yield guarded
    for one in chart.rights:
        if one["kind"].startswith("ValidatingAdmission"):
            api.delete(object_path(one))
    # Others write Bundles' status as administrators: with the next test's policy gone, too.
    until(lambda: not _is_in_force(guarded), "the policy is gone")
    for role in guarded.made_roles:
        api.delete(f"{rbac.RBAC}/clusterroles/{role}")
    vanish(cluster, guarded.made)
    uninstall(cluster, home)


def _wait_in_force(guarded: Guarded) -> None:
    """A policy takes effect a moment after it was created."""
    guarded.api.create(BUNDLES.format(guarded.home), bundle(f"{guarded.home}/probe"))
    until(lambda: _is_in_force(guarded), f"{guarded.policy} is in force")


def _is_in_force(guarded: Guarded) -> bool:
    """A dry run: what it wrote would have to be undone, which the policy refuses as well."""
    try:
        status = {"status": {"ready": 1}}
        guarded.admin.patch(f"{guarded.home}/probe", status, "/status", dryRun="All")
    except person.RefusedError as error:
        return guarded.policy in str(error)
    return False


@pytest.fixture
def team(guarded: Guarded) -> str:
    """A namespace of its own for a test."""
    name = f"team-{secrets.token_hex(3)}"
    guarded.made.append(name)
    guarded.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def editor(guarded: Guarded, team: str) -> Person:
    """May edit Bundles."""
    return guarded.person("editor", team, "copyrator-deployer")


@pytest.fixture
def approver(guarded: Guarded, team: str) -> Person:
    """May edit Bundles and approve their plans."""
    return guarded.person("approver", team, "copyrator-deployer", "copyrator-approver")


@pytest.fixture
def forger(guarded: Guarded, team: str) -> Person:
    """May edit Bundles and write their status."""
    return guarded.person("forger", team, "copyrator-deployer", WRITES_STATUS)


@pytest.fixture
def app(team: str, guarded: Guarded) -> Callable[..., str]:
    """Makes a Bundle, with a status as the operator writes it."""

    def make(mode: str | None = None) -> str:
        where = f"{team}/app"
        guarded.admin.create(bundle(where, mode))
        plan = {"id": PLAN, "outcome": "Planned"}
        guarded.operator.writes_status(where, ready=1, plan=plan)
        return where

    return make


@pytest.fixture
def decided(app: Callable[..., str], approver: Person) -> str:
    """A Bundle whose plan is approved."""
    where = app("Always")
    approver.approves(where)
    return where
