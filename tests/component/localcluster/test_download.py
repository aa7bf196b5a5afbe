"""Official builds are downloaded when asked for; whatever is wrong with one, it is compiled.

A server plays the publishers, with TLS and redirects to a store of objects as they have; a script
plays the Go compiler.
"""

import errno
import hashlib
import io
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock

import pytest
from tests.authority import Authority

from localcluster import download, pins
from localcluster.build import Programs
from localcluster.pins import go_platform
from localcluster.progress import Progress
from localcluster.waiting import eventually

HACK = Path(__file__).parents[3] / "hack"
ARCH = go_platform().split("/")[1]
ETCD = f"github.com/etcd-io/etcd/releases/download/v3.6.7/etcd-v3.6.7-linux-{ARCH}.tar.gz"
ETCD_MEMBER = f"etcd-v3.6.7-linux-{ARCH}/etcd"
KUBERNETES = f"dl.k8s.io/release/v1.34.4/bin/linux/{ARCH}"
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.8; exit; fi
if [ "$1" = list ]; then exit; fi
while [ "$1" != -o ]; do shift; done
target=$2; shift 2
for package in "$@"; do
  file=$target$(basename "${package%/v3}")
  echo compiled > "$file"; chmod +x "$file"
done
"""


def script(says: str) -> bytes:
    return f"#!/bin/sh\necho '{says}'\n".encode()


def archive(*entries: tuple[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


WHOLE = archive(("README.md", b"read me"), (ETCD_MEMBER, script("etcd Version: 3.6.7")))
FAR = "mirror.invalid"
"""A name that only a proxy knows."""
Answer = Callable[["Handler", bytes], None]


class Publisher(ThreadingHTTPServer):
    """Answers with a redirect to /cdn, and there with a file, or as `fault` does."""

    daemon_threads = True
    fault: Answer | None = None

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_port}"
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.ended = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up here."""

    def pin(self) -> None:
        """Pin what is served now."""
        lines = [f"{hashlib.sha256(body).hexdigest()}  {name}" for name, body in self.files.items()]
        (pins.GO_DIR / "SHA256SUMS").write_text("\n".join(lines))


class Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        name = self.path.removeprefix("/cdn").lstrip("/")
        if not self.path.startswith("/cdn/"):
            self.redirect(f"{self.server.url}/cdn{self.path}")
            return
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
        elif self.server.fault:
            self.server.fault(self, self.server.files[name])
        else:
            self.head(len(self.server.files[name]))
            self.wfile.write(self.server.files[name])

    def head(self, length: int | None) -> None:
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is inherited
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def context(authority: Authority) -> ssl.SSLContext:
    return authority.context(FAR)


