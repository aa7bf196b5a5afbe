"""Installations of the chart with its admission policy, and people with kubectl."""

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import until

from copyrator.api import names
from demo.chart import Rendered, render
from localcluster import Api, Cluster
from localcluster.errors import CommandFailedError

LABELS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
MARKS = {
    names.ANN_RULE: "home/main",
    names.ANN_SOURCE: "home/app",
    names.ANN_HASH: "v1:0123456789abcdef",
}
OURS = f"--field-manager={names.FIELD_MANAGER}"


class RefusedError(Exception):
    """The API server said no."""


@dataclass
class Person:
    """Somebody with kubectl."""

    cluster: Cluster
    user: str

    def kubectl(self, *arguments: str, **more: Any) -> str:
        try:
            return self.cluster.kubectl(*arguments, f"--as={self.user}", **more)
        except CommandFailedError as error:
            raise RefusedError(str(error)) from None

    def create(self, *manifests: dict[str, Any], options: tuple[str, ...] = ()) -> str:
        return self.kubectl("create", *options, "-f", "-", input=yaml.safe_dump_all(manifests))

    def patch(self, kind: str, where: str, body: dict[str, Any], *options: str) -> str:
        namespace, name = where.split("/")
        arguments = ("patch", kind, name, "-n", namespace, "--type=merge", *options)
        return self.kubectl(*arguments, "-p", json.dumps(body))


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
            self.cluster.kubectl(
                *("create", "rolebinding", f"edit-{name}", "-n", namespace),
                *("--clusterrole=edit", f"--user={name}"),
            )
        return Person(self.cluster, name)


def config_map(namespace: str, name: str, *, marked: bool = False, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": namespace, "name": name}
    if marked:
        metadata |= {"labels": LABELS, "annotations": MARKS}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def policies_of(rendered: Rendered) -> list[dict[str, Any]]:
    """The policy about marks and its binding."""
    return [
        one
        for one in rendered.rights
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
    values = {"bundles.approvalPolicy.enabled": False}
    rendered = render(cluster.helm, namespace=home, values=values, policy=True)
    install(cluster, home, rendered)
    if alone:
        wait_in_force(cluster, home, policies_of(rendered)[0]["metadata"]["name"])
    account = f"system:serviceaccount:{home}:{rendered.service_account}"
    admin = Path(cluster.environment()["KUBECONFIG"])
    yield Guarded(cluster, api, home, rendered, Person(cluster, account), admin)
    for manifest in policies_of(rendered):
        cluster.kubectl("delete", manifest["kind"], manifest["metadata"]["name"])
    uninstall(cluster, home)


def wait_in_force(cluster: Cluster, namespace: str, name: str) -> None:
    """A policy takes effect a moment after it was made."""
    prober = f"prober-{namespace}"
    bind = ("create", "rolebinding", "prober", "-n", namespace, "--clusterrole=edit")
    cluster.kubectl(*bind, f"--user={prober}")

    def refused() -> bool:
        try:
            Person(cluster, prober).create(config_map(namespace, "probe", marked=True))
        except RefusedError as error:
            return name in str(error)
        cluster.kubectl("delete", "configmap", "probe", "-n", namespace)
        return False

    until(refused, f"the policy {name} is in force")


@pytest.fixture
def place(guarded: Guarded, namespace: Callable[..., str]) -> str:
    """A namespace of its own for a test; alice may edit there."""
    name = namespace("place")
    guarded.person("alice", name)
    return name


@pytest.fixture
def alice(guarded: Guarded, place: str) -> Person:
    return Person(guarded.cluster, "alice")
