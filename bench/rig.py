"""What the benchmarks stand on: a control plane, the chart's rights, and the operator."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench import bare
from bench.process import BenchError, Command, Operator, mount_account
from demo.chart import ROOT, Rendered, render
from demo.objects import Objects
from localcluster import Api, ApiStatusError, Cluster
from localcluster.audit import WRITE_VERBS, AuditEvent
from localcluster.cluster import ALLOW_REGISTRY, REGISTRY_ADDRESSES

HOME = "copyrator"
"""The release's namespace, and that of trusted rules."""
RECEIVERS = "receivers"
"""A Secret of it with the URLs of notifications."""
RULES = f"/apis/flant.com/v1/namespaces/{HOME}/copyrators"
BUNDLES = "/apis/operator.werf.dev/v1/namespaces/bundles/bundles"
ACCOUNT = "system:serviceaccount:{}:{}"

REST = 3.0
"""Seconds of rest before each burst of writes that is timed, on either side."""

Tell = Callable[[str], None]


@dataclass
class Rig:
    """A control plane with the chart's rights, and the operator from one source tree.

    Attributes:
        tree: the source tree that the operator is started from.
        tell: shows progress.
        rest_seconds: of each rest before writes that are timed.
    """

    cluster: Cluster
    tell: Tell
    tree: Path = ROOT
    rest_seconds: float = REST

    def __post_init__(self) -> None:
        self.api: Api = self.cluster.api()
        values = {"werf.namespaces": ["bundles"], "notifications.secrets": [RECEIVERS]}
        self.chart: Rendered = render(self.cluster.helm, namespace=HOME, values=values)
        self.bare_account = "bare"
        self.namespaces(HOME, "bundles")
        objects = Objects(self.cluster)
        objects.apply(self.chart.crds)
        objects.apply(self.chart.rights)
        objects.apply(_bare_rights(self.bare_account))
        self.operator_kubeconfig = self._kubeconfig(self.chart.service_account)
        self.bare_kubeconfig = self._kubeconfig(self.bare_account)
        until(self._served, "the CRDs are served")

    @property
    def user(self) -> str:
        """The operator, as the audit log names it."""
        return ACCOUNT.format(HOME, self.chart.service_account)

    @property
    def bare_user(self) -> str:
        """The bare client, as the audit log names it."""
        return ACCOUNT.format(HOME, self.bare_account)

    # --- the operator ----------------------------------------------------------------------------

    @contextmanager
    def operator(
        self, *arguments: str, kubeconfig: Path | None = None, pod: bool = False
    ) -> Iterator[Operator]:
        """Run the operator, ready, until the block ends."""
        running = self.start(*arguments, kubeconfig=kubeconfig, pod=pod)
        try:
            yield running
        finally:
            running.stop()

    def start(
        self,
        *arguments: str,
        name: str = "copyrator-bench",
        log: str = "operator.log",
        kubeconfig: Path | None = None,
        pod: bool = False,
    ) -> Operator:
        """Start a replica (as in a `pod`?) and wait until it is ready; who calls stops it."""
        container = self.chart.container
        variables = {v["name"]: v["value"] for v in container["env"] if "value" in v}
        variables |= {"POD_NAME": name, "POD_NAMESPACE": HOME}
        variables |= {ALLOW_REGISTRY: REGISTRY_ADDRESSES}
        kubeconfig = kubeconfig or self.operator_kubeconfig
        if pod:
            server = urlsplit(self.cluster.server)
            variables["KUBERNETES_SERVICE_HOST"] = str(server.hostname)
            variables["KUBERNETES_SERVICE_PORT"] = str(server.port)
            kubeconfig = mount_account(kubeconfig)
        return Operator(
            Command(
                tree=self.tree,
                kubeconfig=kubeconfig,
                arguments=(*container["args"], *arguments),
                environment=tuple(variables.items()),
                log=self.cluster.layout.logs / log,
                port=free_port(),
            )
        )

    def rest(self) -> None:
        """Before each burst of either side: where processor time is rationed, the later has less.

        Without it the host took 4 to 7 % of the processor time while the operator wrote (steal),
        whose bursts come after the bare client's, and 1 to 2 % while the bare client did.
        """
        time.sleep(self.rest_seconds)

    # --- writes that aren't the operator's -------------------------------------------------------

    def bare(self, method: str, requests: Iterable[tuple[str, Any]]) -> None:
        """Have the bare client make requests."""
        bare.writes(self.bare_kubeconfig, method, list(requests))

    def namespaces(self, *names: str, labels: dict[str, str] | None = None) -> None:
        """Create namespaces one by one, where they aren't there."""
        for name in names:
            metadata = {"name": name, "labels": labels or {}}
            try:
                self.api.create("/api/v1/namespaces", {"metadata": metadata})
            except ApiStatusError as error:
                if error.code != 409:
                    raise

    def rule(self, name: str, spec: dict[str, Any]) -> None:
        """Create a rule."""
        kinds = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule"}
        self.api.create(RULES, {**kinds, "metadata": {"name": name}, "spec": spec})

    def end_rule(self, name: str) -> None:
        """Delete a rule and wait until its copies are gone and it is, too."""
        self.api.delete(f"{RULES}/{name}")
        until(lambda: self.found(f"{RULES}/{name}") is None, f"the rule {name} is gone", 600)

    def bundle(self, name: str, repo: str, version: str, **spec: Any) -> None:
        """Create a Bundle in the namespace ``bundles``."""
        kinds = {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle"}
        where = {"registry": self.cluster.registry, "repo": repo, "version": version}
        body = {**kinds, "metadata": {"name": name}, "spec": {**where, "insecure": True, **spec}}
        self.api.create(BUNDLES, body)

    def end_bundle(self, name: str) -> None:
        """Delete a Bundle and leave its release, if there is one."""
        path = f"{BUNDLES}/{name}"
        self.api.patch(path, {"spec": {"deletionPolicy": "Orphan"}})
        self.api.delete(path)
        until(lambda: self.found(path) is None, f"the Bundle {name} is gone")

    def end(self, rules: Iterable[str], bundles: Iterable[str] = ()) -> None:
        """Start the operator for as long as it takes to delete these and what was made of them."""
        with self.operator():
            for name in rules:
                self.end_rule(name)
            for name in bundles:
                self.end_bundle(name)

    def copies(self, rule: str) -> int:
        """How many copies are right, as the rule's status says."""
        status = (self.found(f"{RULES}/{rule}") or {}).get("status") or {}
        return int((status.get("copies") or {}).get("ready", 0))

    def all_copies(self) -> int:
        """The same of all rules together."""
        counts = [rule.get("status", {}).get("copies", {}) for rule in self.api.get(RULES)["items"]]
        return sum(count.get("ready", 0) for count in counts)

    def wait_copies(self, rule: str, count: int) -> None:
        """Wait until so many copies are right."""
        until(lambda: self.copies(rule) == count, f"{count} copies of {rule}", 60 + count / 50)

    def found(self, path: str) -> dict[str, Any] | None:
        """An object, None where there is none."""
        try:
            body: dict[str, Any] = self.api.get(path)
        except ApiStatusError as error:
            if error.code == 404:
                return None
            raise
        return body

    # --- what the API server saw -----------------------------------------------------------------

    def seen(self, since: int, user: str) -> list[AuditEvent]:
        """A user's requests since a place in the audit log."""
        return [event for event in self.cluster.audit_events(since) if event.user == user]

    def asked(self, since: int) -> list[AuditEvent]:
        """The operator's requests since a place in the audit log, but for those of its Lease."""
        return [event for event in self.seen(since, self.user) if event.resource != "leases"]

    def written(self, since: int, user: str, resource: str = "secrets") -> list[AuditEvent]:
        """A user's writes of a resource."""
        found = self.seen(since, user)
        return [e for e in found if e.verb in WRITE_VERBS and e.resource == resource]

    def _kubeconfig(self, account: str) -> Path:
        return self.cluster.kubeconfig_for_service_account(HOME, account)

    def _served(self) -> bool:
        try:
            self.api.get(RULES)
        except ApiStatusError:
            return False
        return True


def span(events: list[AuditEvent], since: float | None = None) -> float:
    """Seconds from the first request, or from a moment, until the last one was answered."""
    if not events:
        raise BenchError("there was no request to be timed")
    began = min(event.began for event in events) if since is None else since
    return max(event.ended for event in events) - began


def writes(events: Iterable[AuditEvent]) -> int:
    """How many of the requests change something."""
    return sum(event.verb in WRITE_VERBS for event in events)


def verbs(events: Iterable[AuditEvent]) -> Counter[str]:
    """How many requests of each verb."""
    return Counter(event.verb for event in events)


def until(look: Callable[[], Any], what: str, seconds: float = 60.0, *, pause: float = 0.5) -> None:
    """Look again until the answer is true, seldom: most times come from the audit log.

    Raises:
        BenchError: it isn't in time.
    """
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise BenchError(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause)


def _bare_rights(account: str) -> list[dict[str, Any]]:
    rbac = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"namespace": HOME, "name": account},
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"bench:{account}"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": account}],
        },
    ]


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
