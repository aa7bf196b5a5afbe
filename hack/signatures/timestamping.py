"""A time stamp authority (RFC 3161) on loopback, by openssl."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from signatures.chains import Holder

_CONFIGURATION = """\
[tsa]
default_tsa = own
[own]
serial = serial
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
signer_digest = sha256
ess_cert_id_alg = sha256
accuracy = secs:1
ordering = no
tsa_name = no
ess_cert_id_chain = no
"""


_REPLY = ("openssl", "ts", "-reply", "-config", "tsa.conf")


@contextmanager
def time_stamper(directory: Path, holder: Holder, name: str) -> Iterator[str]:
    """Serve time stamps of `holder`; the URL.

    Args:
        directory: gets the authority's files.
        holder: its key and chain.
        name: tells the files of several apart.
    """
    holder.write(directory, name)
    (directory / "tsa.conf").write_text(_CONFIGURATION, encoding="utf-8")
    (directory / "serial").write_text("01\n", encoding="utf-8")

    signer = ("-signer", f"{name}.crt", "-inkey", f"{name}.key", "-chain", f"{name}.crt")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = self.rfile.read(int(self.headers["Content-Length"]))
            with tempfile.NamedTemporaryFile(dir=directory) as file:
                file.write(query)
                file.flush()
                reply = subprocess.run(
                    [*_REPLY, "-queryfile", file.name, *signer],
                    cwd=directory,
                    capture_output=True,
                    check=True,
                ).stdout
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            """Nothing: the material is what counts."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
