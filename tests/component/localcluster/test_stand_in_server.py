"""The stand-in for werf by its server is what it is as a program of its own."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.long import LONG

from localcluster.node.stand_in import StandIn
from localcluster.standin.served import SERVER
from localcluster.waiting import eventually

ROOT = Path(__file__).parents[3]
WERF = ROOT / "hack" / "localcluster" / "standin" / "werf"
HANG = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variable that names a server that listens."""
    with StandIn(tmp_path_factory.mktemp("w") / "s") as stand_in:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(ROOT / "hack"))
            variables = stand_in.variables()

        def answers() -> bool:
            with socket.socket(socket.AF_UNIX) as client:
                return client.connect_ex(variables[SERVER]) == 0

        eventually(answers, "the server to answer", HANG)
        yield variables


def start(arguments: list[str], variables: dict[str, str], home: Path) -> subprocess.Popen[str]:
    kept = {name: os.environ[name] for name in ("PATH",)}
    more = {"HOME": str(home), "TMPDIR": str(home), "WERF_BUILDAH_MODE": "docker"}
    return subprocess.Popen(
        [WERF, *arguments],
        env={**kept, **more, **variables},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def logging_in(
    variables: dict[str, str], home: Path
) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """A login that waits for a registry, and the registry's end of the connection."""
    with socket.create_server(("127.0.0.1", 0)) as registry:
        registry.settimeout(HANG)
        port = registry.getsockname()[1]
        who = {"WERF_USERNAME": "u", "WERF_PASSWORD": "p", "WERF_INSECURE_REGISTRY": "1"}
        with start(["cr", "login", f"127.0.0.1:{port}"], {**who, **variables}, home) as login:
            connection, _ = registry.accept()
            with connection:
                connection.settimeout(HANG)
                assert connection.recv(1)
                try:
                    yield login, connection
                finally:
                    login.kill()


def is_ended(connection: socket.socket) -> bool:
    """Read to the end; fails if nobody hangs up."""
    while connection.recv(65536):
        pass
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT] if LONG else [signal.SIGTERM])
def test_a_signal_ends_it_as_werf(
    server: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    for where in ({}, server):
        with logging_in(where, tmp_path) as (login, connection):
            login.send_signal(number)
            assert login.wait(HANG) == 128 + number
            assert login.stderr is not None
            assert login.stderr.read() == f"Signal: {number.name}\n"
            assert is_ended(connection)


def test_it_is_killed_with_the_program(server: dict[str, str], tmp_path: Path) -> None:
    with logging_in(server, tmp_path) as (login, connection):
        login.kill()
        assert is_ended(connection)
