"""The chart's guard on a real API server, and tokens bound to pods as a Job's are. No werf."""

import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.e2e import rbac
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.installation import install, object_path, rendered, uninstall
from tests.e2e.operator_process import until
from tests.e2e.person import Person, RefusedError
from tests.e2e.vanishing import vanish

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.guard.listing import (
    GuardedDeploy,
    GuardedUninstall,
    config_map,
    key_of,
    list_of,
)
from copyrator.bundles.plans.operations import Operation, read_operation
from demo.chart import Rendered
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError

ACCOUNT = "werf"
LISTS = "lists"
VALUES = {"bundles.approvalPolicy.enabled": False, "rules.admissionPolicy": False}
"""Other tests of this cluster write Bundles' status and copies as administrators."""


def op(line: str) -> Operation:
    found = read_operation(line)
    assert found is not None, line
    return found


def ops(*lines: str) -> tuple[Operation, ...]:
    return tuple(map(op, lines))


def token_client(cluster: Cluster, token: str) -> Api:
    """A client with no certificate but a token."""
    context = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
    return Api(cluster.server, context, token=token)


def pod_token(api: Api, namespace: str, account: str, pod: str) -> str:
    """A token bound to a pod, as a projected one is; the pod is made, and never runs."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    spec = {
        "serviceAccountName": account,
        "schedulerName": "nobody",
        "containers": [{"name": "werf", "image": "werf"}],
    }
    made = api.create(pods, {"metadata": {"name": pod}, "spec": spec})
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": made["metadata"]["uid"]}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
    }
    return str(api.create(path, body)["status"]["token"])


@dataclass
class Guarded:
    """A cluster with the guard of an installation in `home`."""

    cluster: Cluster
    api: Api
    home: str
    rendered: Rendered
    ours: Person
    """The operator's account."""
    teams: list[str] = field(default_factory=list)
    """Namespaces that were made."""

    @property
    def policy(self) -> str:
        return f"copyrator.{self.home}.guard.operator.werf.dev"

    def team(self, *, admin: bool = True, account: str = ACCOUNT) -> str:
        """A namespace with an account that may do everything, or nothing."""
        name = f"team-{secrets.token_hex(3)}"
        self.teams.append(name)
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        if account != "default":
            path = f"/api/v1/namespaces/{name}/serviceaccounts"
            self.api.create(path, {"metadata": {"name": account}})
        if admin:
            subject = rbac.account(name, account)
            rbac.bind(self.api, subject, "cluster-admin", name=f"guard-{name}")
        return name

    def job(
        self,
        team: str,
        *lines: str,
        account: str = ACCOUNT,
        as_account: tuple[str, ...] = (),
        release_namespace: str = "",
        **more: Any,
    ) -> "GuardedJob":
        """A Job's pod, its list in force."""
        guarded = GuardedDeploy(
            account=ServiceAccount(team, account),
            release="shop",
            namespace=release_namespace or team,
            operations=ops(*lines),
            as_account=frozenset(ops(*as_account)),
            **{"revision": 2, "deployed_revision": 1} | more,
        )
        name = f"shop-deploy-{secrets.token_hex(5)}"
        return self.start(name, guarded)

    def start(self, name: str, guarded: GuardedDeploy | GuardedUninstall) -> "GuardedJob":
        """A pod of a Job of that name, and what it may do."""
        space, account = guarded.account.namespace, guarded.account.name
        until(lambda: self._has_account(space, account), f"{space}/{account} exists")
        pod = f"{name}-{secrets.token_hex(3)[:5]}"
        client = token_client(self.cluster, pod_token(self.api, space, account, pod))
        job = GuardedJob(self, name, pod, space, Person(client, pod))
        self.write_list(job, list_of(guarded))
        job.wait_in_force()
        return job

    @property
    def lists(self) -> str:
        """The path of the ConfigMap."""
        return f"/api/v1/namespaces/{self.home}/configmaps/{LISTS}"

    def write_list(self, job: "GuardedJob", text: str) -> None:
        """As the operator does."""
        made = config_map(LISTS, {job.key: text})
        made["metadata"]["namespace"] = self.home
        try:
            self.ours.create(made)
        except RefusedError:  # it is there
            self.ours.merge(self.lists, {"data": made["data"]})

    def delete_list(self, job: "GuardedJob") -> None:
        """As the operator does."""
        self.ours.merge(self.lists, {"data": {job.key: None}})

    def are_lists_guarded(self) -> bool:
        """Whether an administrator's list is refused."""
        probe = config("probe", self.home)
        probe["metadata"]["labels"] = {names.LABEL_GUARD: "probe"}
        try:
            Person(self.api, "admin").create(probe, dryRun="All")
        except RefusedError as error:
            return ".guard-lists." in str(error)
        return False

    def _has_account(self, namespace: str, account: str) -> bool:
        found = self.api.metadata(f"/api/v1/namespaces/{namespace}/serviceaccounts")
        return account in {one["name"] for one in found}


@dataclass
class GuardedJob:
    """A pod of a guarded Job."""

    guarded: Guarded
    name: str
    pod: str
    team: str
    person: Person
    """Who has the pod's token."""

    @property
    def key(self) -> str:
        """Of its list."""
        return key_of(ObjectName(self.team, self.name))

    def is_guarded(self) -> bool:
        """As the Job's script probes."""
        probe = config("guard-probe", self.team)
        try:
            self.person.create(probe, dryRun="All")
        except RefusedError as error:
            return f"ValidatingAdmissionPolicy '{self.guarded.policy}' with binding" in str(error)
        return False

    def wait_in_force(self) -> None:
        until(self.is_guarded, f"{self.name} is guarded")

    def refused(self, act: Callable[[], object]) -> str:
        """How an act is refused, from the policy's own words on."""
        try:
            act()
        except RefusedError as error:
            said = str(error)
            start = f"ValidatingAdmissionPolicy '{self.guarded.policy}' with binding"
            assert start in said, said
            return said.partition(" denied request: ")[2]
        return ""


def config(name: str, namespace: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def definition(group: str) -> dict[str, Any]:
    """A CRD of Things."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version],
        },
    }


@contextmanager
def installed(cluster: Cluster) -> Iterator[Guarded]:
    """The chart without its Deployment; its guard is in force."""
    api = cluster.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    home = f"guard-{secrets.token_hex(3)}"
    chart = rendered(cluster, home, VALUES, policy=True)
    install(cluster, home, chart)
    account = f"system:serviceaccount:{home}:{chart.service_account}"
    guarded = Guarded(cluster, api, home, chart, Person(api.as_user(account), account))
    until(guarded.are_lists_guarded, "lists are the operator's")
    # The first list holds after the policy; later ones only after themselves.
    guarded.job(guarded.team())
    yield guarded
    for manifest in chart.rights:
        if manifest["kind"].startswith("ValidatingAdmission"):
            with suppress(ApiStatusError):  # a test took it away
                api.delete(object_path(manifest))
    uninstall(cluster, home)
    for team in guarded.teams:
        with suppress(ApiStatusError):  # without rights
            api.delete(f"{rbac.RBAC}/clusterrolebindings/guard-{team}")
    vanish(cluster, guarded.teams)


@pytest.fixture(scope="module")
def guarded(cluster: Cluster) -> Iterator[Guarded]:
    with installed(cluster) as found:
        yield found
