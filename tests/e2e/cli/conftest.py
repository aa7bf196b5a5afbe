"""A cluster with both jobs at work, and the command line as a person types it."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.e2e.installation import (
    BUNDLES,
    KINDS,
    KINDS_SETTING,
    RULES,
    apply,
    install,
    rendered,
    uninstall,
)
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.vanishing import vanish
from tests.targets import EVERYWHERE

from copyrator.cli import cli
from demo.chart import ROOT
from localcluster import Api, Cluster
from localcluster.bundle import push

SENTINEL = "the-secret-value"
"""In every Secret of these tests; never to be printed."""


RBAC = "rbac.authorization.k8s.io"


def rbac(plural: str, namespace: str = "") -> str:
    """The path of roles or their bindings."""
    place = f"namespaces/{namespace}/" if namespace else ""
    return f"/apis/{RBAC}/v1/{place}{plural}"


@dataclass
class Stage:
    """An installed operator: rules are trusted in `home`, Bundles live in `apps`."""

    cluster: Cluster
    api: Api
    home: str
    apps: str
    operator: OperatorProcess
    admin: Path
    variables: dict[str, str] = field(default_factory=dict)
    """Of the terminal at which commands are typed, beside the usual ones."""

    def types(self, command: str, code: int | None = 0, **more: Any) -> str:
        """Type a command; return what is printed, errors included. No value of a Secret is."""
        result = self.result(command, **more)
        shown = f"copyrator {command}\n{result.output}"
        assert code is None or result.exit_code == code, f"{shown}\nexit code {result.exit_code}"
        return result.output

    def result(self, command: str, **more: Any) -> Result:
        """The same with the exit code, and stdout apart from stderr."""
        environment = {
            "KUBECONFIG": str(self.admin),
            "COPYRATOR_OPERATOR_NAMESPACE": self.home,
            "COLUMNS": "80",
            **self.variables,
        }
        result = CliRunner().invoke(cli, command.split(), env=environment, **more)
        assert SENTINEL not in result.output, command
        assert "Traceback" not in result.output, result.output
        return result

    def apply(self, *documents: dict[str, Any]) -> None:
        """Apply manifests as an administrator."""
        apply(self.api, documents)

    def bundle(self, name: str, repo: str, **spec: Any) -> dict[str, Any]:
        """The manifest of a Bundle in `apps`, of the cluster's registry."""
        smallest = {"registry": self.cluster.registry, "repo": repo, "insecure": True}
        return {
            "apiVersion": "operator.werf.dev/v1",
            "kind": "Bundle",
            "metadata": {"name": name, "namespace": self.apps},
            "spec": {**smallest, "version": "1.*", **spec},
        }

    def status(self, name: str) -> dict[str, Any]:
        """The status of a Bundle in `apps`."""
        found: dict[str, Any] = self.api.get(f"{BUNDLES.format(self.apps)}/{name}")
        return found.get("status") or {}

    def as_user(self, user: str) -> "Stage":
        """The same at a user's terminal."""
        return replace(self, admin=self.cluster.kubeconfig_for_user(user, []))

    def grant(self, user: str, *rules: dict[str, Any], namespace: str = "") -> None:
        """Let a user do this in a namespace; "" everywhere, by what `revoke` takes away."""
        role = {"metadata": {"name": user}, "rules": rules}
        kind = "Role" if namespace else "ClusterRole"
        self.api.create(rbac(f"{kind.lower()}s", namespace), role)
        self.bind(user, kind, user, namespace)

    def bind(self, user: str, kind: str, role: str, namespace: str = "") -> None:
        """Bind a role to a user in a namespace; "": everywhere."""
        body = {
            "metadata": {"name": f"{user}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
        bindings = "rolebindings" if namespace else "clusterrolebindings"
        self.api.create(rbac(bindings, namespace), body)

    def revoke(self, user: str) -> None:
        """Take away what a user was granted everywhere."""
        self.api.delete(f"{rbac('clusterrolebindings')}/{user}-{user}")
        self.api.delete(f"{rbac('clusterroles')}/{user}")

    def delete_rule(self, name: str, namespace: str = "") -> None:
        """Delete a rule; not waited for."""
        self.api.delete(f"{RULES.format(namespace or self.home)}/{name}")

    def ready(self, path: str, name: str) -> dict[str, Any]:
        """The Ready condition of a rule or Bundle; empty where there is none."""
        status = self.api.get(f"{path}/{name}").get("status") or {}
        found = (one for one in status.get("conditions") or () if one["type"] == "Ready")
        return next(found, {})

    def wait_reason(self, path: str, name: str, *reasons: str) -> None:
        """Wait until a rule or Bundle says one of these."""
        until(
            lambda: self.ready(path, name).get("reason") in reasons,
            lambda: f"{name} says {reasons}; {self.ready(path, name)}\n{self.operator.log[-3000:]}",
        )

    def wait_failing(self, path: str, name: str) -> None:
        """Wait until some or all of a rule's copies fail."""
        self.wait_reason(path, name, "PartialFailure", "AllFailed")


def rule(home: str, name: str, **spec: Any) -> dict[str, Any]:
    """A rule's manifest."""
    metadata = {"name": name, "namespace": home}
    spec = {"targets": EVERYWHERE, **spec}
    return {
        "apiVersion": "flant.com/v1", "kind": "CopyratorRule", "metadata": metadata, "spec": spec
    }  # fmt: skip


def copying(
    home: str, name: str, *namespaces: str, source: str = "", **spec: Any
) -> dict[str, Any]:
    """A rule that copies a Secret, which has its own name unless another is said."""
    found = {"kind": "Secret", "name": source or name}
    return rule(home, name, source=found, targets={"namespaces": [*namespaces]}, **spec)


def secret(namespace: str, name: str, *keys: str, **labels: str) -> dict[str, Any]:
    """A Secret's manifest; each key holds the sentinel."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "stringData": dict.fromkeys(keys, SENTINEL),
    }


@contextmanager
def synced_and_failing(stage: Stage, word: str) -> Iterator[None]:
    """A rule `word` with copies in all namespaces `word-*`, and `word-no` without a source."""
    stage.apply(
        secret(stage.home, word, "password"),
        copying(stage.home, word, f"{word}-*"),
        rule(stage.home, f"{word}-no", source={"kind": "Secret", "name": f"{word}-none"}),
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    stage.wait_reason(RULES.format(stage.home), f"{word}-no", "SourceNotFound")
    yield
    for name in (word, f"{word}-no"):
        stage.delete_rule(name)


def plainly(output: str) -> str:
    """Output with ages and digests made equal, for comparing with what is written in a test."""
    text = re.sub(r"(?<![\w-])\d+[smhd]\b", "AGE", output)
    text = re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", text)
    return re.sub(r" +", " ", text)


@contextmanager
def staged(
    cluster: Cluster,
    log: Path,
    values: dict[str, Any],
    settings: dict[str, str],
    names: tuple[str, str] | None = None,
) -> Iterator[Stage]:
    """The chart's rights and CRDs, its Deployment with no pods, and the operator as a process.

    ``names``: of the namespaces where rules are trusted and where Bundles live; else new ones.
    """
    word = secrets.token_hex(3)
    home, apps = names or (f"home-{word}", f"apps-{word}")
    api = cluster.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": apps}})
    chart = rendered(cluster, home, {**KINDS, "werf.namespaces": [apps], **values})
    chart.deployment["spec"]["replicas"] = 0
    kubeconfig = install(cluster, home, chart)
    apply(api, [chart.deployment])
    settings = {"NAMESPACE": home, "WERF_OPERATOR_TIMER_INTERVAL": "5", **KINDS_SETTING, **settings}
    with OperatorProcess(kubeconfig, log, settings=settings) as operator:
        operator.wait_ready()
        admin = Path(cluster.environment()["KUBECONFIG"])
        yield Stage(cluster, api, home, apps, operator, admin)
        if operator.code is None:
            assert operator.stop() == 0
    uninstall(cluster, home)
    vanish(cluster, [apps])


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An operator with the chart's default values for all tests of a module."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with staged(cluster, log, {}, {}) as found:
        yield found


@pytest.fixture(scope="module")
def shop(stage: Stage) -> str:
    """A Bundle that is deployed; its repository has 1.0.0, 1.1.0-rc.1 and 2.0.0."""
    repository = f"team/{stage.apps}"
    for tag in ("1.0.0", "1.1.0-rc.1", "2.0.0"):
        push(ROOT / "examples" / "charts" / "hello", stage.cluster.registry, repository, tag)
    stage.apply(stage.bundle("shop", repository))
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")
    return repository


@pytest.fixture
def word() -> str:
    """For the names of a test, so that tests don't meet."""
    return f"t{secrets.token_hex(3)}"


def in_environment(stage: Stage) -> dict[str, str]:
    """Variables for a process of its own."""
    return {
        **os.environ,
        "KUBECONFIG": str(stage.admin),
        "PYTHONPATH": str(ROOT / "operator"),
        "COPYRATOR_OPERATOR_NAMESPACE": stage.home,
    }
