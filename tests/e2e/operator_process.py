"""The real operator as a process of its own: started, looked at, ended by signals.

Not named operator.py: next to tests that are run from their folder it would hide the standard
library's module, which is what tests/component/test_imports.py watches over.
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.e2e import stalls
from tests.e2e.forked import Forked

from demo.chart import ROOT
from localcluster.cluster import ALLOW_REGISTRY, REGISTRY_ADDRESSES

RUN = ("-m", "copyrator", "run")
KOPF_RUN = ("-m", "kopf", "run", "-A", "-m", "copyrator.kopf_main")

HOME = "copyrator"
"""Where the chart is installed, so where the Lease is."""

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks without a proxy, whatever the environment says."""
_LISTENS = re.compile(r"Health and metrics on http://127\.0\.0\.1:(\d+)")


HANG = 180.0
"""Seconds after which what a test waits for isn't slow but hangs; it promises nothing."""


def until(
    look: Callable[[], Any], what: Callable[[], str] | str = "it is so", seconds: float = HANG
) -> Any:
    """Look again and again until the answer is true, and return it.

    A look is mostly a request. The pauses are a tenth of a second, and grow with the time waited to
    a quarter of a second.
    """
    began = time.monotonic()
    while not (found := look()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(min(max(0.1, waited / 4), 0.25))
    return found


class OperatorProcess:
    """An operator; a context manager that kills it if the test hasn't ended it.

    Settings are given by variables, because `kopf run` takes them only so, and the health port is
    picked by the operator, which says it in the log. It is a fork of one that has imported all its
    modules, unless it is to be `real`: a program that is started.
    """

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *,
        command: tuple[str, ...] = RUN,
        settings: Mapping[str, str] | None = None,
        real: bool = False,
    ) -> None:
        self._log = log
        stalls.follow(log)
        self._port: int | None = None
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {
            "PYTHONPATH": str(ROOT / "operator"),
            "KUBECONFIG": str(kubeconfig),
            "COPYRATOR_HEALTH_PORT": "0",
            ALLOW_REGISTRY: REGISTRY_ADDRESSES,
            # As in one pod of the chart: whoever starts next gets the Lease back at once.
            "POD_NAMESPACE": (settings or {}).get("NAMESPACE", HOME),
            "POD_NAME": "copyrator-0",
            **(settings or {}),
        }
        with log.open("ab") as output:
            self._begin = output.tell()
            self._process: subprocess.Popen[bytes] | Forked
            if not real:
                self._process = Forked(command[1:], environment, log)
                return
            self._process = subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self.code is None:
            self._process.kill()
            self._process.wait()

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """All it has written so far, stdout and stderr; not what wrote an earlier one there."""
        return self._log.read_bytes()[self._begin :].decode(errors="replace")

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds (RSS)."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def get(self, path: str) -> tuple[int, str]:
        """Ask the health server; status 0 when nothing answers."""
        if self._port is None:
            if not (said := _LISTENS.findall(self.log)):
                return 0, "doesn't listen yet"
            self._port = int(said[-1])
        try:
            with DIRECT.open(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            self._port = None  # after a start in the same process it is another one
            return 0, str(error)

    def wait_started(self) -> None:
        """Wait until it says that it works; fail at once when the process ends."""

        def started() -> bool:
            assert self.code is None, f"it ended with code {self.code}:\n{self.log}"
            return "Started:" in self.log

        until(started, lambda: f"started\n{self.log}")

    def wait_ready(self) -> None:
        """Wait until /readyz answers 200; fail at once when the process ends."""

        def ready() -> bool:
            assert self.code is None, f"it ended with code {self.code}:\n{self.log}"
            return self.get("/readyz")[0] == 200

        until(ready, lambda: f"ready; {self.get('/readyz')}\n{self.log}")

    def wait_says(self, text: str, path: str = "/readyz") -> str:
        """Wait until a page's body holds `text`; return the body."""
        until(
            lambda: text in self.get(path)[1],
            lambda: f"{path} says {text!r}; {self.get(path)}\n{self.log}",
        )
        return self.get(path)[1]

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Send a signal and return the exit code; fail when it doesn't end within `seconds`."""
        self.send(number)
        return self.wait(seconds)

    def wait(self, seconds: float = HANG) -> int:
        """Wait for its end and return the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it doesn't end within {seconds} s:\n{self.log}") from None

    def kill(self) -> None:
        """End it without a chance to do anything (SIGKILL)."""
        self._process.kill()
        self._process.wait()
