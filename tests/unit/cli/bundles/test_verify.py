"""What `verify` accepts as a reference and as trust, and what it says of a judgement."""

import asyncio
import os
import secrets
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from tests.unit.signatures.making_keyless import Sigstore
from tests.unit.signatures.notary import make_ca

from copyrator.cli import cli
from copyrator.cli.bundles.registry import SignatureJudge, asked_by
from copyrator.cli.bundles.resolve import _first_passing
from copyrator.cli.bundles.verify import Verified, lines, parse_reference
from copyrator.cli.core.faults import Fault
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import RegistryUnreachable, TagNotFound
from copyrator.oci.exchange import Repository
from copyrator.signatures.model import SIGNATURE_FAILURES, Holds, Judgement, SignatureFailure

DIGEST = "sha256:" + "0a" * 32
OTHER = "sha256:" + "0b" * 32


@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ("r.example.com/team/app:1.0.0", "r.example.com/team/app", "1.0.0"),
        ("localhost:5000/app:v1", "localhost:5000/app", "v1"),
        (f"localhost:5000/team/app@{DIGEST}", "localhost:5000/team/app", DIGEST),
        (f"r.example.com/app:1.0.0@{DIGEST}", "r.example.com/app", DIGEST),
    ],
)
def test_a_reference_has_a_tag_or_a_digest(text, name, wanted):
    assert parse_reference(text) == (name, wanted)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("r.example.com/team/app", "write REGISTRY/REPO:TAG"),
        ("localhost:5000/app", "write REGISTRY/REPO:TAG"),
        ("", "write REGISTRY/REPO:TAG"),
        ("r.example.com/app:", "isn't a valid tag"),
        ("r.example.com/app:1.*", "isn't a valid tag"),
        ("r.example.com/app@sha256:0a", "isn't a valid digest"),
        (f"r.example.com/app@{DIGEST.upper()}", "isn't a valid digest"),
    ],
)
def test_what_has_neither_is_refused(text, said):
    with pytest.raises(Fault, match=said):
        parse_reference(text)


