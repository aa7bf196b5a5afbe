"""Servers that refuse, and quote what they were told: an admission webhook, and a cluster."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote


@contextmanager
def quoting_webhook(pki: Path) -> Iterator[str]:
    """Its URL. It refuses Secrets and quotes what they hold, encoded and decoded."""

    class Refuse(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            asked = json.loads(self.rfile.read(length))["request"]
            data = asked["object"].get("data") or {}
            quoted = [f"{text} {base64.b64decode(text).decode()}" for text in data.values()]
            status = {"code": 403, "message": f"not with {' or '.join(quoted)}"}
            body = {"uid": asked["uid"], "allowed": False, "status": status}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            answer = json.dumps({**review, "response": body}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with served(Refuse, pki) as url:
        yield f"{url}/"


@contextmanager
def quoting_cluster(pki: Path) -> Iterator[str]:
    """The URL of an API server that quotes the credential in each refusal and in its headers."""

    class Refuse(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            told = self.headers.get("Authorization", "")
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
            answer = json.dumps(status).encode()
            self.send_response(403, f"No {quote(token)}")
            self.send_header("Content-Type", "application/json")
            self.send_header("Warning", f'299 - "{quote(token)}"')
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with served(Refuse, pki) as url:
        yield url


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], pki: Path) -> Iterator[str]:
    """Its URL; it serves with the API server's own certificate."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
