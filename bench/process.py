"""The operator as a process of its own, with its CPU time and its memory."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import yaml

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_TICKS = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 30.0
START_SECONDS = 300.0


class BenchError(Exception):
    """A benchmark can't go on; the text is for the person who waits."""


LAUNCHER = """
import sys
from pathlib import Path
from copyrator.kube import auth
account = Path(sys.argv.pop(1))
if hasattr(auth, "_ACCOUNT"):
    auth._ACCOUNT = account
else:  # an older commit, which leaves it to the Kubernetes client
    from kubernetes.aio.config import incluster_config
    incluster_config.SERVICE_TOKEN_FILENAME = str(account / "token")
    incluster_config.SERVICE_CERT_FILENAME = str(account / "ca.crt")
from copyrator.cli import main
main()
"""
"""The image's launcher, with another directory than /var/run/secrets."""


@dataclass(frozen=True, slots=True)
class Command:
    """How the operator is started: from which tree, as whom, with which arguments.

    Attributes:
        kubeconfig: of the account; or, as in a pod, a directory with its ``token`` and ``ca.crt``.
    """

    tree: Path
    kubeconfig: Path
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    log: Path
    port: int


def mount_account(kubeconfig: Path) -> Path:
    """A directory as the kubelet mounts it into a pod, with a kubeconfig's token and CA."""
    config = yaml.safe_load(kubeconfig.read_text())
    directory = kubeconfig.with_suffix(".account")
    directory.mkdir(exist_ok=True)
    (directory / "token").write_text(config["users"][0]["user"]["token"])
    ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    (directory / "ca.crt").write_bytes(ca)
    return directory


class Measured:
    """A process that is measured: its processor time and its memory."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self.log = log

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    @property
    def cpu(self) -> float:
        """Seconds of processor time used so far."""
        text = Path(f"/proc/{self._process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def rss(self) -> float:
        """Megabytes (10^6) of memory held now."""
        return self._memory("VmRSS")

    @property
    def pss(self) -> float:
        """Megabytes held now, of its children too; what n processes share counts 1/n to each."""
        processes = [self._process.pid]
        for pid in processes:  # grows by their children
            for file in Path(f"/proc/{pid}/task").glob("*/children"):
                processes += map(int, file.read_text().split())
        return sum(
            int(line.split()[1]) * 1024 / 1e6
            for pid in processes
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            if line.startswith("Pss:")
        )

    @property
    def peak(self) -> float:
        """Megabytes of memory held at most since the start or the last `forget_peak`."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        """Count the peak from now on."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """End it as the kubelet would."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _memory(self, field: str) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise BenchError(f"the process has ended: {self.log}")

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text().splitlines()[-10:])


class Operator(Measured):
    """A running operator.

    Attributes:
        ready_after: seconds from its start until /readyz answered 200.
    """

    def __init__(self, command: Command) -> None:
        self._command = command
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= dict(command.environment)
        environment["PYTHONPATH"] = str(command.tree / "operator")
        arguments = (*command.arguments, "--health-port", str(command.port))
        if command.kubeconfig.is_dir():
            start = ["-P", "-c", LAUNCHER, str(command.kubeconfig), *arguments]
        else:
            start = ["-m", "copyrator", *arguments, "--kubeconfig", str(command.kubeconfig)]
        began = time.monotonic()
        with command.log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, *start],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        super().__init__(process, command.log)
        try:
            self._wait_ready()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.ready_after = time.monotonic() - began

    def page(self, path: str) -> str:
        """What the health server answers; empty when it says no, or nothing."""
        try:
            url = f"http://127.0.0.1:{self._command.port}{path}"
            with _DIRECT.open(url, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = self.page("/metrics").splitlines()
        values = [line.split() for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(value[-1]) for value in values)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.page("/readyz"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"the operator doesn't become ready:\n{self.tail()}")
            time.sleep(0.01)
