"""docs/operations.md: each situation comes about, and the commands of its section end it.

One control plane has the whole chart; its process node runs the operator's pods. What a section
shows is what its commands print.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.documents import blocks, commands_of
from tests.e2e.mutating_webhook import mutating
from tests.e2e.operator_process import until

import release
from copyrator.cli import cli
from demo.chart import CHART, ROOT
from localcluster import Cluster
from localcluster.bundle import push
from localcluster.node.host import OWN_VARIABLES
from localcluster.node.processes import MARK, with_variable
from localcluster.processes import NODE_NAME
from localcluster.standin.tools import SHORT_LIVED

PAGE = "docs/operations.md"
HELLO = ROOT / "examples" / "charts" / "hello"
REPOSITORY = "team/shop"
BUNDLES = {"shop": "1.*", "blog": "1.4.*"}
RULE = "/apis/flant.com/v1/namespaces/copyrator/copyrators/registry-creds"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/copyrator/leases/copyrator"
PODS = "app.kubernetes.io/name=copyrator"
INSTALL = (
    f"helm install copyrator {CHART} --namespace copyrator --create-namespace "
    "--set image.repository=registry.example.com/copyrator --set werf.namespaces={apps} "
    "--set bundles.timerInterval=1,bundles.timerIdle=0 "
    "--set bundles.allowRegistryAddresses={127.0.0.0/8}"
)
NOT_EQUAL = (
    (r"\b\d+[smhd]\b", "AGE"),
    (r" +", " "),
)
"""What isn't compared of what is shown."""


class Reader:
    """Somebody who follows the page on a cluster where Copyrator is installed."""

    def __init__(self, cluster: Cluster, mirror: str, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory
        self._hosts = {"mirror.example.com": mirror, "registry.example.com": cluster.registry}

    def follows(self, section: str) -> None:
        """Type the commands of a section; they print what it shows."""
        printed = ""
        for block in blocks(PAGE, section):
            if block.language == "sh":
                printed = "".join(self.types(command) for command in commands_of(block))
            else:
                _assert_shown(block.text, printed)

    def types(self, command: str) -> str:
        """Type a command; return what it prints."""
        typed = command.replace(f"oci://{release.REGISTRY}/charts/copyrator", str(CHART))
        for name, host in self._hosts.items():
            typed = typed.replace(f"{name}/team", f"{host}/team").replace(f'"{name}"', f'"{host}"')
        environment = self.cluster.environment()
        if typed.startswith("copyrator "):
            done = CliRunner().invoke(cli, typed.removeprefix("copyrator "), env=environment)
            code, printed = done.exit_code, done.output
        else:
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", typed],
                cwd=self._directory,
                env={**os.environ, **environment, **SHORT_LIVED},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )
            code, printed = ran.returncode, ran.stdout
        assert code == 0 or typed == "copyrator doctor", f"{command}\n{printed}"
        for name, host in self._hosts.items():
            printed = printed.replace(f"http://{host}", f"https://{name}").replace(host, name)
        return printed

    def push(self, version: str, registry: str = "registry.example.com") -> None:
        """Publish a version."""
        push(HELLO, self._hosts[registry], REPOSITORY, version)

    def status(self, name: str = "shop") -> dict[str, Any]:
        """The status of a Bundle."""
        path = f"/apis/operator.werf.dev/v1/namespaces/apps/bundles/{name}"
        return self.cluster.api().get(path).get("status") or {}

    def reason(self, name: str = "shop") -> str:
        """The reason of a Bundle's condition Ready."""
        found = self.status(name).get("conditions") or []
        return next((str(one["reason"]) for one in found if one["type"] == "Ready"), "")

    def deploys(self, version: str) -> None:
        """Publish a version, and wait until both Bundles run it, and are Ready."""
        self.push(version)
        for name in BUNDLES:
            self.wait_runs(version, name)

    def wait_runs(self, version: str, name: str = "shop") -> None:
        """Wait until a Bundle runs a version, and is Ready."""
        until(
            lambda: (
                self.reason(name) == "Deployed"
                and self.status(name)["deploy"]["version"] == version
            ),
            lambda: self.types("copyrator get bundles -A"),
        )

    def greeting(self) -> str:
        """What the release of the Bundle shop has of its values."""
        found = self.cluster.api().get("/api/v1/namespaces/apps/configmaps/shop")
        return str(found["data"]["greeting"])

    def wait_synced(self) -> None:
        """Wait until the rule has its two copies."""

        def status() -> dict[str, Any]:
            found: dict[str, Any] = self.cluster.api().get(RULE).get("status") or {}
            return found

        until(lambda: status().get("copies", {}).get("ready") == 2, lambda: str(status()))

    def create_rule(self) -> None:
        """Apply the rule and its source."""
        self.types(f"kubectl apply -f {ROOT / 'examples/rules/secret.yaml'}")
        self.wait_synced()


def _assert_shown(shown: str, printed: str) -> None:
    """Each line is printed, in this order; `…` stands for any text."""
    lines = iter(_plainly(printed).splitlines())
    for line in _plainly(shown).splitlines():
        wanted = re.compile(".*".join(map(re.escape, line.split("…"))) + " *")
        assert any(map(wanted.fullmatch, lines)), f"not printed: {line}\n{printed}"


def _plainly(text: str) -> str:
    for pattern, word in NOT_EQUAL:
        text = re.sub(pattern, word, text)
    return text


