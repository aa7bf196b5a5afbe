"""An image's arguments as the originals took them: without a subcommand, in Go's forms, too."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bench.process import LAUNCHER, mount_account
from tests.component.test_imports import IN_USE_ONLY
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess, until

from copyrator.api import names
from localcluster import Cluster

RULES = "/apis/flant.com/v1/namespaces/{}/copyrators"
PROGRAM = ("-m", "copyrator")
IN_A_POD = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "COPYRATOR_HEALTH_ADDRESS": "127.0.0.1"}


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Iterator[str]:
    """Where the rules are, as the originals' `default` was."""
    name = f"home-{secrets.token_hex(3)}"
    yield name
    uninstall(cluster, name)


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, home: str) -> Path:
    """The operator's, under the rights that the chart gives."""
    return install(cluster, home)


class Home:
    """Rules of the old form with their sources, and how they stand."""

    def __init__(self, cluster: Cluster, home: str, team: str) -> None:
        self.api, self.name, self.team = cluster.api(), home, team
        self._word = secrets.token_hex(3)
        self._sources: list[str] = []

    def add(self, rule: str) -> None:
        """A source, and a rule for it."""
        label = {"copy": f"{rule}-{self._word}"}
        source = {"metadata": {"name": rule, "labels": label}, "data": {"at": "first"}}
        self._sources.append(rule)
        self.api.create(f"/api/v1/namespaces/{self.name}/configmaps", source)
        body = {
            "apiVersion": "flant.com/v1",
            "kind": "CopyratorRule",
            "metadata": {"name": rule},
            "ruleType": "configmap",
            "selector": label,
        }
        self.api.create(RULES.format(self.name), body)

    def rule(self, name: str) -> dict:
        return self.api.get(f"{RULES.format(self.name)}/{name}")

    def edit(self, source: str, text: str) -> None:
        path = f"/api/v1/namespaces/{self.name}/configmaps/{source}"
        self.api.patch(path, {"data": {"at": text}})

    def copies(self) -> dict[str, str]:
        """Name and text of the ConfigMaps in the team's namespace."""
        items = self.api.get(f"/api/v1/namespaces/{self.team}/configmaps")["items"]
        return {one["metadata"]["name"]: one["data"].get("at", "") for one in items}

    def clear(self) -> None:
        """Take the rules and sources away, whoever holds them."""
        for rule in self.api.get(RULES.format(self.name))["items"]:
            path = f"{RULES.format(self.name)}/{rule['metadata']['name']}"
            self.api.patch(path, {"metadata": {"finalizers": None}})
            self.api.delete(path)
        for name in self._sources:
            self.api.delete(f"/api/v1/namespaces/{self.name}/configmaps/{name}")


@pytest.fixture
def rules(cluster, kubeconfig, home, namespace) -> Iterator[Home]:
    made = Home(cluster, home, namespace("team"))
    yield made
    made.clear()


@pytest.mark.parametrize(
    ("arguments", "surroundings"),
    [
        ("-rule-name=main-rule -namespace={}", IN_A_POD),
        ("-run-outside-cluster --namespace {}", {}),
    ],
)
def test_an_originals_arguments_start_the_operator(
    rules, kubeconfig, home, tmp_path, arguments, surroundings
):
    rules.add("main-rule")
    command = (*PROGRAM, *arguments.format(home).split())
    settings = {**surroundings, "POD_NAMESPACE": home}
    with OperatorProcess(
        kubeconfig, tmp_path / "log", command=command, settings=settings
    ) as process:
        process.wait_ready()
        until(lambda: rules.copies().get("main-rule") == "first", lambda: process.log)
        assert process.stop() == 0


def test_without_any_argument_in_a_pod_it_is_the_operator_and_loads_what_it_needs(
    cluster, rules, kubeconfig, home, tmp_path
):
    rules.add("any")
    loaded = tmp_path / "loaded"
    note = f"""
import atexit
atexit.register(lambda: Path({str(loaded)!r}).write_text(" ".join(sys.modules)))"""
    command = ("-P", "-c", f"{note}{LAUNCHER}", str(mount_account(kubeconfig)))
    server = urlsplit(cluster.server)
    settings = {
        **IN_A_POD,
        "KUBERNETES_SERVICE_HOST": server.hostname,
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "KUBECONFIG": "",
        "NAMESPACE": home,
    }
    with OperatorProcess(
        kubeconfig, tmp_path / "log", command=command, settings=settings, real=True
    ) as process:
        process.wait_ready()
        until(lambda: rules.copies().get("any") == "first", lambda: process.log)
        assert process.stop() == 0
    assert not set(IN_USE_ONLY).intersection(loaded.read_text().split())


def test_outside_a_cluster_they_are_answered_with_the_command(kubeconfig, tmp_path):
    command = (*PROGRAM, "-namespace=a")
    with OperatorProcess(kubeconfig, tmp_path / "log", command=command) as process:
        assert process.wait() == 2
        assert "To start the operator: copyrator run --" in process.log


def test_a_rule_name_leaves_every_other_rule_alone(rules, kubeconfig, home, tmp_path):
    for name in ("before", "main-rule"):
        rules.add(name)
    settings = {"NAMESPACE": home, "RULE_NAME": "main-rule"}
    with OperatorProcess(
        kubeconfig, tmp_path / "log", command=(*PROGRAM, "run"), settings=settings
    ) as process:
        process.wait_ready()
        until(lambda: rules.copies().get("main-rule") == "first", lambda: process.log)
        assert rules.rule("main-rule")["metadata"]["finalizers"] == [names.FINALIZER_RULE]
        rules.add("meanwhile")
        for name in ("before", "meanwhile", "main-rule"):
            rules.edit(name, "second")
        # The named rule's edit comes last: when it is copied, the others' have been seen.
        until(lambda: rules.copies().get("main-rule") == "second", lambda: process.log)
        for name in ("before", "meanwhile"):
            assert "finalizers" not in rules.rule(name)["metadata"]
            assert "status" not in rules.rule(name)
            rules.api.delete(f"{RULES.format(home)}/{name}")
        left = {one["metadata"]["name"] for one in rules.api.get(RULES.format(home))["items"]}
        assert left == {"main-rule"}, "nothing holds a rule that isn't served"
        assert {"before", "meanwhile"}.isdisjoint(rules.copies())
        assert process.stop() == 0
