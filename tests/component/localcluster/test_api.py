"""The tests' client keeps its connections, and never uses one that the server has ended."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from localcluster.api import Api, ApiStatusError
from localcluster.waiting import eventually


class Server(ThreadingHTTPServer):
    """Counts connections; `hangs_up` ends each after its answer without saying so before."""

    daemon_threads = True
    hangs_up = False
    connections = ended = 0

    def process_request(self, request: Any, address: Any) -> None:
        self.connections += 1
        super().process_request(request, address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.ended += 1


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


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(f"http://127.0.0.1:{server.server_port}", ssl.create_default_context())


def test_what_the_server_has_ended_is_not_used(server: Server, api: Api) -> None:
    server.hangs_up = True

    def all_have_ended() -> bool:
        return server.ended == server.connections

    for _ in range(20):
        api.get("/")
        eventually(all_have_ended, "the server to hang up")
    assert server.connections == 20


def test_a_connection_that_stands_is_used_again(server: Server, api: Api) -> None:
    for _ in range(3):
        api.get("/")
    assert server.connections == 1


def test_an_error_has_its_code_and_reason_and_no_answer_is_an_os_error(
    server: Server, api: Api
) -> None:
    with pytest.raises(ApiStatusError) as caught:
        api.get("/none")
    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
    nobody = Api("http://127.0.0.1:1", ssl.create_default_context())
    with pytest.raises(OSError, match="GET /: "):
        nobody.get("/")
