"""The tests' client keeps its connections, and never uses one that the server has ended."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from localcluster import api as module
from localcluster.api import Api


class Server(ThreadingHTTPServer):
    """Counts connections; `hangs_up` ends each after its answer without saying so before."""

    daemon_threads = True
    hangs_up = False
    connections = 0

    def process_request(self, request: Any, address: Any) -> None:
        self.connections += 1
        super().process_request(request, address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = json.dumps({"reason": "NotFound"} if self.path == "/none" else {}).encode()
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        assert isinstance(self.server, Server)
        self.close_connection = self.server.hangs_up

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is inherited
        pass


def plain(host: str, port: int, *, timeout: float, context: Any) -> http.client.HTTPConnection:
    """A connection without TLS."""
    return http.client.HTTPConnection(host, port, timeout=timeout)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module.http.client, "HTTPSConnection", plain)
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(f"https://127.0.0.1:{server.server_port}", ssl.create_default_context())


def test_what_the_server_has_ended_is_not_used(server: Server, api: Api) -> None:
    server.hangs_up = True
    for _ in range(20):
        api.get("/")
        while not module._has_ended(api._connections._idle[-1].sock):
            pass
    assert server.connections == 20
