"""What `attest` shows and withdraws of attestations: who made them, which count, what is due."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from copyrator.cli import cli
from copyrator.cli.bundles.attest import Attestations, _attested, is_due, read_all
from copyrator.cli.core.faults import Fault
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import InvalidResponse
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.attestation import sign_statement
from copyrator.signatures.keys import read_keys
from copyrator.signatures.model import (
    DeployedStatement,
    FoundAttestations,
    Signature,
    SignatureFormat,
)

NOW = datetime.now(UTC).replace(microsecond=0)
DIGEST = "sha256:" + "0a" * 32
OTHER = "sha256:" + "0b" * 32
KEY, STRANGER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
PUBLIC = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
SAID = DeployedStatement(
    digest=DIGEST,
    environment="staging",
    cluster="0b0ea68a-9a52-4a8f-8f2c-54d1a3b8e001",
    namespace="shop",
    release="till",
    revision=7,
    seconds=90_000,
    since=NOW - timedelta(days=2),
    until=NOW - timedelta(days=1),
    issued_at=NOW - timedelta(days=1),
)


def attestation(
    said: DeployedStatement, key: ec.EllipticCurvePrivateKey = KEY, number: int = 0
) -> Signature:
    blob = sign_statement(key, said)
    return Signature(SignatureFormat.SIGSTORE_BUNDLE, f"sha256:{number:064x}", blob, {})


def shown(
    *attestations: Signature, keys: bool = True, max_age: timedelta | None = None
) -> Attestations:
    trusted = read_keys({"staging.pub": PUBLIC}) if keys else {}
    found, refused, others = read_all(DIGEST, FoundAttestations(attestations), trusted)
    said = tuple(found), tuple(refused), others
    return Attestations("r/app:1", DIGEST, *said, keys, NOW, max_age)


def states(found: Attestations) -> list[str]:
    return [found.state_of(one) for one in found.found]


LATER = replace(SAID, issued_at=NOW)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([SAID], ["stands"]),
        ([SAID, LATER], ["stands", "superseded"]),
        ([LATER, SAID], ["stands", "superseded"]),
        ([replace(LATER, withdrawn=True), SAID], ["withdrawn", "superseded"]),
        ([SAID, replace(SAID, withdrawn=True)], ["withdrawn", "superseded"]),
        ([SAID, replace(LATER, release="shop")], ["stands", "stands"]),
        ([SAID, replace(LATER, environment="qa")], ["stands", "stands"]),
        ([SAID, replace(LATER, cluster="another")], ["stands", "stands"]),
        ([replace(SAID, issued_at=NOW + timedelta(minutes=11))], ["dated ahead"]),
        ([replace(SAID, issued_at=NOW - timedelta(days=8))], ["too old"]),
    ],
)
def test_of_each_source_the_newest_counts(said, expected):
    some = [attestation(one, number=i) for i, one in enumerate(said)]
    assert states(shown(*some, max_age=timedelta(days=7))) == expected


def test_what_a_stranger_signs_is_untrusted_and_supersedes_nothing():
    found = shown(attestation(LATER, STRANGER, 1), attestation(SAID, number=2))

    assert states(found) == ["untrusted", "stands"]
    assert [one.key for one in found.found] == [None, "staging.pub"]
    assert not list(found.warnings)


def test_without_keys_all_is_shown_with_a_warning():
    found = shown(attestation(LATER, STRANGER), attestation(SAID), keys=False)

    assert states(found) == ["stands", "superseded"]
    assert "whoever may push" in next(found.warnings)


def test_what_is_no_statement_about_the_digest_is_named_with_the_reason():
    broken = Signature(SignatureFormat.SIGSTORE_BUNDLE, OTHER, b"junk", {})
    found = shown(attestation(replace(SAID, digest=OTHER), number=3), broken)

    assert not found.found
    assert f"of another digest: {OTHER}" in found.refused[0]
    assert found.refused[1].startswith(f"{OTHER}: the bundle")


@pytest.mark.parametrize(
    ("days", "number", "warned"), [(1, 1, True), (2, 1, False), (5, 100, True), (6, 100, False)]
)
def test_a_max_age_that_leaves_no_time_for_a_renewal_is_warned_of(days, number, warned):
    some = [attestation(replace(SAID, revision=i + 1), number=i) for i in range(number)]
    found = shown(*some, max_age=timedelta(days=days))
    assert any("less than twice" in one for one in found.warnings) == warned


@pytest.fixture
def registry(monkeypatch):
    """What the finder finds."""
    found: list[Signature] = []

    async def find(*_: object) -> FoundAttestations:
        if not found:
            raise InvalidResponse("r.example.com doesn't give all attestations: too many")
        return FoundAttestations(tuple(found), 2)

    async def digest(*_: object) -> str:
        return DIGEST

    monkeypatch.setattr(SignatureFinder, "find_attestations", find)
    monkeypatch.setattr(RegistryClient, "digest", digest)
    return found


def invoke(*args: str):
    command = ["attest", "show", "r.example.com/team/app:1", *args]
    return CliRunner().invoke(cli, command, env={"COLUMNS": "200"})


def test_the_command_prints_a_table_or_a_document(registry, tmp_path):
    (tmp_path / "staging.pub").write_bytes(PUBLIC)
    said = replace(SAID, withdrawn=True, reason="it burns")
    registry.append(attestation(said))
    key = ("--key", str(tmp_path / "staging.pub"))

    text = invoke(*key)
    assert text.exit_code == 0, text.output
    for word in ("staging", "shop/till", "25h", "withdrawn", "staging.pub", "it burns"):
        assert word in text.output

    document = json.loads(invoke(*key, "-o", "json").output)
    assert document["kind"] == "AttestationList"
    (item,) = document["items"]
    assert (item["state"], item["seconds"], item["reason"]) == ("withdrawn", 90_000, "it burns")
    assert document["others"] == 2
    assert "Passed over: 2 attestations of other tools or predicate types." in text.output


def test_an_error_of_the_registry_and_keys_that_are_none_end_with_1(registry, tmp_path):
    assert "too many" in invoke().output
    assert invoke().exit_code == 1
    (tmp_path / "junk").write_text("s3cret" * 100)
    result = invoke("--key", str(tmp_path / "junk"))
    assert result.exit_code == 1
    assert "s3cret" not in result.output.replace(str(tmp_path), "")


FORMER, NEW = "sha256:" + "0" * 64, "sha256:" + "1" * 64


def bundle(deployed: str = NEW, **states: str) -> dict[str, Any]:
    """A Bundle that has attested 1.0 and 2.0."""
    records = [
        {"digest": digest, "version": version, "environment": "staging", "state": state}
        for (version, digest), state in zip(
            {"1.0": FORMER, "2.0": NEW}.items(), states.values(), strict=False
        )
    ]
    return {
        "metadata": {"namespace": "team", "name": "shop"},
        "status": {"deployed": {"digest": deployed, "version": "2.0"}, "attest": records},
    }


def test_the_deployed_version_or_the_one_that_is_named() -> None:
    found = bundle(first="Attested", second="Attesting")
    assert _attested(found, None).digest == NEW
    assert _attested(found, "1.0").digest == FORMER
    assert _attested(bundle(first="Attested", second="Withdrawing"), None).digest == NEW


@pytest.mark.parametrize(
    ("body", "version", "said"),
    [
        (bundle(), None, "there is no attestation of the deployed version$"),
        (
            bundle(first="Attested"),
            None,
            "no attestation of the deployed version; of 1.0 there is: add --version",
        ),
        (bundle(first="Attested"), "3.0", "there is no attestation of 3.0; of 1.0 there is"),
        (bundle(first="Withdrawn"), "1.0", "bundle team/shop: 1.0 is withdrawn already"),
        (bundle(first="Attested", second="Withdrawn"), None, "2.0 is withdrawn already"),
    ],
)
def test_what_isnt_attested_cant_be_withdrawn(
    body: dict[str, Any], version: str | None, said: str
) -> None:
    with pytest.raises(Fault, match=said):
        _attested(body, version)


@pytest.mark.parametrize(
    ("attest", "more", "waits"),
    [
        pytest.param({}, {}, True, id="right after a deploy"),
        pytest.param({"after": "0s"}, {}, True, id="nothing has to stand"),
        pytest.param({"after": "24h"}, {}, False, id="it has to stand for a day"),
        pytest.param({}, {"version": "1.0"}, False, id="another version than the deployed one"),
        pytest.param({}, {"version": "2.0"}, True, id="the deployed one by its name"),
        pytest.param({}, {"first": "Attested"}, True, id="only the former version is attested"),
        pytest.param({}, {"second": "Attesting"}, False, id="it is recorded"),
        pytest.param({}, {"fault": "AttestKeyInvalid"}, False, id="it can't be attested"),
        pytest.param({}, {"held": "it burns"}, False, id="it is held"),
        pytest.param(None, {}, False, id="nothing is attested at all"),
    ],
)
def test_a_statement_that_is_about_to_be_made_is_waited_for(
    attest: dict[str, str] | None, more: dict[str, str], waits: bool
) -> None:
    states = {"first": more.get("first", "Withdrawn"), "second": more.get("second", "")}
    body = bundle(**states)
    body["spec"] = {} if attest is None else {"attest": {"environment": "staging", **attest}}
    body["status"]["attest"] = [one for one in body["status"]["attest"] if one["state"]]
    if fault := more.get("fault"):
        body["status"]["conditions"] = [{"type": "Attested", "status": "False", "reason": fault}]
    if held := more.get("held"):
        body["metadata"]["annotations"] = {"operator.werf.dev/hold": held}
    assert is_due(body, more.get("version")) is waits
