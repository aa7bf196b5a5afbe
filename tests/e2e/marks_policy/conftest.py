"""Installations of the chart with its admission policy, and people who may edit."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e import rbac
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import install, object_path, rendered, uninstall
from tests.e2e.operator_process import until
from tests.e2e.person import Person, RefusedError

from copyrator.api import names
from demo.chart import Rendered
from localcluster import Api, Cluster

LABELS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
MARKS = {
    names.ANN_RULE: "home/main",
    names.ANN_SOURCE: "home/app",
    names.ANN_HASH: "v1:0123456789abcdef",
}
OURS = names.FIELD_MANAGER
"""The operator's field manager."""


@dataclass
class Guarded:
    """A cluster with the policy of an installation."""

    cluster: Cluster
    api: Api
    home: str
    rendered: Rendered
    ours: Person
    """The operator's account."""
    admin: Path

    def person(self, name: str, *namespaces: str) -> Person:
        """Somebody with Kubernetes' own role `edit` in these namespaces, and `mark` nowhere."""
        for namespace in namespaces:
            may_edit(self.api, name, namespace)
        return Person(self.api.as_user(name), name)


def may_edit(api: Api, user: str, namespace: str) -> None:
    """Give somebody Kubernetes' own role `edit`."""
    rbac.bind(api, rbac.user(user), "edit", namespace, f"edit-{user.replace(':', '-')}")
    asked = {"verb": "create", "resource": "configmaps", "namespace": namespace}
    until(lambda: rbac.may(api, user, **asked), f"{user} may edit")


def config_map(namespace: str, name: str, *, marked: bool = False, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    if marked:
        metadata |= {"labels": LABELS, "annotations": MARKS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def policies_of(chart: Rendered) -> list[dict[str, Any]]:
    """The policy about marks and its binding."""
    return [
        one
        for one in chart.rights
        if one["kind"].startswith("ValidatingAdmission")
        and one["metadata"]["name"].endswith(".copyrator.flant.com")
    ]


def passes(act: Callable[[], object], refused: type[Exception] = RefusedError) -> bool:
    try:
        act()
    except refused:
        return False
    return True


@contextmanager
def installed(cluster: Cluster, api: Api, *, alone: bool = True) -> Iterator[Guarded]:
    """The chart without its Deployment; its policy is in force.

    Beside another one nobody could tell whose policy refuses a probe: then none is made.
    """
    skip_before_1_30(api, POLICIES_ARE_BETA)
    home = f"marks-{secrets.token_hex(3)}"
    # Other tests of this cluster write Bundles' status as administrators.
    values = {"bundles.approvalPolicy.enabled": False, "bundles.guard.enabled": False}
    chart = rendered(cluster, home, values, policy=True)
    install(cluster, home, chart)
    if alone:
        wait_in_force(api, home, policies_of(chart)[0]["metadata"]["name"])
    account = f"system:serviceaccount:{home}:{chart.service_account}"
    ours = Person(api.as_user(account), account)
    yield Guarded(cluster, api, home, chart, ours, cluster.admin_kubeconfig)
    for manifest in policies_of(chart):
        api.delete(object_path(manifest))
    uninstall(cluster, home)


def wait_in_force(api: Api, namespace: str, name: str) -> None:
    """A policy takes effect a moment after it was made."""
    may_edit(api, "prober", namespace)
    prober = Person(api.as_user("prober"), "prober")

    def refused() -> bool:
        try:
            prober.create(config_map(namespace, "probe", marked=True))
        except RefusedError as error:
            return name in str(error)
        api.delete(f"{path_of('configmaps', f'{namespace}/probe')}")
        return False

    until(refused, f"the policy {name} is in force")


def path_of(plural: str, where: str) -> str:
    """Of an object of the core group; `where` is its namespace and name."""
    namespace, name = where.split("/")
    return f"/api/v1/namespaces/{namespace}/{plural}/{name}"


@pytest.fixture
def place(guarded: Guarded, namespace: Callable[..., str]) -> str:
    """A namespace of its own for a test; alice may edit there."""
    name = namespace("place")
    guarded.person("alice", name)
    return name


@pytest.fixture
def alice(guarded: Guarded, place: str) -> Person:
    return Person(guarded.api.as_user("alice"), "alice")
