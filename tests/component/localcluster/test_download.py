"""Official builds are downloaded when asked for; whatever is wrong with one, it is compiled.

A server plays the publishers, with TLS and redirects to a store of objects as they have; a script
plays the Go compiler.
"""

import hashlib
import io
import shutil
import ssl
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.authority import Authority

from localcluster import download, pins
from localcluster.build import Programs
from localcluster.pins import go_platform
from localcluster.progress import Progress

ARCH = go_platform().split("/")[1]
ETCD = f"github.com/etcd-io/etcd/releases/download/v3.6.7/etcd-v3.6.7-linux-{ARCH}.tar.gz"
ETCD_MEMBER = f"etcd-v3.6.7-linux-{ARCH}/etcd"

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


@pytest.mark.parametrize("value", [None, "0"])
def test_nobody_is_asked_unless_it_was_wanted(
    publisher: Publisher, programs: Programs, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("COPYRATOR_DOWNLOAD")
    if value is not None:
        monkeypatch.setenv("COPYRATOR_DOWNLOAD", value)

    assert is_compiled(programs.find(["etcd"])["etcd"])
    assert publisher.asked == []


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


def refusing(handler: Handler, body: bytes, *, code: int) -> None:
    handler.send_error(code, "\x1b[2JGo away")


def redirecting(handler: Handler, body: bytes, *, to: str) -> None:
    handler.redirect(to)


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
        (partial(refusing, code=404), "status 404"),
        (partial(redirecting, to="file:///etc/passwd"), "status 302"),
        (partial(redirecting, to="https://127.0.0.1:1/etcd"), "refused"),
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
    ["http://127.0.0.1:1", "https://me:secret@127.0.0.1"],
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
