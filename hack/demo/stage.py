"""What the walk stands on: a control plane, the chart, the operator, commands and examples."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from demo.chart import ROOT, Rendered, render
from demo.objects import Manifest, Objects
from demo.waiting import NotYet, StepFailed, until
from localcluster import Cluster, ports
from localcluster.processes import MARKER
from localcluster.state import Layout
from localcluster.supervisor import answers, tail

EXAMPLES = ROOT / "examples"
HOME = "copyrator"
"""The release's namespace."""
APPS = "apps"
"""The namespace that the demo deploys into."""
REPOSITORY = "team/hello"
"""The repository in the local registry."""
VALUES = "hack/demo/values.yaml"
"""What the chart is installed with."""


def example(name: str) -> list[Manifest]:
    """Return the manifests of a file in examples/, which the README shows too."""
    text = (EXAMPLES / name).read_text()
    return [document for document in yaml.safe_load_all(text) if document]


def example_of(name: str, kind: str) -> Manifest:
    """Return the first manifest of a kind in such a file."""
    return next(one for one in example(name) if one["kind"] == kind)


def spec_of(name: str) -> str:
    """Return the lines of the last rule or Bundle in a file in examples/, from "spec:" on."""
    return "spec:" + (EXAMPLES / name).read_text().rpartition("\nspec:")[2].rstrip()


@dataclass
class Stage:
    """Everything that the steps act on.

    Args:
        cluster: the running control plane.
    """

    cluster: Cluster

    def __post_init__(self) -> None:
        self.objects = Objects(self.cluster)
        self.operator: OperatorProcess | None = None
        self._shown: list[str] = []
        self.staging: Stage | None = None
        self._home = self
        self._prompt = "$"

    def use(self, staging: Stage) -> None:
        """Have a second cluster; commands know it as STAGING, and both use this one's registry."""
        self.staging = staging
        staging._home, staging._shown, staging._prompt = self, self._shown, "staging $"

    @property
    def account(self) -> str:
        """The operator's service account, as the API server knows it."""
        return f"system:serviceaccount:{HOME}:copyrator"

    def types(self, *commands: str) -> None:
        """Run shell commands in the clone, and keep them for the screen.

        Raises:
            StepFailed: the exit code of one isn't 0.
        """
        environment = {**os.environ, **self.cluster.environment()}
        environment["COPYRATOR_REGISTRY"] = self._home.cluster.registry
        if self.staging is not None:
            environment["STAGING"] = str(self.staging.cluster.admin_kubeconfig)
            environment["STAGING_SERVER"] = self.staging.cluster.server
        environment["PATH"] = os.pathsep.join((str(ROOT / "hack" / "bin"), environment["PATH"]))
        for command in commands:
            self._shown.append(f"{self._prompt} {command}")
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                msg = f"{command}\nexit code {done.returncode}: {done.stdout}"
                raise StepFailed(msg)

    def shows(self, text: str) -> None:
        """Keep a text for the screen, such as a part of a manifest."""
        self._shown.append(text.rstrip())

    def take_shown(self) -> list[str]:
        """The commands and texts since the last call."""
        shown = list(self._shown)
        self._shown.clear()
        return shown

    def start_operator(self) -> OperatorProcess:
        """Start the operator as the chart's service account and wait until it is ready."""
        values = yaml.safe_load((ROOT / VALUES).read_text())
        chart = render(self.cluster.helm, namespace=HOME, values=values)
        kubeconfig = self.cluster.kubeconfig_for_service_account(HOME, chart.service_account)
        self.operator = OperatorProcess(chart, HOME, kubeconfig, self.cluster.state_dir)
        self.operator.wait_ready(30)
        return self.operator


_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE")
"""What a process on a laptop needs of its surroundings; nothing that would configure Copyrator."""

STOP_SECONDS = 30.0
"""The Deployment's grace period."""


class OperatorProcess:
    """A running ``copyrator run``; stop() ends it as the kubelet would.

    Args:
        chart: the rendered chart, whose container's arguments and variables are used.
        namespace: the release's namespace, for variables that the pod's fields fill in.
        kubeconfig: of the chart's service account.
        state_dir: the cluster's directory. Its logs get one more, and the process carries the
            cluster's mark, so that stopping the cluster stops it too.
    """

    def __init__(self, chart: Rendered, namespace: str, kubeconfig: Path, state_dir: Path) -> None:
        self.log = Layout(state_dir).logs / "operator.log"
        self.port = ports.reserve(state_dir, ["operator"])["operator"]
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        for variable in chart.container["env"]:
            if "value" in variable:
                environment[variable["name"]] = variable["value"]
        environment |= {"POD_NAME": "copyrator-demo", "POD_NAMESPACE": namespace}
        # The image has the package installed; a clone has it here.
        environment["PYTHONPATH"] = str(ROOT / "operator")
        environment[MARKER] = str(state_dir)
        command = [
            *(sys.executable, "-m", "copyrator", *chart.container["args"]),
            *("--kubeconfig", str(kubeconfig), "--health-port", str(self.port)),
        ]
        with self.log.open("ab") as output:
            # A session of its own: Ctrl-C reaches the demo alone, which then stops this in order.
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self, seconds: float) -> None:
        """Wait until /readyz answers 200.

        Raises:
            StepFailed: it ended, or wasn't ready within `seconds`.
        """
        until(self._ready, seconds=seconds, what="the operator's /readyz to answer 200")

    def check_alive(self) -> None:
        """Raise StepFailed when the process has ended by itself."""
        if (code := self._process.poll()) is not None:
            msg = f"the operator ended with exit code {code}"
            raise StepFailed(msg)

    def stop(self) -> int:
        """End it by SIGTERM, by SIGKILL when it doesn't go, and return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        return tail(self.log, lines)

    def _ready(self) -> None:
        self.check_alive()
        if not answers(f"http://127.0.0.1:{self.port}/readyz"):
            raise NotYet("it doesn't")
