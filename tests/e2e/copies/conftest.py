"""A real operator process under the chart's own rights, and a user's view of the cluster."""

import base64
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e import stalls
from tests.e2e.operator_process import until

from demo.chart import Rendered, render
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.cluster import ALLOW_REGISTRY, REGISTRY_ADDRESSES

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 15.0
RULES = "/apis/flant.com/v1/namespaces/{}/copyrators"
DATA = ("ConfigMap", "Secret")
DEFAULT_KINDS = (
    *DATA,
    *("ServiceAccount", "ResourceQuota", "LimitRange"),
    *("RoleBinding.rbac.authorization.k8s.io", "Role.rbac.authorization.k8s.io"),
    "NetworkPolicy.networking.k8s.io",
)
"""What the chart allows if nobody says otherwise."""
GIZMOS, GIZMO_GROUP = "gizmos", "e2e.example.com"
"""A custom resource; made by the test that needs it."""


def within(
    seconds: float, look: Callable[[], Any], what: str | Callable[[], str] = "it is so"
) -> Any:
    """Look again and again until the answer is true; return it."""
    return until(look, what, seconds)


def encoded(**texts: str) -> dict[str, str]:
    return {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}


@dataclass
class User:
    """What a person does and sees with kubectl; objects are named by plural, namespace, name."""

    api: Api
    made: list[str] = field(default_factory=list)

    def path(self, plural: str, namespace: str, name: str = "") -> str:
        group = {
            "copyrators": "apis/flant.com/v1",
            "rolebindings": "apis/rbac.authorization.k8s.io/v1",
            "roles": "apis/rbac.authorization.k8s.io/v1",
            "networkpolicies": "apis/networking.k8s.io/v1",
            "customresourcedefinitions": "apis/apiextensions.k8s.io/v1",
            GIZMOS: f"apis/{GIZMO_GROUP}/v1",
        }.get(plural, "api/v1")
        return f"/{group}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return self.api.get(self.path(plural, namespace, name))
        except ApiStatusError as error:
            if error.code != 404:
                raise
            return None

    def names(self, plural: str, namespace: str) -> list[str]:
        items = self.api.get(self.path(plural, namespace))["items"]
        ours = "app.kubernetes.io/managed-by"
        return [
            item["metadata"]["name"]
            for item in items
            if item["metadata"].get("labels", {}).get(ours) == "copyrator"
        ]

    def create(self, plural: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return self.api.create(self.path(plural, namespace), {"metadata": metadata, **fields})

    def patch(self, plural: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        return self.api.patch(self.path(plural, namespace, name), fields)

    def replace(self, plural: str, namespace: str, name: str, **fields: Any) -> dict[str, Any]:
        """Replace an object's content; its metadata stays."""
        path = self.path(plural, namespace, name)
        metadata = self.api.get(path)["metadata"]
        answer: dict[str, Any] = self.api.replace(path, {"metadata": metadata, **fields})
        return answer

    def retry_create(self, plural: str, namespace: str, name: str, **fields: Any) -> None:
        """Create an object of a kind that the API server may only begin to serve."""

        def created() -> bool:
            try:
                self.create(plural, namespace, name, **fields)
            except ApiStatusError as error:
                if error.code != 404:
                    raise
                return False
            return True

        within(30, created, f"{plural} are served")

    def delete(self, plural: str, namespace: str, name: str) -> None:
        with contextlib.suppress(ApiStatusError):
            self.api.delete(self.path(plural, namespace, name))

    def data(self, plural: str, namespace: str, name: str) -> dict[str, str] | None:
        found = self.get(plural, namespace, name)
        return None if found is None else found.get("data") or {}

    def rule(self, home: str, name: str, spec: dict[str, Any] | None = None, /, **old: Any):
        body = {
            "apiVersion": "flant.com/v1",
            "kind": "CopyratorRule",
            "metadata": {"name": name},
            **({"spec": spec} if spec is not None else old),
        }
        return self.api.create(RULES.format(home), body)

    def condition(self, namespace: str, name: str, type_: str = "Ready") -> dict[str, Any]:
        rule = self.get("copyrators", namespace, name) or {}
        conditions = rule.get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == type_), {})

    def wait_ready(self, namespace: str, name: str, seconds: float = SECONDS) -> dict[str, Any]:
        def ready() -> bool:
            rule = self.get("copyrators", namespace, name)
            assert rule is not None
            condition = self.condition(namespace, name)
            return (
                condition.get("status") == "True"
                and condition.get("observedGeneration") == rule["metadata"]["generation"]
            )

        within(seconds, ready, f"rule {name} is Ready: {self.condition(namespace, name)}")
        rule = self.get("copyrators", namespace, name)
        assert rule is not None
        return rule["status"]

    def wait_reason(self, namespace: str, name: str, reason: str, seconds: float = SECONDS):
        within(
            seconds,
            lambda: self.condition(namespace, name).get("reason") == reason,
            f"rule {name} says {reason}",
        )
        return self.condition(namespace, name)

    def wait_data(
        self, plural: str, namespace: str, name: str, data: dict[str, str], seconds: float = SECONDS
    ) -> None:
        within(
            seconds,
            lambda: self.data(plural, namespace, name) == data,
            f"{plural} {namespace}/{name} holds {sorted(data)}",
        )

    def wait_gone(self, plural: str, namespace: str, name: str, seconds: float = SECONDS) -> None:
        within(
            seconds,
            lambda: self.get(plural, namespace, name) is None,
            f"{plural} {namespace}/{name} is gone",
        )


