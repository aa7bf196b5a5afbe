"""A registry that wants a password: Basic authentication before the real one, on loopback."""

from __future__ import annotations

import base64
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USER, PASSWORD = "alice", "s3cret-word"
_EXPECTED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_PASSED_ON = ("Content-Type", "Docker-Content-Digest", "Content-Length", "ETag", "Link")


@contextmanager
def private_registry(behind: str) -> Iterator[str]:
    """`host:port` of a registry that is `behind` with a password; reading only."""

    class Guard(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            if self.headers.get("Authorization") != _EXPECTED:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="private"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            upstream = http.client.HTTPConnection(behind, timeout=10)
            accept = {"Accept": self.headers["Accept"]} if self.headers["Accept"] else {}
            upstream.request(self.command, self.path, headers=accept)
            answer = upstream.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for name in _PASSED_ON:
                if answer.headers.get(name):
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            self.wfile.write(body)
            upstream.close()

        do_GET = do_HEAD = _serve  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()
