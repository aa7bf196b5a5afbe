"""The keys of ``spec.promoteFrom.attestations``: which are used, and what is said of the others."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.unit.signatures.making import entry, key, private_pem, public_pem

from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import SpecError
from copyrator.bundles.evidence.signers import NOTHING_ASKED, Asked
from copyrator.bundles.features.promotion.attesters import Attesters, read_attesters
from copyrator.bundles.features.promotion.fields import AttestationsFrom, EvidenceKeys
from copyrator.bundles.features.signatures.policy import combine_requirements, find_signer
from copyrator.signatures.keys import identify
from copyrator.signatures.model import NotationTrust, SignatureRequirement

NAMES = ("staging", "canary")
REFS = {name: LocalObjectRef(f"{name}-keys", ValuesKind.CONFIG_MAP) for name in NAMES}
MINE = public_pem(key("P-256"))


def read(asked: Asked = NOTHING_ASKED, **files: Mapping[str, bytes] | None) -> Attesters:
    named = [AttestationsFrom(name, EvidenceKeys(REFS[name])) for name in files]
    return read_attesters("team", named, {REFS[name]: one for name, one in files.items()}, asked)


def test_each_environment_has_the_keys_of_its_object() -> None:
    found = read(staging={"a": MINE, "b": public_pem(key("P-384"))}, canary={"a": _other()})

    assert [(one.name, list(one.keys)) for one in found.environments] == [
        ("staging", ["a", "b"]),
        ("canary", ["a"]),
    ]
    assert found.fault == ""
    assert found
    assert found != read(staging={"a": MINE})
    assert read(staging={"a": MINE}) == read(staging={"a": MINE})


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (None, "ConfigMap team/staging-keys doesn't exist: create it"),
        ({}, "ConfigMap team/staging-keys is empty"),
        ({"a": b"junk"}, "ConfigMap team/staging-keys: a has something else than public keys"),
        ({"a": private_pem(key("P-256"))}, "a is a private key: store only the public key"),
        ({"a": public_pem(key("RSA-1024"))}, "a is an RSA key of 1024 bits"),
    ],
)
def test_keys_that_cannot_be_used_are_a_fault_and_the_others_stay(
    files: Mapping[str, bytes] | None, why: str
) -> None:
    found = read(staging=files, canary={"a": MINE})

    assert why in found.fault
    assert [one.name for one in found.environments] == ["canary"]


def test_a_key_in_another_spelling_is_the_same_key() -> None:
    private = key("P-256")
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    spelled = MINE.replace(b"\n", b"\r\n")
    with_comment = b"# staging\n" + MINE
    assert (
        private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) == MINE
    )

    for other in (spelled, with_comment):
        with pytest.raises(SpecError, match="the key a of canary is also a key of staging"):
            read(staging={"a": MINE}, canary={"a": other})
    assert read(staging={"a": MINE, "b": spelled}).fault == ""


def test_a_key_that_is_trusted_for_signatures_is_named() -> None:
    asked = combine_requirements(
        [SignatureRequirement("entry 1 of the signature policy", (entry(key("P-256")),))]
    )

    found = read(asked, staging={"a": MINE})

    assert found.fault == (
        "the keys of staging, ConfigMap team/staging-keys: a is trusted for signatures by entry 1 "
        "of the signature policy; attest with another key"
    )


def test_what_was_read_counts_as_the_same_only_with_the_same_keys_and_faults() -> None:
    """Verdicts on a digest are kept by it."""
    others = [
        read(staging={"a": MINE}),
        read(staging={"a": _other()}),
        read(staging={"a": MINE}, canary=None),
        read(staging={"a": MINE}, canary={"a": b"junk"}),
        read(canary={"a": MINE}),
    ]
    assert len({one.key for one in others}) == len(others)


@pytest.mark.promise
@pytest.mark.parametrize("trusted", ["P-256", "P-384"])
def test_who_attests_with_a_key_that_is_trusted_for_signatures_is_found(trusted: str) -> None:
    pem = public_pem(key("P-256"))
    hint = base64.b64encode(hashlib.sha256(identify("a", pem)).digest()).decode()
    bundle = json.dumps({"verificationMaterial": {"publicKey": {"hint": hint}}}).encode()
    other_kind = NotationTrust(name="a CA", ca=b"", subjects=("*",))
    requirements = [
        SignatureRequirement("entry 1", (entry(key("P-256 second")),)),
        SignatureRequirement("entry 2", (other_kind, entry(key(trusted)))),
    ]

    assert find_signer(bundle, requirements) == ("entry 2" if trusted == "P-256" else None)


def test_there_are_at_most_twenty_keys() -> None:
    twenty = {f"{i}": _other() for i in range(20)}

    assert read(staging=twenty).fault == ""
    assert "has 21 keys; at most 20 are used" in read(staging=twenty, canary={"a": MINE}).fault


def _other() -> bytes:
    return public_pem(ec.generate_private_key(ec.SECP256R1()))
