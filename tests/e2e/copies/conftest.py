"""A real operator process under the chart's own rights, and a user's view of the cluster."""

import contextlib
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.builders.encoding import b64
from tests.e2e.installation import RULES, Operator, install, installed
from tests.e2e.operator_process import HANG, until
from tests.targets import EVERYWHERE

from copyrator.settings.config import KNOWN_KINDS
from demo.chart import render
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError

DATA = ("ConfigMap", "Secret")
GIZMOS, GIZMO_GROUP = "gizmos", "e2e.example.com"
"""A custom resource; made by the test that needs it."""


def encoded(**texts: str) -> dict[str, str]:
    return {key: b64(text) for key, text in texts.items()}


def copying(
    source: str, name: str, *targets: str, kind: str = "ConfigMap", **more: Any
) -> dict[str, Any]:
    """The spec of a rule that copies one object, without targets into all that begin as it does."""
    return {
        "source": {"kind": kind, "namespace": source, "name": name},
        "targets": {"namespaces": list(targets) or [f"{name}-*"]},
        **more,
    }


def condition_of(rule: dict[str, Any], type_: str = "Ready") -> dict[str, Any]:
    conditions = rule.get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == type_), {})


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

        until(created, f"{plural} are served")

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
            **({"spec": {"targets": EVERYWHERE, **spec}} if spec is not None else old),
        }
        return self.api.create(RULES.format(home), body)

    def condition(self, namespace: str, name: str, type_: str = "Ready") -> dict[str, Any]:
        return condition_of(self.get("copyrators", namespace, name) or {}, type_)

    def wait_ready(self, namespace: str, name: str, seconds: float = HANG) -> dict[str, Any]:
        def ready() -> dict[str, Any] | None:
            rule = self.get("copyrators", namespace, name)
            assert rule is not None
            found = condition_of(rule)
            is_new = found.get("observedGeneration") == rule["metadata"]["generation"]
            return rule if is_new and found["status"] == "True" else None

        what = f"rule {name} is Ready"
        rule = until(ready, lambda: f"{what}: {self.condition(namespace, name)}", seconds)
        status: dict[str, Any] = rule["status"]
        return status

    def wait_failing(self, namespace: str, name: str, seconds: float = HANG) -> dict[str, Any]:
        """Some or all of a rule's copies fail."""
        return self.wait_reason(namespace, name, ("PartialFailure", "AllFailed"), seconds)

    def wait_reason(
        self, namespace: str, name: str, reason: str | tuple[str, ...], seconds: float = HANG
    ) -> dict[str, Any]:
        reasons = (reason,) if isinstance(reason, str) else reason

        def says() -> dict[str, Any] | None:
            found = self.condition(namespace, name)
            return found if found.get("reason") in reasons else None

        what = f"rule {name} says {reason}"
        said: dict[str, Any] = until(
            says, lambda: f"{what}: {self.condition(namespace, name)}", seconds
        )
        return said

    def wait_data(
        self, plural: str, namespace: str, name: str, data: dict[str, str], seconds: float = HANG
    ) -> None:
        until(
            lambda: self.data(plural, namespace, name) == data,
            f"{plural} {namespace}/{name} holds {sorted(data)}",
            seconds,
        )

    def wait_gone(self, plural: str, namespace: str, name: str, seconds: float = HANG) -> None:
        until(
            lambda: self.get(plural, namespace, name) is None,
            f"{plural} {namespace}/{name} is gone",
            seconds,
        )


def deploy(
    cluster: Cluster, log: Path, kinds: tuple[str, ...], *flags: str, **values: Any
) -> AbstractContextManager[Operator]:
    """An operator, not started yet, that copies these kinds; `values` are below `rules`."""
    chosen = _values(kinds, values)
    return installed(cluster, log, None, "--kinds", ",".join(kinds), *flags, values=chosen)


def _values(kinds: tuple[str, ...], values: dict[str, Any]) -> dict[str, Any]:
    return {f"rules.{name}": value for name, value in {**values, "kinds": list(kinds)}.items()}


def grant(operator: Operator, kinds: tuple[str, ...], **values: Any) -> None:
    """Upgrade the chart's rights under a running operator."""
    chosen = _values(kinds, values)
    chart = render(operator.cluster.helm, namespace=operator.namespace, values=chosen)
    install(operator.cluster, operator.namespace, chart)


def wait_quiet(operator: Operator, *namespaces: str, seconds: float = 4.0) -> int:
    """Wait until the operator has written nothing there for some seconds; return the offset.

    The Event about a burst of writes is up to 3.5 s late.
    """
    offset, since = operator.cluster.audit_offset(), time.monotonic()

    def quiet() -> bool:
        nonlocal offset, since
        if any(event.namespace in namespaces for event in operator.writes(offset)):
            offset, since = operator.cluster.audit_offset(), time.monotonic()
        return time.monotonic() - since > seconds

    until(quiet, "the operator is quiet")
    return offset


@pytest.fixture(scope="module")
def user(api: Api) -> User:
    return User(api)


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator for all tests of a module; each test has rules and namespaces of its own."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with deploy(cluster, log, DATA) as operator:
        operator.start()
        yield operator


@pytest.fixture(scope="module")
def wide(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator of all known kinds, a custom one, and the right to bind "edit"."""
    log = tmp_path_factory.mktemp("wide") / "operator.log"
    kinds = (*KNOWN_KINDS, f"Gizmo.{GIZMO_GROUP}")
    with deploy(cluster, log, kinds, bindClusterRoles=["edit"]) as operator:
        operator.start()
        yield operator


@pytest.fixture(scope="module")
def serving_tenants(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One operator that serves tenants' rules."""
    log = tmp_path_factory.mktemp("tenants") / "operator.log"
    with deploy(cluster, log, DATA, "--tenant-rules") as operator:
        operator.start()
        yield operator


@pytest.fixture
def word() -> str:
    """A word for the names of a test, so that tests don't meet."""
    return f"t{secrets.token_hex(3)}"


@pytest.fixture
def public_cas(tmp_path: Path) -> Path:
    """Where `stopped` looks for them."""
    return tmp_path / "cas.crt"


@pytest.fixture
def stopped(cluster: Cluster, tmp_path: Path, public_cas: Path) -> Iterator[Operator]:
    """An operator of the test's own, not started yet."""
    flag = ("--default-cas-file", str(public_cas))
    with deploy(cluster, tmp_path / "operator.log", DATA, *flag) as operator:
        yield operator


def restart(operator, user, word):
    """Start again and wait until the operator has nothing more to do; return the offset before."""
    since = operator.cluster.audit_offset()
    operator.start()
    user.wait_ready(operator.namespace, word)
    return since