def _entry_point(_pod: dict[str, Any]) -> list[dict[str, Any]]:
    """The image's, which a process node doesn't know."""
    command = ["python", "-m", "copyrator"]
    return [{"op": "add", "path": "/spec/containers/0/command", "value": command}]


@pytest.fixture(scope="module")
def reader(
    disposable: Cluster, referrers_registry: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    """The rule and the Bundles of the page are there, and Ready."""
    reader = Reader(disposable, referrers_registry, tmp_path_factory.mktemp("reader"))
    own = {"PYTHONPATH": str(ROOT / "operator"), "COPYRATOR_HEALTH_PORT": "0"}
    (disposable.layout.node / OWN_VARIABLES).write_text(json.dumps(own))
    for name in ("copyrator", "apps", "team-a", "team-b"):
        reader.types(f"kubectl create namespace {name}")
    with mutating(disposable, "copyrator", "pods", _entry_point):
        reader.types(INSTALL)
        reader.types(
            "kubectl -n apps create configmap shop-values --dry-run=client -o yaml "
            "--from-literal=values.yaml='greeting: Hello' > shop-values.yaml"
        )
        reader.types("kubectl apply -f shop-values.yaml")
        reader.push("1.4.0")
        for name, version in BUNDLES.items():
            reader.types(
                f"copyrator create bundle {name} -n apps --from registry.example.com/{REPOSITORY} "
                f"--insecure --version '{version}' --values shop-values"
            )
        reader.create_rule()
        reader.deploys("1.4.0")
        yield reader


def test_the_operator_is_down(reader: Reader) -> None:
    reader.types("kubectl -n copyrator scale deployment copyrator --replicas=0")
    reader.types(f"kubectl -n copyrator wait pods -l {PODS} --for=delete --timeout=60s")
    reader.follows("The operator is down")


def test_the_leader_doesnt_change(reader: Reader) -> None:
    pods = f"{MARK}={NODE_NAME}:{reader.cluster.layout.node}/pods/copyrator_copyrator-"
    paused = set(with_variable(pods))
    for process in paused:
        os.kill(process, signal.SIGSTOP)
    try:
        reader.cluster.api().patch(LEASE, {"spec": {"leaseDurationSeconds": 1}})
        until(lambda: "has been down" in reader.types("copyrator get rules -A"))
        reader.follows("The leader doesn't change")
        assert paused
        assert paused.isdisjoint(with_variable(pods))
    finally:  # else all that follows would wait for it in vain
        for process in paused.intersection(with_variable(pods)):
            os.kill(process, signal.SIGCONT)


def test_nothing_deploys(reader: Reader) -> None:
    reader.types("copyrator freeze --all --reason inventory")
    reader.push("1.4.1")
    until(lambda: reader.status()["available"]["version"] == "1.4.1")
    reader.follows("Nothing deploys")
    reader.wait_runs("1.4.1")


def test_everything_redeploys(reader: Reader) -> None:
    reader.deploys("1.4.1")
    before = reader.greeting()
    reader.types(
        "kubectl -n apps patch configmap shop-values -p "
        """'{"data": {"values.yaml": "greeting: Hi"}}'"""
    )
    until(lambda: reader.greeting() == "Hi")
    reader.wait_runs("1.4.1")
    reader.follows("Everything redeploys")
    until(lambda: reader.greeting() == before)


def test_a_wrong_version_is_out(reader: Reader) -> None:
    reader.deploys("1.4.1")
    reader.push("1.5.0")
    reader.wait_runs("1.5.0")
    reader.follows("A wrong version is out")


def test_the_registry_is_gone(reader: Reader) -> None:
    reader.push("1.4.1", "mirror.example.com")
    reader.deploys("1.4.1")
    reader.cluster.kill("registry")
    until(lambda: reader.reason() == "RegistryUnreachable")
    reader.follows("The registry is gone")
    reader.cluster.restart("registry")
    reader.wait_runs("1.4.1", "blog")


def test_one_namespaces_copies_are_wrong(reader: Reader) -> None:
    reader.types("copyrator suspend rule copyrator/registry-creds")
    reader.types("kubectl -n team-b delete secret registry-creds")
    reader.types("kubectl -n team-b create secret generic registry-creds --from-literal=own=1")
    reader.types("copyrator resume rule copyrator/registry-creds")
    reader.follows("One namespace's copies are wrong")
    reader.wait_synced()


def test_a_secret_leaked(reader: Reader) -> None:
    reader.follows("A Secret leaked")
    reader.create_rule()


def test_uninstalling_and_a_restore_from_a_back_up(reader: Reader) -> None:
    skip_before_1_30(reader.cluster.api(), POLICIES_ARE_BETA)
    reader.deploys("1.4.1")
    reader.follows("Back up")
    reader.types("kubectl -n copyrator get secret registry-creds -o yaml > sources.yaml")
    kept = [f"kubectl -n {name} get secrets,configmaps -o yaml" for name in ("apps", "team-a")]
    before = [reader.types(command) for command in kept]

    reader.follows("Uninstall")
    reader.types("kubectl delete copyrators,bndl -A --all --timeout=60s")
    reader.types("kubectl delete namespace copyrator")
    assert [reader.types(command) for command in kept] == before, "all stays"

    reader.types(INSTALL)
    reader.types("kubectl apply -f sources.yaml")
    reader.follows("Restore from a back-up")
    for command in ("suspend", "resume"):  # waits for the operator, which has seen all then
        reader.types(f"copyrator {command} bundle apps/shop")
    reader.types("copyrator reconcile rule copyrator/registry-creds")
    assert [reader.types(command) for command in kept] == before, "nothing is written"
