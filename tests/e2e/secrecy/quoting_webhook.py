"""An admission webhook that refuses Secrets and quotes what they hold, encoded and decoded."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def quoting_webhook(pki: Path) -> Iterator[str]:
    """Its URL; it serves with the API server's own certificate."""

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

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
