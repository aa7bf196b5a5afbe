"""A registry that says everything that it was told: in bodies, headers and redirects."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote


@contextmanager
def hostile_registry() -> Iterator[str]:
    """`host:port`. The repository's first part chooses: denies, breaks, moves, tokens, junk."""

    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            sent = self.headers.get("Authorization", "")
            told = sent + " " + _decoded(sent)
            kind = self.path.split("/")[2] if self.path.startswith("/v2/") else "token"
            status, headers = {
                "denies": (401, {"WWW-Authenticate": 'Basic realm="r"'}),
                "breaks": (500, {}),
                "moves": (307, {"Location": f"http://127.0.0.1:1/?token={quote(told)}"}),
                "tokens": (401, {"WWW-Authenticate": f'Bearer realm="http://{at}/t",service="s"'}),
                "token": (400, {}),
                "junk": (200, {"Docker-Content-Digest": quote(told)}),
            }.get(kind, (404, {}))
            if kind in ("breaks", "moves", "junk") and not sent:
                status, headers = 401, {"WWW-Authenticate": 'Basic realm="r"'}
            body = f'{{"errors": [{{"code": "DENIED", "message": "{told}"}}]}}'.encode()
            self.send_response(status, "No")
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = _serve  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    at = f"127.0.0.1:{server.server_address[1]}"
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield at
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _decoded(header: str) -> str:
    scheme, _, value = header.partition(" ")
    return base64.b64decode(value).decode() if scheme == "Basic" else ""
