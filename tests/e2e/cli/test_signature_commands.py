"""Commands about signatures, with a registry and an operator that asks for them."""

import json
import secrets
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from rich.text import Text
from tests.e2e.cli.conftest import ROOT, plainly
from tests.e2e.installation import BUNDLES
from tests.e2e.operator_process import until

from localcluster.bundle import push
from localcluster.signing import attach, new_key, public_key, sign

HELLO = ROOT / "examples" / "charts" / "hello"


class Repository:
    """A repository with versions, of which some are signed, and keys in files."""

    def __init__(self, registry: str, directory: Path) -> None:
        self.registry = registry
        self.name = f"team/signed-{secrets.token_hex(3)}"
        self.ann, self.mallory = new_key(), new_key()
        self.key, self.other = directory / "cosign.pub", directory / "mallory.pub"
        self.key.write_text(public_key(self.ann))
        self.other.write_text(public_key(self.mallory))
        self.digests = {tag: push(HELLO, registry, self.name, tag) for tag in TAGS}
        sign(self.ann, registry, self.name, self.digests["1.0.0"])
        attach(self.ann, registry, self.name, self.digests["1.0.1"])
        sign(self.mallory, registry, self.name, self.digests["1.0.2"])
        copied = self.digests["1.0.0"]
        sign(self.ann, registry, self.name, self.digests["1.0.3"], signed=copied)

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}"


TAGS = ("1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4")