@pytest.fixture
def publisher(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    authority: Authority,
    context: ssl.SSLContext,
) -> Iterator[Publisher]:
    """Serves an etcd that is pinned."""
    shutil.copytree(pins.GO_DIR, tmp_path / "go")
    monkeypatch.setattr(pins, "GO_DIR", tmp_path / "go")
    compiler = tmp_path / "path" / "go"
    compiler.parent.mkdir()
    compiler.write_text(FAKE_GO)
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:/usr/bin:/bin")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.directory / "ca.pem"))
    monkeypatch.setenv("COPYRATOR_DOWNLOAD", "1")
    for name in ("KUBEBUILDER_ASSETS", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with Publisher(context) as server:
        monkeypatch.setenv("COPYRATOR_MIRROR", server.url)
        server.files[ETCD] = WHOLE
        server.pin()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.ended.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def programs(tmp_path: Path, output: io.StringIO) -> Programs:
    return Programs(tmp_path / "cache", Progress(output, terminal=False))


def is_compiled(program: Path) -> bool:
    return program.read_bytes() == b"compiled\n"


def assert_compiled(programs: Programs, output: io.StringIO, why: str) -> None:
    """etcd is compiled after one line that says why, and of the download nothing is left."""
    assert is_compiled(programs.find(["etcd"])["etcd"])
    (line,) = [line for line in output.getvalue().splitlines() if "compiled" in line]
    assert line.startswith("etcd v3.6.7 can't be downloaded and will be compiled: ")
    assert why in line
    assert [path.name for path in (programs.cache / "bin").glob("*/*")] == ["etcd"]
    assert not list((programs.cache / "bin").glob(".*"))


def test_a_program_is_downloaded_once_and_used_from_then_on(
    publisher: Publisher,
    programs: Programs,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = programs.find(["etcd"])
    monkeypatch.delenv("COPYRATOR_DOWNLOAD")
    again = programs.find(["etcd"])

    assert first == again
    assert subprocess.check_output([first["etcd"]]) == b"etcd Version: 3.6.7\n"
    assert publisher.asked == [ETCD]
    assert output.getvalue().endswith("[0:00] downloading etcd v3.6.7: done\n")


@pytest.mark.parametrize(
    ("arguments", "value"),
    [([], ""), (["DOWNLOAD=1"], "1"), (["DOWNLOAD=0"], "0")],
    ids=["unset", "wanted", "unwanted"],
)
@pytest.mark.parametrize("target", ["demo", "cluster-up", "test"])
def test_make_passes_on_what_was_asked_for(target: str, arguments: list[str], value: str) -> None:
    run = "RUN=echo [$$COPYRATOR_DOWNLOAD]"
    variables = {name: os.environ[name] for name in os.environ if "DOWNLOAD" not in name}

    said = subprocess.check_output(
        ["make", "-C", HACK.parent, target, run, *arguments], env=variables, text=True
    )

    assert f"[{value}] python -m " in said


@pytest.mark.parametrize("value", [None, "", "0"])
def test_nobody_is_asked_unless_it_was_wanted(
    publisher: Publisher, programs: Programs, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("COPYRATOR_DOWNLOAD")
    if value is not None:
        monkeypatch.setenv("COPYRATOR_DOWNLOAD", value)

    assert is_compiled(programs.find(["etcd"])["etcd"])
    assert publisher.asked == []


def test_what_is_compiled_already_is_not_downloaded(
    publisher: Publisher, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COPYRATOR_DOWNLOAD")
    compiled = programs.find(["etcd"])
    monkeypatch.setenv("COPYRATOR_DOWNLOAD", "1")

    assert programs.find(["etcd"]) == compiled
    assert publisher.asked == []


def test_another_pin_is_another_download(publisher: Publisher, programs: Programs) -> None:
    first = programs.find(["etcd"])["etcd"]
    publisher.files[ETCD] = archive((ETCD_MEMBER, script("etcd Version: 3.6.7 once more")))
    publisher.pin()

    second = programs.find(["etcd"])["etcd"]

    assert first != second
    assert b"once more" in second.read_bytes()


def serve_programs_of_kubernetes(publisher: Publisher) -> None:
    for server in SERVERS:
        publisher.files[f"{KUBERNETES}/{server}"] = script(f"Kubernetes v1.34.4 ({server})")
    publisher.pin()


def test_the_programs_of_kubernetes_are_files_of_their_own(
    publisher: Publisher, programs: Programs
) -> None:
    serve_programs_of_kubernetes(publisher)

    found = programs.find(SERVERS)

    assert {name: path.name for name, path in found.items()} == {name: name for name in SERVERS}
    assert all(name.encode() in path.read_bytes() for name, path in found.items())
    assert publisher.asked == [f"{KUBERNETES}/{server}" for server in SERVERS]


def test_all_programs_of_a_module_are_compiled_when_one_is_not_to_be_had(
    publisher: Publisher, programs: Programs, output: io.StringIO
) -> None:
    serve_programs_of_kubernetes(publisher)
    del publisher.files[f"{KUBERNETES}/kube-scheduler"]

    found = programs.find([*SERVERS, "etcd"])

    assert all(is_compiled(found[server]) for server in SERVERS)
    assert not is_compiled(found["etcd"])
    assert "/kube-scheduler: status 404" in output.getvalue()
    assert output.getvalue().count("will be compiled") == 1


def test_without_a_pin_it_is_compiled(
    publisher: Publisher, programs: Programs, output: io.StringIO
) -> None:
    (pins.GO_DIR / "SHA256SUMS").write_text("")

    assert_compiled(programs, output, f"go/SHA256SUMS has no line for https://{ETCD}")
    assert publisher.asked == []


def cut_off(handler: Handler, body: bytes) -> None:
    handler.head(len(body))
    handler.wfile.write(body[: len(body) // 2])


def changed(handler: Handler, body: bytes) -> None:
    handler.head(len(body))
    handler.wfile.write(bytes(len(body)))


def stalled(handler: Handler, body: bytes) -> None:
    cut_off(handler, body)
    handler.server.ended.wait()


def silent(handler: Handler, body: bytes) -> None:
    handler.server.ended.wait()


def refusing(handler: Handler, body: bytes, *, code: int) -> None:
    handler.send_error(code, "\x1b[2JGo away")


def redirecting(handler: Handler, body: bytes, *, to: str) -> None:
    handler.redirect(to or handler.server.url + handler.path)


def nonsense(handler: Handler, body: bytes) -> None:
    handler.wfile.write(b"\x1b[2J\x1b]0;title\x07 nonsense\r\n\r\n")


def endless(handler: Handler, body: bytes) -> None:
    handler.head(None)
    while not handler.server.ended.is_set():
        handler.wfile.write(bytes(2**16))


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (cut_off, " bytes"),
        (changed, " not "),
        (stalled, "timed out"),
        (silent, "timed out"),
        (partial(refusing, code=403), "status 403"),
        (partial(refusing, code=404), "status 404"),
        (partial(refusing, code=429), "status 429"),
        (partial(refusing, code=503), "status 503"),
        (partial(redirecting, to="file:///etc/passwd"), "status 302"),
        (partial(redirecting, to="https://127.0.0.1:1/etcd"), "refused"),
        (partial(redirecting, to=""), "status 302"),
        (partial(redirecting, to="https://127.0.0.1:port/etcd"), "port"),
        (nonsense, "nonsense"),
        (endless, "over 16 MB"),
    ],
    ids=lambda value: getattr(getattr(value, "func", value), "__name__", None),
)
def test_a_program_whose_download_fails_is_compiled(
    publisher: Publisher,
    programs: Programs,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    *,
    fault: Answer,
    why: str,
) -> None:
    monkeypatch.setattr(download, "_STALL_SECONDS", 0.5)
    monkeypatch.setattr(download, "_FILE_BYTES", 2**24)
    publisher.fault = fault
    began = time.monotonic()

    assert_compiled(programs, output, why)
    assert "\x1b" not in output.getvalue()
    assert len(publisher.asked) <= 6
    assert time.monotonic() - began < 15


def test_a_full_disk_is_left_to_the_compiler(
    publisher: Publisher,
    programs: Programs,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr("localcluster.download.shutil.copyfileobj", Mock(side_effect=full))

    assert_compiled(programs, output, "No space left on device")


def test_a_server_that_is_not_there_is_not_waited_for(
    publisher: Publisher,
    programs: Programs,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPYRATOR_MIRROR", "https://127.0.0.1:1")

    assert_compiled(programs, output, "https://127.0.0.1:1/github.com/etcd-io/etcd")
    assert "refused" in output.getvalue()


def test_a_server_has_to_prove_who_it_is(
    publisher: Publisher,
    programs: Programs,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    stranger = Authority.make(tmp_path / "stranger")
    monkeypatch.setenv("SSL_CERT_FILE", str(stranger.directory / "ca.pem"))

    assert_compiled(programs, output, "CERTIFICATE_VERIFY_FAILED")
    assert publisher.asked == []


@pytest.mark.parametrize(
    "mirror",
    ["http://127.0.0.1:1", "https://me:secret@127.0.0.1", "mirror", "https://me:secret@[bad"],
)
def test_a_mirror_is_an_https_url_without_a_password(
    publisher: Publisher,
    programs: Programs,
    output: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    *,
    mirror: str,
) -> None:
    monkeypatch.setenv("COPYRATOR_MIRROR", mirror)

    assert_compiled(programs, output, "COPYRATOR_MIRROR is not an https URL without a user")
    assert "secret" not in output.getvalue()


class Tunnel(BaseHTTPRequestHandler):
    """A proxy for HTTPS whose every CONNECT leads to one port."""

    port = 0
    asked: ClassVar[list[str]] = []

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        with socket.create_connection(("127.0.0.1", self.port)) as there:
            back = threading.Thread(target=self.pass_on, args=(there, self.connection))
            back.start()
            self.pass_on(self.connection, there)
            back.join()

    def pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(2**16):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is inherited
        pass


def test_a_proxy_is_gone_through(
    publisher: Publisher, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPYRATOR_MIRROR", f"https://{FAR}/")
    monkeypatch.setattr(Tunnel, "port", publisher.server_port)
    with ThreadingHTTPServer(("127.0.0.1", 0), Tunnel) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        found = programs.find(["etcd"])
        proxy.shutdown()
        thread.join()

    assert not is_compiled(found["etcd"])
    assert Tunnel.asked == [f"{FAR}:443", f"127.0.0.1:{publisher.server_port}"]


FOREIGN_ELF = b"\x7fELF\x02\x02\x01" + bytes(9) + b"\0\x02\0\x16\0\0\0\x01" + bytes(100)
"""The head of a program for s390x."""


def test_an_archive_without_the_program_is_of_no_use(
    publisher: Publisher, programs: Programs, output: io.StringIO
) -> None:
    publisher.files[ETCD] = archive(("etcd", script("3.6.7")))
    publisher.pin()

    assert_compiled(programs, output, "has no file etcd-v3.6.7")


def test_progress_is_shown(
    publisher: Publisher, output: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localcluster.progress._LINE_EVERY_SECONDS", 0.0)
    padding = os.urandom(3 * 2**20)
    publisher.files[ETCD] = archive((ETCD_MEMBER, script("3.6.7")), ("padding", padding))
    publisher.pin()

    Programs(tmp_path / "cache", Progress(output, terminal=False)).find(["etcd"])

    assert "[0:00] downloading etcd v3.6.7: 1 of 3 MB\n" in output.getvalue()


def test_parallel_runs_download_once(publisher: Publisher, programs: Programs) -> None:
    both = threading.Barrier(2, timeout=10)

    def find() -> None:
        both.wait()
        programs.find(["etcd"])

    threads = [threading.Thread(target=find) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert publisher.asked == [ETCD]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_download_leaves_nothing_half(
    publisher: Publisher, programs: Programs, number: signal.Signals
) -> None:
    publisher.fault = stalled
    command = [sys.executable, "-m", "localcluster", "build", "etcd"]
    variables = {"PYTHONPATH": str(HACK), "COPYRATOR_CACHE": str(programs.cache)}
    with subprocess.Popen(command, env={**os.environ, **variables}) as downloader:
        eventually(lambda: list((programs.cache / "bin").glob(".*/*")), "the download")
        downloader.send_signal(number)
    assert downloader.returncode != 0
    assert not list((programs.cache / "bin").glob("*/etcd"))
    publisher.fault = None

    assert not is_compiled(programs.find(["etcd"])["etcd"])
    if number != signal.SIGKILL:
        assert not list((programs.cache / "bin").glob(".*"))


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory as setup-envtest makes it, of the pinned versions."""
    directory = tmp_path / "assets"
    directory.mkdir()
    says = {
        "etcd": "etcd Version: 3.6.1",
        "kube-apiserver": "Kubernetes v1.34.0",
        "kubectl": "Client Version: v1.34.0",
    }
    for name, line in says.items():
        (directory / name).write_bytes(script(line))
        (directory / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(directory))
    return directory


def test_what_the_assets_lack_is_downloaded(
    publisher: Publisher,
    programs: Programs,
    assets: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    serve_programs_of_kubernetes(publisher)

    found = programs.find([*SERVERS, "etcd"])

    ours = {name: path.parent == assets for name, path in found.items()}
    assert {name for name in ours if ours[name]} == {"etcd", "kube-apiserver", "kubectl"}
    assert publisher.asked == [
        f"{KUBERNETES}/kube-controller-manager",
        f"{KUBERNETES}/kube-scheduler",
    ]
    assert capsys.readouterr().err == ""


def test_assets_of_another_minor_version_are_used_which_is_said_once(
    publisher: Publisher,
    programs: Programs,
    assets: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (assets / "kube-apiserver").write_bytes(script("Kubernetes v1.31.2"))
    (assets / "etcd").write_bytes(script("etcd Version: 3.5.16"))

    for _ in range(2):
        found = programs.find(["etcd", "kube-apiserver", "kubectl"])

    assert {path.parent for path in found.values()} == {assets}
    assert publisher.asked == []
    assert capsys.readouterr().err == (
        "KUBEBUILDER_ASSETS: etcd is v3.5.16 and not v3.6.7, "
        "kube-apiserver is v1.31.2 and not v1.34.4\n"
    )


def test_assets_that_do_not_run_are_replaced_which_is_said(
    publisher: Publisher,
    programs: Programs,
    assets: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (assets / "etcd").write_bytes(FOREIGN_ELF)
    (assets / "kubectl").unlink()

    found = programs.find(["etcd", "kube-apiserver"])

    assert found["kube-apiserver"].parent == assets
    assert found["etcd"].parent != assets
    assert publisher.asked == [ETCD]
    assert capsys.readouterr().err == "KUBEBUILDER_ASSETS: etcd doesn't run and is not used\n"