@pytest.fixture
def files(tmp_path):
    """A public key, seven of them, the private key, a file that is none, and an empty one."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "cosign.pub").write_bytes(public)
    (tmp_path / "seven").write_bytes(public * 7)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "cosign.key").write_bytes(private)
    (tmp_path / "junk").write_text(secrets.token_hex(1000))
    (tmp_path / "empty").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("--key nowhere", 2, "does not exist"),
        ("--key {0}/cosign.key", 1, "{0}/cosign.key is a private key: name the public key"),
        ("--key {0}/junk", 1, "{0}/junk has something else than public keys"),
        ("--key {0}/empty", 1, "{0}/empty is empty"),
        ("--tsa {0}/junk", 2, "--notation-ca"),
        ("--notation-ca {0}/junk", 2, "--subject"),
        ("--notation-ca {0}/cosign.key --subject *", 1, "{0}/cosign.key"),
        ("--issuer https://x", 2, "--trusted-root FILE"),
        ("--trusted-root {0}/junk", 2, "--subject-pattern RE2"),
        (
            "--issuer x --subject-pattern .* --trusted-root {0}/junk",
            2,
            "--issuer: 'x' isn't the URL",
        ),
        (
            "--issuer https://x --subject-pattern ( --trusted-root {0}/junk",
            2,
            "--subject-pattern: isn't a valid regular expression",
        ),
        ("--issuer https://x --subject-pattern .* --trusted-root {0}/junk", 1, "{0}/junk: "),
        (
            " ".join(["--key {0}/cosign.pub"] * 11),
            2,
            "11 entries are given; at most 10 are allowed",
        ),
        ("--key {0}/seven --key {0}/seven --key {0}/seven", 2, "21 public keys are given"),
    ],
)
@pytest.mark.parametrize("command", ["verify r.example.com/app:1", "resolve r.example.com/app 1.*"])
def test_trust_that_cant_be_used_is_refused_before_a_registry_is_asked(
    command, options, code, said, files, monkeypatch
):
    monkeypatch.setattr(RegistryClient, "digest", None)
    monkeypatch.setattr(RegistryClient, "tags", None)
    words = [*command.split(), *options.format(files).split()]
    result = CliRunner().invoke(cli, words, env={"COLUMNS": "1000"})
    assert result.exit_code == code, result.output
    assert said.format(files) in result.output
    for name in ("cosign.key", "junk"):
        for line in (files / name).read_text().splitlines():
            assert len(line) < 20 or line.startswith("---") or line[:20] not in result.output


def judged(**fields):
    return list(lines(Verified("r/app:1", DIGEST, fields.pop("reason"), Judgement(**fields))))


def test_a_trusted_version_names_the_entry_the_signature_and_the_end_of_trust():
    until = datetime(2026, 1, 2, 12, tzinfo=UTC)
    held = Holds("the command line", "the cosign keys of a.pub", OTHER, until)
    assert judged(reason="Verified", holds=(held,), signatures=1, skipped=("a: b",)) == [
        f"r/app:1  {DIGEST}",
        f"Trusted: signed by {held.entry}, until 2026-01-02T12:00:00Z (signature {OTHER}).",
        "Not read: a: b",
    ]


def test_the_reasons_against_each_signature_are_below_it():
    failures = (
        SignatureFailure("a", OTHER, "no"),
        SignatureFailure("b", DIGEST, "never"),
        SignatureFailure("b", OTHER, "x"),
    )
    assert judged(reason="SignatureInvalid", failed=("x",), failures=failures, signatures=2) == [
        f"r/app:1  {DIGEST}",
        "Not trusted (SignatureInvalid): 2 signatures found, none accepted:",
        f"  {OTHER}:",
        "    a: no",
        "    b: x",
        f"  {DIGEST}:",
        "    b: never",
    ]
    many = failures[:1] * SIGNATURE_FAILURES
    *_, last = judged(reason="SignatureInvalid", failed=("x",), failures=many, signatures=50)
    assert last == f"  (not more than {SIGNATURE_FAILURES} reasons are shown)"


class Registry:
    """A client whose tags all have a digest, but for some; no signature can be read."""

    def __init__(self, *absent: str) -> None:
        self.absent = absent
        self.asked: list[str] = []

    async def digest(self, repository, tag, credential):
        self.asked.append(tag)
        if tag in self.absent:
            raise TagNotFound(f"{tag} is gone")
        return DIGEST

    async def artifact(self, repository, digest, credential):
        raise RegistryUnreachable("set spec.auth to a Secret")


NO_TRUST = {
    **dict.fromkeys(
        ("notation_ca", "tsa", "signing_authority", "issuer", "subject_pattern", "trusted_root")
    ),
    "subjects": (),
    "keys": (),
}


def test_each_way_to_trust_is_an_entry_of_which_one_is_enough(files):
    (files / "ca.pem").write_bytes(make_ca().pem)
    (files / "root.json").write_bytes(Sigstore().trusted_root())
    asked = asked_by(
        {
            "keys": (files / "cosign.pub", files / "seven"),
            "notation_ca": files / "ca.pem",
            "subjects": ("C=US,ST=WA,O=example.com",),
            "tsa": None,
            "signing_authority": files / "ca.pem",
            "issuer": "https://x",
            "subject_pattern": ".*@example.com",
            "trusted_root": files / "root.json",
        }
    )
    (requirement,) = asked.requirements
    one, seven, notation, identity = requirement.entries
    assert [entry.name for entry in requirement.entries] == [
        f"the cosign keys of {files}/cosign.pub",
        f"the cosign keys of {files}/seven",
        f"the notation certificates of {files}/ca.pem",
        "the identity .*@example.com of https://x",
    ]
    assert (len(one.keys), len(seven.keys)) == (1, 7)
    assert notation.ca == notation.signing_authorities == make_ca().pem
    assert (notation.tsa, notation.subjects) == (b"", ("C=US,ST=WA,O=example.com",))
    assert (identity.issuer, identity.subject_pattern) == ("https://x", ".*@example.com")
    assert identity.trusted_root == (files / "root.json").read_bytes()


def first_passing(registry, tags, files):
    asked = asked_by({**NO_TRUST, "keys": (files / "cosign.pub",)})
    judge = SignatureJudge(registry, Repository("r.example.com", "app"), None, asked)
    return asyncio.run(_first_passing(judge, tags, "1.*", None))


def test_resolve_judges_the_50_highest_tags_and_says_when_it_stops(files):
    tags = [f"1.0.{number}" for number in range(51, 0, -1)]
    registry = Registry("1.0.51")
    found = first_passing(registry, tags, files)
    assert registry.asked == tags[:50]
    assert [one["tag"] for one in found.rejected] == tags[1:50]
    assert "; only the 50 highest were judged, as the operator does" in found.why
    assert found.rejected[0] == {
        "tag": "1.0.50",
        "reason": "VerificationUnavailable",
        "message": "set --auth-file",
    }
    assert "highest were judged" not in first_passing(registry, tags[:50], files).why


def test_a_file_is_read_once_so_that_it_can_be_a_pipe(files, monkeypatch):
    """As in `--key <(kubectl get …)`."""

    async def digest(*_):
        raise RegistryUnreachable("asked")

    monkeypatch.setattr(RegistryClient, "digest", digest)
    for command in ("verify r.example.com/app:1", "resolve r.example.com/app 1"):
        read, write = os.pipe()
        os.write(write, (files / "cosign.pub").read_bytes())
        os.close(write)
        result = CliRunner().invoke(cli, [*command.split(), "--key", f"/dev/fd/{read}"])
        os.close(read)
        assert result.output == "Error: asked\n"


def test_verify_without_trust_names_the_options_that_give_it():
    result = CliRunner().invoke(cli, ["verify", "r.example.com/app:1"], env={"COLUMNS": "1000"})
    assert result.exit_code == 2
    for option in ("--key", "--notation-ca", "--subject", "--issuer", "--trusted-root"):
        assert option in result.output