@pytest.fixture(scope="module")
def signed(stage, tmp_path_factory):
    return Repository(stage.cluster.registry, tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("tag", ["1.0.0", "1.0.1"])
def test_verify_names_the_entry_and_the_signature_that_passed(stage, signed, tag):
    digest = signed.digests[tag]
    for reference in (f"{signed}:{tag}", f"{signed}@{digest}", f"{signed}:{tag}@{digest}"):
        said = stage.types(f"verify {reference} --insecure --key {signed.other} --key {signed.key}")
        assert digest in said.splitlines()[0]
        assert f"Trusted: signed by the cosign keys of {signed.key} (signature sha256:" in said
    found = json.loads(stage.types(f"verify {signed}:{tag} --insecure --key {signed.key} -o json"))
    assert (found["reference"], found["digest"]) == (f"{signed}:{tag}", digest)
    assert (found["trusted"], found["reason"]) == (True, "Verified")
    assert found["entry"] == f"the cosign keys of {signed.key}"
    assert found["signature"].startswith("sha256:")
    assert (found["signatures"], found["failures"], found["skipped"]) == (1, [], [])


@pytest.mark.parametrize(
    ("tag", "reason", "why"),
    [
        ("1.0.2", "SignatureInvalid", "the signature is by none of the keys"),
        ("1.0.3", "SignatureInvalid", "another digest"),
        ("1.0.4", "Unsigned", "the registry has no signature of this digest"),
    ],
    ids=["by another key", "copied over", "unsigned"],
)
def test_verify_says_why_a_version_isnt_trusted(stage, signed, tag, reason, why):
    command = f"verify {signed}:{tag} --insecure --key {signed.key}"
    said = stage.types(command, code=1)
    assert f"Not trusted ({reason}): " in said
    assert why in said
    found = json.loads(stage.types(f"{command} -o json", code=1))
    assert (found["trusted"], found["reason"], found["entry"]) == (False, reason, None)
    for failure in found["failures"]:
        assert failure["entry"] == f"the cosign keys of {signed.key}"
        assert f"  {failure['signature']}:\n" in said
        assert f"    {failure['entry']}: {failure['reason']}\n" in said
    assert len(found["failures"]) == found["signatures"] == (0 if reason == "Unsigned" else 1)


def test_verify_says_what_is_missing_and_prints_no_key(stage, signed, tmp_path):
    said = stage.types(f"verify {signed}:9.9.9 --insecure --key {signed.key}", code=1)
    assert said.startswith("Error: ")
    assert "9.9.9" in said
    secret_key = tmp_path / "cosign.key"
    private = signed.ann.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    secret_key.write_text(private)
    said = stage.types(f"verify {signed}:1.0.0 --insecure --key {secret_key}", code=1)
    assert said == f"Error: {secret_key} is a private key: name the public key, cosign.pub\n"
    said = stage.types(f"verify {signed}:1.0.0 --key {signed.key}", code=1)
    assert "(--insecure)" in said


def test_resolve_selects_the_highest_signed_tag_and_names_those_passed_over(stage, signed):
    command = f"resolve {signed} 1.0.* --insecure"
    assert stage.types(command).startswith("1.0.4  sha256:")
    said = stage.types(f"{command} --key {signed.key}")
    assert said.startswith(f"1.0.1  {signed.digests['1.0.1']}\n")
    assert f"Signed by the cosign keys of {signed.key}.\n" in said
    assert [line.split()[:2] for line in said.splitlines()[3:]] == [
        ["1.0.4", "Unsigned"],
        ["1.0.3", "SignatureInvalid"],
        ["1.0.2", "SignatureInvalid"],
    ]
    found = json.loads(stage.types(f"{command} --key {signed.other} -o json"))
    assert (found["tag"], found["signedBy"]) == ("1.0.2", f"the cosign keys of {signed.other}")
    assert [one["tag"] for one in found["rejected"]] == ["1.0.4", "1.0.3"]
    assert "has no signature" in found["rejected"][0]["message"]


def test_resolve_selects_nothing_where_nothing_is_signed(stage, signed):
    command = f"resolve {signed} --insecure --key {signed.key}"
    said = stage.types(f"{command} >=1.0.2", code=1)
    assert "no tag that matches >=1.0.2 has a trusted signature" in said
    assert "the signature is by none of the keys" in said
    found = json.loads(stage.types(f"{command} 1.0.4 -o json", code=1))
    assert (found["tag"], found["digest"], found["signedBy"]) == (None, None, None)
    assert [(one["tag"], one["reason"]) for one in found["rejected"]] == [("1.0.4", "Unsigned")]
    assert found["message"] == f"{signed}:1.0.4 has no trusted signature"


@pytest.mark.parametrize(
    "command",
    ["verify {}:1.0.1 -k", "verify {}:1.0.2 -k", "verify {}:1.0.4 -k", "resolve {} 1.0.* -k"],
)
def test_what_a_command_shows_fits_80_columns_and_nothing_is_cut(
    stage, signed, command, monkeypatch
):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.chdir(signed.key.parent)
    typed = command.replace("-k", f"--insecure --key {signed.key.name}").format(signed)
    output = Text.from_ansi(stage.types(typed, code=None)).plain
    assert output
    assert max(len(line) for line in output.splitlines()) <= 80, output
    assert "…" not in output


def trust(stage, key):
    """Make or replace the ConfigMap with the public key that the Bundle trusts."""
    data = {"cosign.pub": public_key(key)}
    metadata = {"name": "keys", "namespace": stage.apps}
    stage.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


@pytest.fixture
def verified(stage, signed):
    """A Bundle that is deployed, since a key that it trusts signed its version."""
    trust(stage, signed.ann)
    keys_from = {"kind": "ConfigMap", "name": "keys"}
    stage.apply(
        {
            "apiVersion": "operator.werf.dev/v1",
            "kind": "Bundle",
            "metadata": {"name": "signed", "namespace": stage.apps},
            "spec": {
                "registry": signed.registry,
                "repo": signed.name,
                "version": "1.0.*",
                "insecure": True,
                "verify": {"anyOf": [{"cosign": {"keysFrom": keys_from}}]},
            },
        }
    )
    stage.wait_reason(BUNDLES.format(stage.apps), "signed", "Deployed")
    yield f"{stage.apps}/signed"
    stage.cluster.kubectl("delete", "bundle", "signed", "-n", stage.apps, "--timeout=120s")


def test_commands_tell_who_signed_and_what_isnt_trusted_any_more(stage, signed, verified):
    where, by = f"{stage.apps}/keys", f"signed by the cosign keys of ConfigMap {stage.apps}/keys"
    said = plainly(stage.types(f"why {verified}"))
    assert f" signature: refused, Unsigned: {signed.digests['1.0.4']} has no signature" in said
    assert f"The deployed version is trusted: spec.verify: {by}.\n" in said
    assert "rejected 1.0.4: has no signature\n" in said
    assert "rejected 1.0.3: has no signature that is trusted\n" in said
    assert "Signatures: Trusted: " in plainly(stage.types(f"describe bundle {verified}"))
    assert "Untrusted" not in stage.types(f"get bundles -n {stage.apps}")
    doctor = stage.types("doctor", code=None)
    assert "ok   Signatures: " in doctor
    assert "no running version is untrusted" in doctor

    trust(stage, new_key())  # ann's key is withdrawn

    def listed():
        return plainly(stage.types(f"get bundles -n {stage.apps}"))

    until(lambda: ",Untrusted " in listed(), listed)
    assert "1.0.1 stays deployed, but isn't trusted: " in listed()
    said = plainly(stage.types(f"why {verified}"))
    assert "The deployed version isn't trusted (SignatureInvalid) and stays deployed: " in said
    assert where in said
    said = plainly(stage.types(f"describe bundle {verified}"))
    assert "Signatures: NotTrusted (SignatureInvalid): " in said
    doctor = stage.types("doctor", code=1)
    assert "FAIL Signatures: " in doctor
    assert f"1 Bundle runs a version that isn't trusted: {verified}" in doctor
