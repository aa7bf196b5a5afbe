"""The chart with its approval policy on a control plane of its own, and users with kubectl."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import BUNDLES, install
from tests.e2e.operator_process import until

from copyrator.api import names
from demo.chart import Rendered, render
from localcluster import Api, Cluster
from localcluster.errors import CommandFailedError

PLAN = "0123456789abcdef"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


class RefusedError(Exception):
    """The API server denied a request."""


@dataclass
class Person:
    """A user with a kubeconfig of their own."""

    cluster: Cluster
    user: str
    kubeconfig: Path

    def kubectl(self, *arguments: str, **more: Any) -> str:
        try:
            return self.cluster.kubectl(*arguments, f"--kubeconfig={self.kubeconfig}", **more)
        except CommandFailedError as error:
            raise RefusedError(str(error)) from None

    def create(self, body: dict[str, Any]) -> str:
        return self.kubectl("create", "-f", "-", input=json.dumps(body))

    def patch(self, where: str, body: Any, *options: str, kind: str = "merge") -> str:
        namespace, name = where.split("/")
        arguments = ("patch", "bundle", name, "-n", namespace, f"--type={kind}", *options)
        return self.kubectl(*arguments, "-p", json.dumps(body))

    def annotate(self, where: str, **annotations: str | None) -> str:
        return self.patch(where, {"metadata": {"annotations": decision(**annotations)}})

    def approves(self, where: str, plan: str = PLAN) -> str:
        return self.annotate(where, approved_plan=plan, approved_by=self.user)

    def sets_mode(self, where: str, mode: str | None) -> str:
        return self.patch(where, {"spec": {"approval": {"mode": mode}}})

    def writes_status(self, where: str, **status: Any) -> str:
        return self.patch(where, {"status": status}, "--subresource=status")


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
    operator: Person
    """The operator's account."""
    admin: Person

    @property
    def policy(self) -> str:
        (policy, _) = policies_of(self.rendered)
        return str(policy["metadata"]["name"])

    def person(self, user: str, namespace: str, *roles: str) -> Person:
        """A user with these ClusterRoles in a namespace, which the authorizer knows of."""
        for role in roles:
            reference = {"kind": "ClusterRole", "name": role}
            body = {
                "metadata": {"name": f"{user}-{role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", **reference},
                "subjects": [{"kind": "User", "name": user}],
            }
            self.api.create(f"{RIGHTS}/namespaces/{namespace}/rolebindings", body)
        for role in roles:
            for rule in self.api.get(f"{RIGHTS}/clusterroles/{role}")["rules"]:
                self._wait_for(user, namespace, rule)
        return Person(self.cluster, user, self.cluster.kubeconfig_for_user(user))

    def _wait_for(self, user: str, namespace: str, rule: dict[str, Any]) -> None:
        resource, _, sub = rule["resources"][0].partition("/")
        asked = {"group": rule["apiGroups"][0], "resource": resource, "subresource": sub}
        asked |= {"namespace": namespace, "verb": rule["verbs"][-1]}
        asked |= {"name": rule.get("resourceNames", [""])[0]}
        review = {"spec": {"user": user, "resourceAttributes": asked}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        until(lambda: self.api.create(path, review)["status"]["allowed"], f"{user} may {asked}")

    def get(self, where: str) -> dict[str, Any]:
        namespace, name = where.split("/")
        found: dict[str, Any] = self.api.get(f"{BUNDLES.format(namespace)}/{name}")
        return found

    def annotations(self, where: str) -> dict[str, str]:
        """The decision annotations of a Bundle."""
        found = self.get(where)["metadata"].get("annotations", {})
        return {key: found[key] for key in names.DECISION_ANNOTATIONS if key in found}


def policies_of(rendered: Rendered) -> list[dict[str, Any]]:
    """The approval policy and its binding."""
    return [
        one
        for one in rendered.rights
        if one["kind"].startswith("ValidatingAdmission")
        and one["metadata"]["name"].endswith(".bundles.operator.werf.dev")
    ]


@pytest.fixture(scope="module")
def guarded(disposable: Cluster) -> Guarded:
    """The policy is in force; the operator doesn't run."""
    api = disposable.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    home = f"approval-{secrets.token_hex(3)}"
    rendered = render(disposable.helm, namespace=home, policy=True)
    kubeconfig = install(disposable, home, rendered)
    operator = f"system:serviceaccount:{home}:{rendered.service_account}"
    status = {
        "metadata": {"name": "writes-status"},
        "rules": [
            {
                "apiGroups": ["operator.werf.dev"],
                "resources": ["bundles/status"],
                "verbs": ["get", "patch", "update"],
            }
        ],
    }
    api.create(f"{RIGHTS}/clusterroles", status)
    # kubectl reads what it patches; the operator doesn't.
    subject = {"kind": "ServiceAccount", "namespace": home, "name": rendered.service_account}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    binding = {"metadata": {"name": "operator"}, "subjects": [subject]}
    binding["roleRef"] = {**reference, "name": "writes-status"}
    api.create(f"{RIGHTS}/clusterrolebindings", binding)
    masters = disposable.kubeconfig_for_user("root", ["system:masters"])
    guarded = Guarded(
        disposable,
        api,
        home,
        rendered,
        Person(disposable, operator, kubeconfig),
        Person(disposable, "root", masters),
    )
    _wait_in_force(guarded)
    return guarded


def _wait_in_force(guarded: Guarded) -> None:
    """A policy takes effect a moment after it was created.

    The probe is a dry run: what it wrote would have to be undone, which the policy refuses as well.
    """
    where = f"{guarded.home}/probe"
    guarded.api.create(BUNDLES.format(guarded.home), bundle(where))
    status = {"status": {"ready": 1}}

    def refused() -> bool:
        try:
            guarded.admin.patch(where, status, "--subresource=status", "--dry-run=server")
        except RefusedError as error:
            return guarded.policy in str(error)
        return False

    until(refused, f"{guarded.policy} is in force")


@pytest.fixture
def team(guarded: Guarded) -> str:
    """A namespace of its own for a test."""
    name = f"team-{secrets.token_hex(3)}"
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
    return guarded.person("forger", team, "copyrator-deployer", "writes-status")


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