@dataclass
class Operator:
    """An operator that trusts the rules of `namespace`."""

    cluster: Cluster
    namespace: str
    kubeconfig: Path
    user: str
    kinds: str
    log: Path
    extra: tuple[str, ...] = ()
    pod: str = "copyrator-0"
    """Its name in the Lease: the same one gets it back at once, also after a SIGKILL."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        stalls.follow(self.log)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
        environment.pop("KUBECONFIG", None)
        environment["POD_NAME"] = self.pod
        environment[ALLOW_REGISTRY] = REGISTRY_ADDRESSES
        with self.log.open("ab") as output:
            start = output.tell()
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "copyrator", "run"),
                    *("--kubeconfig", str(self.kubeconfig), "--namespace", self.namespace),
                    *("--kinds", self.kinds, "--health-port", "0"),
                    *self.extra,
                ],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            within(60, lambda: self._has_started(start), f"the operator starts: {self.log}")
        except BaseException:
            self.process.kill()  # else it serves the next tests' Bundles
            raise

    def _has_started(self, start: int) -> bool:
        assert self.process is not None
        said = self.log.read_bytes()[start:].decode()
        assert self.process.poll() is None, f"the operator ended:\n{said}"
        return "Started:" in said

    def stop(self, signum: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(signum)
        code = self.process.wait(20)
        self.process = None
        return code

    def writes(self, since: int, *, but: tuple[str, ...] = ()) -> list[Any]:
        """The operator's writes since a place in the audit log, but for its Lease."""
        return [
            event
            for event in self.cluster.audit_events(since)
            if event.user == self.user
            and event.verb in ("create", "update", "patch", "delete")
            and event.resource not in ("leases", *but)
        ]


def deploy(
    cluster: Cluster, api: Api, log: Path, kinds: tuple[str, ...], *extra: str, **values: Any
) -> Operator:
    """An operator, not started yet, with the service account and the rights of the chart.

    ``values`` are chart values below ``rules``.
    """
    namespace = f"op-{secrets.token_hex(3)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    rendered = _apply_chart(cluster, namespace, kinds, values)
    account = rendered.service_account
    return Operator(
        cluster=cluster,
        namespace=namespace,
        kubeconfig=cluster.kubeconfig_for_service_account(namespace, account),
        user=f"system:serviceaccount:{namespace}:{account}",
        kinds=",".join(kinds),
        log=log,
        extra=extra,
    )


def _apply_chart(
    cluster: Cluster, namespace: str, kinds: tuple[str, ...], values: dict[str, Any]
) -> Rendered:
    chosen = {f"rules.{name}": value for name, value in values.items()}
    chosen["rules.kinds"] = list(kinds)
    rendered = render(cluster.helm, namespace=namespace, values=chosen)
    for documents in (rendered.crds, rendered.rights):
        cluster.kubectl(
            *("apply", "--server-side", "--force-conflicts", "-f", "-"),
            input=yaml.safe_dump_all(documents),
        )
    return rendered


def grant(operator: Operator, kinds: tuple[str, ...], **values: Any) -> None:
    """Upgrade the chart's rights under a running operator."""
    _apply_chart(operator.cluster, operator.namespace, kinds, values)


def wait_quiet(operator: Operator, *namespaces: str, seconds: float = 3.0) -> int:
    """Wait until the operator has written nothing there for some seconds; return the offset."""
    offset, since = operator.cluster.audit_offset(), time.monotonic()

    def quiet() -> bool:
        nonlocal offset, since
        if any(event.namespace in namespaces for event in operator.writes(offset)):
            offset, since = operator.cluster.audit_offset(), time.monotonic()
        return time.monotonic() - since > seconds

    within(30, quiet, "the operator is quiet")
    return offset


def undeploy(operator: Operator, api: Api) -> None:
    if operator.process is not None:
        operator.stop()
    rules = RULES.format(operator.namespace)
    for rule in api.get(rules)["items"]:
        path = f"{rules}/{rule['metadata']['name']}"
        with contextlib.suppress(ApiStatusError):
            api.patch(path, {"metadata": {"finalizers": None}})
            api.delete(path)
    name = f"{operator.namespace}:copyrator"
    operator.cluster.kubectl("delete", "clusterrolebinding", name, "--ignore-not-found")
    operator.cluster.kubectl("delete", "clusterrole", name, "--ignore-not-found")
    api.delete(f"/api/v1/namespaces/{operator.namespace}")


@pytest.fixture(scope="session")
def user(api: Api) -> User:
    return User(api)


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One operator for all tests of a module; each test has rules and namespaces of its own."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    operator = deploy(cluster, api, log, ("ConfigMap", "Secret"))
    operator.start()
    yield operator
    undeploy(operator, api)
    said = log.read_text()
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def wide(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One operator of the chart's default kinds, a custom one, and the right to bind "edit"."""
    log = tmp_path_factory.mktemp("wide") / "operator.log"
    kinds = (*DEFAULT_KINDS, f"Gizmo.{GIZMO_GROUP}")
    operator = deploy(cluster, api, log, kinds, bindClusterRoles=["edit"])
    operator.start()
    yield operator
    undeploy(operator, api)
    said = log.read_text()
    assert "Traceback" not in said, said


@pytest.fixture
def word() -> str:
    """A word for the names of a test, so that tests don't meet."""
    return f"t{secrets.token_hex(3)}"


@pytest.fixture
def stopped(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Operator]:
    """An operator of the test's own, not started yet."""
    operator = deploy(cluster, api, tmp_path / "operator.log", ("ConfigMap", "Secret"))
    yield operator
    undeploy(operator, api)


def restart(operator, user, word):
    """Start again and wait until the operator has nothing more to do; return the offset before."""
    since = operator.cluster.audit_offset()
    operator.start()
    user.wait_ready(operator.namespace, word)
    return since
