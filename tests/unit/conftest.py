"""Unit tests start no process and open no connection: those that do are in tests/component."""

from __future__ import annotations

import platform
import socket
import subprocess
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

platform.processor()  # starts a process, once: azure-identity asks for it when it is imported


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a unit test starts no process and opens no connection: tests/component")


@pytest.fixture(scope="module", autouse=True)
def no_processes_and_no_connections() -> Iterator[None]:
    """Fail a test that starts a process, connects or listens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", _refuse)
        for method in ("bind", "connect", "connect_ex"):
            patch.setattr(socket.socket, method, _refuse)
        yield
