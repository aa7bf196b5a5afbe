"""Servers that refuse, and quote what they were told: an admission webhook, a cluster, a registry.

The registry says everything: in bodies, headers and redirects.
"""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

Answer = tuple[int, str, dict[str, str], Any]
"""Status, reason, headers, and a body: a text, or what is JSON."""


def review(
    request: BaseHTTPRequestHandler, judge: Callable[[dict[str, Any]], dict[str, Any]]
) -> Answer:
    """What an admission webhook answers, which judges an object."""
    length = int(request.headers["Content-Length"])
    asked = json.loads(request.rfile.read(length))["request"]
    response = {"uid": asked["uid"], **judge(asked["object"])}
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return 200, "OK", {"Content-Type": "application/json"}, {**kind, "response": response}


@contextmanager
def quoting_webhook(pki: Path) -> Iterator[str]:
    """Its URL. It refuses Secrets and quotes what they hold, encoded and decoded."""

    def refuse(request: BaseHTTPRequestHandler) -> Answer:
        def judge(made: dict[str, Any]) -> dict[str, Any]:
            data = made.get("data") or {}
            quoted = [f"{text} {base64.b64decode(text).decode()}" for text in data.values()]
            status = {"code": 403, "message": f"not with {' or '.join(quoted)}"}
            return {"allowed": False, "status": status}

        return review(request, judge)

    with served(refuse, pki) as at:
        yield f"https://{at}/"


@contextmanager
def quoting_cluster(pki: Path) -> Iterator[str]:
    """The URL of an API server that quotes the credential in each refusal and in its headers."""

    def refuse(request: BaseHTTPRequestHandler) -> Answer:
        told = request.headers.get("Authorization", "")
        token = told.partition(" ")[2]
        encoded = base64.b64encode(token.encode()).decode()
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Forbidden",
            "code": 403,
            "message": f"not with {told} or {encoded} or {quote(token)}",
        }
        headers = {"Content-Type": "application/json", "Warning": f'299 - "{quote(token)}"'}
        return 403, f"No {quote(token)}", headers, status

    with served(refuse, pki) as at:
        yield f"https://{at}"


@contextmanager
def hostile_registry() -> Iterator[str]:
    """`host:port`. The repository's first part chooses: denies, breaks, moves, tokens, junk."""

    def echo(request: BaseHTTPRequestHandler) -> Answer:
        sent = request.headers.get("Authorization", "")
        told = sent + " " + _decoded(sent)
        kind = request.path.split("/")[2] if request.path.startswith("/v2/") else "token"
        at = request.headers["Host"]
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
        return status, "No", headers, f'{{"errors": [{{"code": "DENIED", "message": "{told}"}}]}}'

    with served(echo) as at:
        yield at


def _decoded(header: str) -> str:
    scheme, _, value = header.partition(" ")
    return base64.b64decode(value).decode() if scheme == "Basic" else ""


@contextmanager
def served(
    answer: Callable[[BaseHTTPRequestHandler], Answer], pki: Path | None = None
) -> Iterator[str]:
    """`host:port`; with the API server's own certificate, if it is said where that is."""

    class Server(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            status, reason, headers, said = answer(self)
            body = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(status, reason)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    if pki is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
