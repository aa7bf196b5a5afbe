"""Signatures by notation: algorithms, chains, times, formats."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa

from localcluster.repository import Repository, Stored
from localcluster.signing import SigningKey
from signatures.chains import TIME_STAMPING, Holder, authority, leaf
from signatures.material import NotationPolicy, Workshop
from signatures.registries import WITH, WITHOUT

# So long is a certificate valid that is to be expired when the tools are asked.
BRIEF = timedelta(seconds=20)
OWN, OTHER = "own CA, own subject", "other CA"
STAMPED = "own CA, own time stamps"
AUTHORITY = "own CA as a signing authority"
POLICIES = (OWN, OTHER)


def signers() -> dict[str, Holder]:
    """The authorities ``own`` and ``other``, and signers by ``own``."""
    own, other = authority("own"), authority("other")
    between = authority("between", own)

    def rsa_key(size: int) -> SigningKey:
        return rsa.generate_private_key(65537, size)

    holders = {
        "own": own,
        "other": other,
        "es256": leaf("release", own),
        "es384": leaf("release", own, ec.generate_private_key(ec.SECP384R1())),
        "es512": leaf("release", own, ec.generate_private_key(ec.SECP521R1())),
        "ps256": leaf("release", own, rsa_key(2048)),
        "ps384": leaf("release", own, rsa_key(3072)),
        "ps512": leaf("release", own, rsa_key(4096)),
        "intermediate": leaf("release", between),
        "other-ca": leaf("release", other),
        "subject": leaf("releasf", own),
        "brief": leaf("release", own, validity=BRIEF),
    }
    for name in ("own", "other"):
        stamper = authority(f"{name} time stamps")
        holders[f"tsa-{name}"] = leaf(
            "tsa", stamper, rsa_key(2048), purposes=(TIME_STAMPING,), critical=True
        )
    return holders


def make_keys(shop: Workshop) -> dict[str, Holder]:
    """Make the signers, make them known to notation, and make the policies."""
    holders = signers()
    keys = []
    for name, holder in holders.items():
        holder.write(shop.directory, name)
        files = {kind: str(shop.directory / f"{name}.{kind}") for kind in ("key", "crt")}
        keys.append({"name": name, "keyPath": files["key"], "certPath": files["crt"]})
    configuration = shop.directory / "home" / "notation"
    configuration.mkdir(parents=True, exist_ok=True)
    known = json.dumps({"keys": keys})
    (configuration / "signingkeys.json").write_text(known, encoding="utf-8")
    for name in ("own", "other", "tsa-own", "tsa-other"):
        shop.certificates[name] = holders[name].root
    subject = holders["es256"].subject
    shop.policies |= policies(subject)
    return holders


def policies(subject: str) -> dict[str, NotationPolicy]:
    """Who may be trusted, with the signers' subject."""
    own = ("own",)
    return {
        OWN: NotationPolicy(own, (subject,)),
        "own CA, any subject": NotationPolicy(own),
        "own CA, part of the subject": NotationPolicy(own, ("C=US,ST=Washington,O=Example",)),
        "own CA, subject with another letter": NotationPolicy(
            own, (subject.replace("CN=release", "CN=releasE"),)
        ),
        "own CA, subject longer by one": NotationPolicy(
            own, (subject.replace("CN=release", "CN=releases"),)
        ),
        "own CA, two subjects": NotationPolicy(
            own, ("CN=nobody,O=Example,ST=Washington,C=US", subject)
        ),
        OTHER: NotationPolicy(("other",), (subject,)),
        "both CAs": NotationPolicy(("other", "own"), (subject,)),
        STAMPED: NotationPolicy(own, (subject,), ("tsa-own",)),
        AUTHORITY: NotationPolicy(("other",), (subject,), authorities=own),
        "own CA, other time stamps": NotationPolicy(own, (subject,), ("tsa-other",)),
    }


def sign(shop: Workshop, key: str, repository: Repository, artifact: Stored, *more: str) -> None:
    """Sign an artifact and leave the signature in its repository."""
    reference = repository.reference(artifact.digest)
    shop.tools.run("notation", "sign", "--insecure-registry", "--key", key, *more, reference)


def make(shop: Workshop, holders: Mapping[str, Holder]) -> datetime:
    """Make the cases; when those that are to be expired are."""
    _timed(shop, holders)
    expired = datetime.now(UTC) + BRIEF + timedelta(seconds=2)
    # All policies once, then those that matter.
    _signed(shop, "es256", "es256", WITH, rows=policies(""))
    for name in ("es384", "es512", "ps256", "ps384", "ps512", "intermediate"):
        _signed(shop, name, name, WITH)
    _signed(shop, "fallback-tag", "es256", WITHOUT)
    _signed(shop, "other-ca", "other-ca", WITH, rows=(OWN, OTHER, "both CAs"))
    _signed(shop, "subject", "subject", WITH, rows=(OWN, "own CA, any subject"))
    _signed(shop, "metadata", "es256", WITH, "--user-metadata", "build=17")
    _signed(shop, "not-expired", "es256", WITH, "--expiry", "8760h")
    _signed(shop, "cose", "es256", WITH, "--signature-format", "cose")
    repository, artifact = shop.artifact("notation-two", WITH)
    for key in ("other-ca", "es256"):
        sign(shop, key, repository, artifact)
    shop.add("notation-two", "Signed under both CAs.", repository, artifact, POLICIES)
    return expired


def _timed(shop: Workshop, holders: Mapping[str, Holder]) -> None:
    """What is expired when the tools are asked, with and without a time stamp."""
    timed = (OWN, STAMPED, "own CA, other time stamps")
    # First: it is valid so briefly.
    with time_stamper(shop.directory, holders["tsa-own"], "tsa-own") as url:
        stamp = ("--timestamp-url", url, "--timestamp-root-cert", "tsa-own-root.crt")
        pem = shop.certificates["tsa-own"]
        (shop.directory / "tsa-own-root.crt").write_text(pem, encoding="utf-8")
        _signed(shop, "certificate-expired-stamped", "brief", WITH, *stamp, rows=timed)
        _signed(shop, "certificate-expired", "brief", WITH, rows=timed)
        _signed(shop, "stamped", "es256", WITH, *stamp, rows=timed)
        expiry = ("--expiry", "1s")
        _signed(shop, "expired-stamped", "es256", WITH, *stamp, *expiry, rows=timed)
    _signed(shop, "expired", "es256", WITH, *expiry)


def _signed(
    shop: Workshop,
    name: str,
    key: str,
    registry: str,
    *more: str,
    rows: Iterable[str] = POLICIES,
) -> None:
    case = f"notation-{name}"
    repository, artifact = shop.artifact(case, registry)
    sign(shop, key, repository, artifact, *more)
    options = [one for one in more if one.startswith("--")]
    text = " ".join([f"notation signed it as {key}", *options])
    shop.add(case, f"{text}.", repository, artifact, tuple(rows))


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
