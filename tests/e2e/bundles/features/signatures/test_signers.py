"""Bundles signed with notation, and keyless with cosign: deployed where the entry accepts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.e2e.bundles.conftest import Team
from tests.unit.signatures.making import statement
from tests.unit.signatures.making_keyless import ISSUER, Sigstore
from tests.unit.signatures.notary import make_certificate, make_envelope, make_payload

from copyrator.cli import cli
from copyrator.signatures.model import Artifact
from localcluster.bundle import MANIFEST_TYPE, Target
from localcluster.signing import BUNDLE_TYPE, refer

pytestmark = pytest.mark.usefixtures("operator")

COMPANY = "O=example.com,ST=WA,C=US"
NAME = f"CN=releases,{COMPANY}"
PATTERN = r"https://git\.example/team/app/.*"


@dataclass(frozen=True)
class Signer:
    """Somebody who signs, and how that is trusted.

    Attributes:
        files: what the entry refers to, by the file's name.
        entry: of ``spec.verify.anyOf``.
        options: the same for the command `verify`, without the files' directory.
        signature: blob, its media type and the artifact's for an artifact.
    """

    files: dict[str, str]
    entry: dict[str, Any]
    options: tuple[str, ...]
    signature: Callable[[Artifact], tuple[bytes, str, str]]


def notation(name: str) -> Signer:
    now = datetime.now(UTC)
    dates = {"start": now - timedelta(days=1), "end": now + timedelta(days=1)}
    ca = make_certificate(f"CN=root,{COMPANY}", ca=True, **dates)
    chain = (make_certificate(name, ca, **dates), ca)

    def sign(artifact: Artifact) -> tuple[bytes, str, str]:
        envelope = json.dumps(make_envelope(chain, payload=make_payload(artifact))).encode()
        return envelope, "application/jose+json", "application/vnd.cncf.notary.signature"

    return Signer(
        {"ca.crt": ca.pem.decode()},
        {"notation": {"caFrom": {"kind": "ConfigMap", "name": "trust"}, "subjects": [NAME]}},
        ("--subject", NAME, "--notation-ca", "ca.crt"),
        sign,
    )


def keyless(issuer: str) -> Signer:
    sigstore = Sigstore()

    def sign(artifact: Artifact) -> tuple[bytes, str, str]:
        bundle = sigstore.bundle(statement(artifact), issuer=issuer)
        return json.dumps(bundle).encode(), BUNDLE_TYPE, BUNDLE_TYPE

    root = {"kind": "ConfigMap", "name": "trust"}
    identity = {"issuer": ISSUER, "subjectPattern": PATTERN, "trustedRootFrom": root}
    options = ("--issuer", ISSUER, "--subject-pattern", PATTERN)
    return Signer(
        {"trusted_root.json": sigstore.trusted_root().decode()},
        {"cosign": identity},
        (*options, "--trusted-root", "trusted_root.json"),
        sign,
    )


@pytest.mark.parametrize(
    ("trusted", "other"),
    [
        (notation(NAME), notation(f"CN=other,{COMPANY}")),
        (keyless(ISSUER), keyless(ISSUER + "/other")),
    ],
    ids=["notation", "keyless"],
)
def test_a_version_is_deployed_when_it_is_signed_by_who_is_trusted(
    team: Team, tmp_path: Path, trusted: Signer, other: Signer
) -> None:
    team.create("configmaps", "trust", data=trusted.files)
    for name, content in trusted.files.items():
        (tmp_path / name).write_text(content)
    digest = team.publish("1.0.0", "first")
    manifest = Target(team.cluster.registry, team.repo).manifest(digest)
    artifact = Artifact(digest, MANIFEST_TYPE, len(manifest))

    def sign(signer: Signer) -> None:
        blob, media_type, artifact_type = signer.signature(artifact)
        registry = team.cluster.registry
        refer(registry, team.repo, digest, blob, media_type, artifact_type=artifact_type)

    def verify() -> tuple[int, dict[str, Any]]:
        reference = f"{team.cluster.registry}/{team.repo}:1.0.0"
        *options, file = trusted.options
        typed = ["verify", reference, "--insecure", *options, str(tmp_path / file), "-o", "json"]
        done = CliRunner().invoke(cli, typed)
        return done.exit_code, json.loads(done.stdout)

    sign(other)
    team.bundle("shop", verify={"anyOf": [trusted.entry]})
    condition = team.wait_reason("shop", "SignatureInvalid")
    code, found = verify()
    assert (code, found["reason"]) == (1, "SignatureInvalid")
    assert found["failures"][0]["reason"] in condition["message"]
    assert team.jobs("shop") == []

    sign(trusted)

    team.wait_deployed("shop", digest)
    assert team.condition("shop", "Verified")["reason"] == "Verified"
    code, found = verify()
    assert (code, found["trusted"], found["signatures"]) == (0, True, 2)
