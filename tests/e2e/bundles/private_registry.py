"""Registries that are harder to reach than the real one behind them; on loopback."""

from __future__ import annotations

import base64
import http.client
import json
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USER, PASSWORD = "alice", "s3cret-word"
_EXPECTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_PASSED_ON = ("Content-Type", "Docker-Content-Digest", "Content-Length", "ETag", "Link", "Location")
_SENT_ON = ("Accept", "Content-Type")


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def private_registry(behind: str, at: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[str]:
    """`host:port` of a registry that is `behind` with a password, by Basic authentication."""
    with front(behind, at=at, password=True) as host:
        yield host


@contextmanager
def front(
    behind: str,
    *,
    at: tuple[str, int] = ("127.0.0.1", 0),
    password: bool = False,
    tls: ssl.SSLContext | None = None,
    stalling: threading.Event | None = None,
    tokens: list[str] | None = None,
    asked: list[str] | None = None,
) -> Iterator[str]:
    """`host:port` of a server before a registry.

    Args:
        behind: `host:port` of the registry.
        at: address and port to listen on; port 0 is a free one.
        password: whether it wants one.
        tls: speaks TLS by this context.
        stalling: while it is set, blobs aren't answered for.
        tokens: it wants a token, which it gives for the password; those that it gave.
        asked: the paths of requests that it passed on.
    """

    class Guard(_Quiet):
        def _asks_for_token(self) -> bool:
            """Give a token, or ask for one; False where the request has one."""
            assert tokens is not None
            body, login = b"", self.headers.get("Authorization")
            if self.path.startswith("/token?") and login == _EXPECTED:
                tokens.append(secrets.token_hex(8))
                body = json.dumps({"token": tokens[-1], "expires_in": 300}).encode()
                self.send_response(200)
            elif login and login.removeprefix("Bearer ") in tokens:
                return False
            else:
                host = self.headers["Host"]
                self.send_response(401)
                challenge = f'Bearer realm="http://{host}/token",service="private"'
                self.send_header("WWW-Authenticate", challenge)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return True

        def _serve(self) -> None:
            if tokens is not None and self._asks_for_token():
                return
            if password and self.headers.get("Authorization") != _EXPECTED:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="private"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            while stalling is not None and stalling.is_set() and "/blobs/" in self.path:
                stopped.wait(0.1)
            if asked is not None:
                asked.append(self.path)
            upstream = http.client.HTTPConnection(behind, timeout=10)
            sent = {name: self.headers[name] for name in _SENT_ON if self.headers[name]}
            size = int(self.headers.get("Content-Length", 0))
            if self.command not in ("GET", "HEAD"):
                sent["Host"] = self.headers["Host"]  # an upload goes on where it began
            upstream.request(self.command, self.path, self.rfile.read(size), headers=sent)
            answer = upstream.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name in _PASSED_ON:
                if answer.headers.get(name):
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)
            upstream.close()

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - http.server's names

    stopped = threading.Event()
    server = ThreadingHTTPServer(at, Guard)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with _served(server) as host:
        yield host
        stopped.set()


@contextmanager
def proxy(to: str, asked: list[str]) -> Iterator[str]:
    """URL of an HTTP proxy that connects everybody with `to`, and notes whom they asked for."""

    class Proxy(_Quiet):
        def do_CONNECT(self) -> None:
            asked.append(self.path)
            host, port = to.split(":")
            with socket.create_connection((host, int(port)), timeout=10) as there:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_pass_on, args=(there, self.connection))
                back.start()
                _pass_on(self.connection, there)
                back.join()
            self.close_connection = True

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as host:
        yield f"http://{host}"


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def _served(server: ThreadingHTTPServer) -> Iterator[str]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    host, port = server.server_address[:2]
    try:
        yield f"{host!s}:{port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
