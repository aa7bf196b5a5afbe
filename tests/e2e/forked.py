"""An operator that is a fork of one that has imported all; used like a `subprocess.Popen`."""

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from demo.chart import ROOT

_lock = threading.Lock()


@cache
def _server() -> "subprocess.Popen[str]":
    program = Path(__file__).with_name("fork_server.py")
    server = subprocess.Popen(
        [sys.executable, "-P", str(program)],  # -P: without this folder on its path
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "operator"), str(ROOT / "hack")]),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert server.stdin is not None
    atexit.register(server.stdin.close)
    return server


def _ask(request: dict[str, Any]) -> Any:
    with _lock:
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        return json.loads(server.stdout.readline())


class Forked:
    """`copyrator` or `kopf` with arguments, started; where `log` is a terminal, it sits at that."""

    def __init__(self, command: tuple[str, ...], environment: dict[str, str], log: Path) -> None:
        start = {"command": command, "environment": environment, "log": str(log)}
        self.pid: int = _ask({"start": start})

    def poll(self) -> int | None:
        code: int | None = _ask({"poll": self.pid})
        return code

    def wait(self, timeout: float | None = None) -> int:
        began = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - began > timeout:
                raise subprocess.TimeoutExpired("copyrator", timeout)
            time.sleep(0.02)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
