"""Servers that answer for the hosts of clouds: their token services, and registries under a guard.

All are in this process, on two ports of loopback: one with TLS, one without. What leads there is a
file of names (`names.py`) and a CA; `environment` has both, for other processes.
"""

from __future__ import annotations

import base64
import fnmatch
import http.client
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from tests.authority import Authority
from tests.clouds import names
from tests.e2e.secrecy.sentinels import Sentinels

from localcluster.bundle import push

_PASSED_ON = ("Content-Type", "Docker-Content-Digest", "Content-Length", "ETag", "Link", "Location")
_REPO = re.compile(r"/v2/(?P<repo>.+)/(manifests|blobs|tags|referrers)(/|$)")
READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Asked:
    """A request.

    Attributes:
        host: of the Host header, in lower case and without the port.
        path: without the query.
        raw_query: what follows the question mark, as sent.
        headers: as sent; names in any case.
        status: of the answer; 0 before, and where there was none.
        at: when it came, in monotonic seconds.
    """

    method: str
    scheme: str
    host: str
    path: str
    raw_query: str
    headers: Message = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    status: int = 0
    at: float = field(default_factory=time.monotonic, repr=False)

    @property
    def query(self) -> dict[str, str]:
        """The query's parameters; of equal names the last."""
        return dict(parse_qsl(self.raw_query, keep_blank_values=True))

    @property
    def kind(self) -> str:
        """The scheme of the Authorization header, in lower case; empty without one."""
        return (self.headers.get("Authorization") or "").partition(" ")[0].lower()

    @property
    def bearer(self) -> str:
        """The bearer token; empty without one."""
        value = (self.headers.get("Authorization") or "").partition(" ")[2]
        return value if self.kind == "bearer" else ""

    @property
    def login(self) -> tuple[str, str]:
        """Name and password of Basic authentication; empty without."""
        if self.kind != "basic":
            return "", ""
        value = (self.headers.get("Authorization") or "").partition(" ")[2]
        name, _, password = base64.b64decode(value).decode().partition(":")
        return name, password

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form that was posted."""
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def repo(self) -> str:
        """The repository that a request to a registry is about; empty for others."""
        found = _REPO.match(self.path)
        return found["repo"] if found else ""

    @property
    def sent(self) -> str:
        """All that a server has learned, with Basic authentication decoded."""
        parts = [self.path, *self.query.values(), str(self.headers), *self.login]
        return "\n".join([*parts, *self.form.values(), self.body.decode(errors="replace")])


@dataclass(frozen=True)
class Answer:
    """What a server says.

    Attributes:
        body: JSON where it isn't bytes or text.
        delay: seconds before it is sent.
        is_cut: the connection is closed in place of it.
    """

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    is_cut: bool = False

    @property
    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


Handler = Callable[[Asked], Answer | None]
"""Answers a request; None: the next handler is asked."""

NOT_FOUND = Answer(404, {"errors": [{"code": "NOT_FOUND", "message": "no such path"}]})


def _without_port(host: str) -> str:
    return re.sub(r":\d+$", "", host).lower()


class Stage:
    """The servers, and all that they were asked."""

    def __init__(self, directory: Path, behind: str, authority: Authority | None = None) -> None:
        """Start with no host.

        Args:
            directory: for the CA, the names and `sitecustomize.py`; a new one.
            behind: `host:port` of the real registry, plain HTTP on loopback.
            authority: signs the certificates; without one, a new one does.
        """
        directory.mkdir(parents=True)
        self.behind = behind
        self.sentinels = Sentinels()
        self.authority = authority or Authority.make(directory / "ca")
        self.ca = self.authority.directory / "ca.pem"
        self._site = directory / "site"
        self._names = directory / "names.json"
        self._log = directory / "lookups"
        self._log.touch()
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self._handlers: dict[tuple[str, str], tuple[Handler, ...]] = {}
        self._hosts: dict[str, tuple[str, int]] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._stopped = threading.Event()
        self._ports: dict[str, int] = {}
        self._site.mkdir()
        text = Path(names.__file__).read_text()
        (self._site / "sitecustomize.py").write_text(f"{text}\n\ninstall({str(self._names)!r})\n")

    @classmethod
    @contextmanager
    def running(
        cls, directory: Path, behind: str, authority: Authority | None = None
    ) -> Iterator[Stage]:
        """A stage whose servers run until the end; arguments as for a stage."""
        stage = cls(directory, behind, authority)
        with stage._served("https"), stage._served("http"):
            stage._write_names()
            yield stage
            stage._stopped.set()

    # --- hosts ---

    def serve(self, host: str, *handlers: Handler, scheme: str = "https") -> None:
        """Let these, in this order, answer for a host on its standard port (443 or 80).

        A host of a registry should have `stage.pass_on` as the last one.
        """
        self._handlers[scheme, host] = handlers
        port = {"https": 443, "http": 80}[scheme]
        self.map(f"{host}:{port}", ("127.0.0.1", self._ports[scheme]))

    def map(self, name: str, to: tuple[str, int] | None) -> None:
        """Let a "name" or "name:port" lead to an address and port; None: it doesn't exist."""
        with self._lock:
            self._hosts.pop(name, None)
            if to is not None:
                self._hosts[name] = to
            self._write_names()

    def address(self, scheme: str = "https") -> tuple[str, int]:
        """Where the server with this scheme listens, for `map`."""
        return "127.0.0.1", self._ports[scheme]

    def _write_names(self) -> None:
        # Uploads connect with the address that was found, which has lost its port.
        pushes = {"127.0.0.1:443": ("127.0.0.1", self._ports["https"])}
        settings = {"hosts": {**pushes, **self._hosts}, "log": str(self._log)}
        new = self._names.with_suffix(".new")
        new.write_text(json.dumps(settings))
        new.replace(self._names)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that finds the hosts, and trusts the CA and no other.

        PYTHONPATH has to be put before that of the process.
        """
        return {"PYTHONPATH": str(self._site), "SSL_CERT_FILE": str(self.ca)}

    @contextmanager
    def in_this_process(self) -> Iterator[None]:
        """Let this process find the hosts."""
        undo = names.install(self._names)
        try:
            yield
        finally:
            undo()

    @property
    def lookups(self) -> set[str]:
        """The names that were looked up by processes of the stage."""
        lines = self._log.read_text().splitlines()
        return {line.rpartition(" ")[0].strip("'") for line in lines}

    # --- the registry behind ---

    def push(self, chart: Path, repo: str, tag: str) -> str:
        """Push a chart past all guards; returns its digest."""
        return push(chart, self.behind, repo, tag)

    def pass_on(self, asked: Asked) -> Answer:
        """What the real registry answers."""
        upstream = http.client.HTTPConnection(self.behind, timeout=30)
        query = f"?{asked.raw_query}" if asked.raw_query else ""
        kept = {
            name: asked.headers[name] for name in ("Accept", "Content-Type") if asked.headers[name]
        }
        upstream.request(asked.method, asked.path + query, asked.body or None, kept)
        answer = upstream.getresponse()
        headers = {name: answer.headers[name] for name in _PASSED_ON if answer.headers.get(name)}
        if "Location" in headers:
            moved = urlsplit(headers["Location"])
            headers["Location"] = moved.path + (f"?{moved.query}" if moved.query else "")
        body = answer.read()
        upstream.close()
        return Answer(answer.status, body, headers)

    # --- what was asked, and tokens ---

    def asked(self, host: str = "*", path: str = "*", method: str = "*") -> list[Asked]:
        """The requests so far, with their answers' statuses; all three are globs."""
        with self._lock:
            found = list(self._asked)
        return [
            one
            for one in found
            if fnmatch.fnmatchcase(one.host, host)
            and fnmatch.fnmatchcase(one.path, path)
            and fnmatch.fnmatchcase(one.method, method)
        ]

    def clear(self) -> None:
        """Serve no host any more, end what is delayed, and begin anew."""
        self._stopped.set()
        self._stopped = threading.Event()
        with self._lock:
            self._handlers.clear()
            self._hosts.clear()
            self._write_names()
        self.forget()

    def forget(self) -> None:
        """Begin anew with `asked` and `lookups`."""
        with self._lock:
            self._asked.clear()
        self._log.write_text("")

    def issue(self, name: str) -> str:
        """A new token that is fit for headers and forms; `leaks` looks for it."""
        return self.sentinels.new_token(name)

    def hosts_told(self, token: str) -> set[str]:
        """The hosts that were sent a token, in whatever way."""
        return {one.host for one in self.asked() if token in one.sent}

    def assert_secret(self, texts: Iterable[tuple[str, str]]) -> None:
        """None of the tokens is in any of these texts, which have names.

        `traces.objects` and `traces.process` of tests/e2e/secrecy have them all.
        """
        found = [f"{where}: {what}" for where, text in texts for what in self.sentinels.leaks(text)]
        assert not found, "\n".join(found)

    # --- the servers ---

    def _answer(self, asked: Asked) -> Answer:
        if "form" in (asked.headers.get("Content-Type") or ""):
            for name, value in asked.form.items():
                if value.startswith("eyJ"):  # a JWT: an account's token
                    self.sentinels.watch(f"{name} for {asked.host}", value)
        for handler in self._handlers.get((asked.scheme, asked.host), ()):
            if (answer := handler(asked)) is not None:
                return answer
        return NOT_FOUND

    def _context(self, host: str) -> ssl.SSLContext:
        """The context with a certificate for one host, and for 127.0.0.1."""
        with self._lock:
            if host not in self._contexts:
                self._contexts[host] = self.authority.context(*filter(None, [host]))
            return self._contexts[host]

    @contextmanager
    def _served(self, scheme: str) -> Iterator[None]:
        stage = self

        class Server(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def log_message(self, *_: object) -> None:
                pass

            def _serve(self) -> None:
                parts = urlsplit(self.path)
                asked = Asked(
                    method=self.command,
                    scheme=scheme,
                    host=_without_port(self.headers["Host"] or ""),
                    path=parts.path,
                    raw_query=parts.query,
                    headers=self.headers,
                    body=self.rfile.read(int(self.headers["Content-Length"] or 0)),
                )
                try:
                    answer = stage._answer(asked)
                except Exception as error:
                    answer = Answer(599, f"{type(error).__name__}: {error}")
                with stage._lock:
                    status = 0 if answer.is_cut else answer.status
                    stage._asked.append(replace(asked, status=status))
                stage._stopped.wait(answer.delay)
                if answer.is_cut:
                    self.close_connection = True
                else:
                    self._say(answer)

            def _say(self, answer: Answer) -> None:
                content = answer.content
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if not any(name.lower() == "content-length" for name in answer.headers):
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    with suppress(OSError):
                        self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

        server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
        server.daemon_threads = True
        # A client that refuses the certificate is expected, and no news.
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if scheme == "https":
            context = self._context("")

            def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
                if name:
                    connection.context = self._context(name)

            context.sni_callback = choose
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._ports[scheme] = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
