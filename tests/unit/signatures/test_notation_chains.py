"""Chains of certificates that don't meet the Notary Project's requirements."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta, timezone
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID as Purposes
from tests.unit.signatures.notary import (
    ARTIFACT,
    DAY,
    NOW,
    SUBJECT,
    Holder,
    as_signature,
    make_ca,
    make_certificate,
    make_chain,
    make_envelope,
    make_headers,
    make_key,
    make_trust,
    resign,
)

from copyrator.signatures.certificates import Purpose, describe, verify_chain
from copyrator.signatures.model import InvalidSignatureError
from copyrator.signatures.notation import verify

MIDDLE = "CN=issuing,O=example.com,ST=WA,C=US"
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.7"), b"\x05\x00")


def refusal(chain: Sequence[Holder], root: Holder | None = None, algorithm: str = "ES256") -> str:
    envelope = make_envelope(chain, headers=make_headers(algorithm))
    with pytest.raises(InvalidSignatureError) as raised:
        verify(ARTIFACT, as_signature(envelope), make_trust(root or make_ca()), NOW)
    return str(raised.value)


def accepts(chain: Sequence[Holder], root: Holder | None = None) -> bool:
    envelope = as_signature(make_envelope(chain))
    return verify(ARTIFACT, envelope, make_trust(root or make_ca()), NOW) is not None


def with_signer(**changes: Any) -> tuple[Holder, ...]:
    return make_certificate(SUBJECT, make_ca(), **changes), make_ca()


def with_middle(**changes: Any) -> tuple[Holder, ...]:
    middle = make_certificate(MIDDLE, make_ca(), **{"ca": True, **changes})
    return make_certificate(SUBJECT, middle), middle, make_ca()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ca": True, "usages": ["digital_signature"]}, "of the signer is a CA"),
        ({"usages": []}, "of the signer has no keyUsage"),
        ({"usage_critical": False}, "has a keyUsage that isn't critical"),
        ({"usages": ["digital_signature", "key_encipherment"]}, "other keyUsage"),
        ({"usages": ["digital_signature", "key_agreement", "encipher_only"]}, "other keyUsage"),
        ({"usages": ["digital_signature", "key_cert_sign"]}, "other keyUsage"),
        ({"purposes": [Purposes.CODE_SIGNING, Purposes.CLIENT_AUTH]}, "other than code signing"),
        ({"purposes": [Purposes.ANY_EXTENDED_KEY_USAGE]}, "other than code signing"),
        ({"extensions": [(UNKNOWN, True)]}, "unaccounted-for critical extensions"),
        ({"end": NOW - DAY}, "expired at 2026-02-28"),
        ({"start": NOW + DAY}, "is valid only from 2026-03-02"),
    ],
)
def test_a_signers_certificate_is_for_signing_code(changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(with_signer(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"ca": None},
        {"constraints_critical": False},
        {"purposes": ()},
        {"usages": ["digital_signature", "content_commitment"]},
        {"start": NOW},
        {"end": NOW},
        {"extensions": [(UNKNOWN, False)]},
        {"extensions": [(x509.SubjectAlternativeName([x509.RFC822Name("a@b.example")]), False)]},
    ],
)
def test_a_signers_certificate_may_be_so(changes: dict[str, Any]) -> None:
    assert accepts(with_signer(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ca": False}, "no keyUsage keyCertSign"),
        ({"ca": False, "usages": ["key_cert_sign"]}, "basicConstraints.cA must be asserted"),
        ({"ca": None, "usages": ["key_cert_sign"]}, "missing required extension"),
        ({"constraints_critical": False}, "incorrect criticality"),
        ({"usages": []}, "of a CA has no keyUsage"),
        ({"usages": ["digital_signature"]}, "no keyUsage keyCertSign"),
        ({"usage_critical": False}, "has a keyUsage that isn't critical"),
        ({"end": NOW - DAY}, "expired at 2026-02-28"),
    ],
)
def test_a_ca_of_the_chain_is_one(changes: dict[str, Any], reason: str) -> None:
    assert accepts(with_middle())
    assert reason in refusal(with_middle(**changes))


def test_the_path_length_of_a_ca_is_obeyed() -> None:
    root = make_ca()
    first = make_certificate("CN=first,C=US", root, ca=True, path_length=0)
    second = make_certificate("CN=second,C=US", first, ca=True)
    signer = make_certificate(SUBJECT, second)
    said = refusal([signer, second, first, root])
    assert "path length constraint violated" in said
    assert "encountered" not in said
    first = make_certificate("CN=first,C=US", root, ca=True, path_length=1)
    second = make_certificate("CN=second,C=US", first, ca=True)
    assert accepts([make_certificate(SUBJECT, second), second, first, root])


def test_a_certificate_with_an_extension_twice_is_refused() -> None:
    """The library finds it when extensions are read, with an exception of its own."""
    two = [x509.UnrecognizedExtension(x509.ObjectIdentifier(f"1.2.3.{n}"), b"") for n in (4, 5)]
    signer = make_certificate(SUBJECT, extensions=[(one, False) for one in two])
    assert accepts([signer], signer)
    twice = resign(signer, b"\x06\x03\x2a\x03\x05", b"\x06\x03\x2a\x03\x04")
    assert refusal([twice], twice) == "an extension of a certificate can't be read"
    no_version = signer.der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05", 1)
    envelope = make_envelope([signer])
    envelope["header"]["x5c"] = [base64.b64encode(no_version).decode()]
    with pytest.raises(InvalidSignatureError, match=r"^a certificate of its chain can't be read$"):
        verify(ARTIFACT, as_signature(envelope), make_trust(signer), NOW)


def test_an_expired_root_is_refused() -> None:
    root = make_certificate("CN=old,C=US", ca=True, end=NOW - DAY)
    chain = [make_certificate(SUBJECT, root), root]
    assert 'certificate "CN=old,C=US" expired' in refusal(chain, root)


def test_the_chain_is_whole_in_order_and_without_others() -> None:
    signer, middle, root = make_chain()
    other = make_certificate("CN=unrelated,C=US", root, ca=True)
    ends = f"its chain ends at {describe(middle.certificate)}, which is none of the trusted roots"
    assert refusal([signer, middle]) == ends
    said = refusal([signer, root])
    assert said.startswith(f"the chain of {describe(signer.certificate)} is not valid: ")
    assert "encountered" not in said
    disordered = refusal([signer, middle, other, root])
    assert disordered == "its chain is not in order, from the signer's certificate to the root"
    assert "none of the trusted roots" in refusal([signer, root, middle])
    assert (
        refusal([signer, middle, root, root]) == "its chain has two certificates of the same name"
    )
    first = make_certificate("CN=first,C=US", root, ca=True)
    second = make_certificate("CN=second,C=US", first, ca=True)
    assert "not in order" in refusal([make_certificate(SUBJECT, second), first, second, root])


def test_an_intermediate_ca_isnt_trusted_as_a_root() -> None:
    signer, middle, root = make_chain()
    envelope = as_signature(make_envelope([signer, middle]))
    with pytest.raises(InvalidSignatureError, match="none of the trusted roots"):
        verify(ARTIFACT, envelope, make_trust(middle, root), NOW)


UNSUPPORTED = "its signer has a key that is not of RSA 2048, 3072, 4096, P-256, P-384, P-521"


@pytest.mark.parametrize(
    ("kind", "algorithm", "reason"),
    [
        ("RSA-1024", "PS256", UNSUPPORTED),
        ("K-256", "ES256", UNSUPPORTED),
        (
            "Ed25519",
            "ES256",
            "its signer has a key that is neither RSA nor elliptic curve",
        ),
    ],
)
def test_a_signer_with_a_weak_key_is_refused(kind: str, algorithm: str, reason: str) -> None:
    chain = with_signer(key=make_key(kind))
    assert refusal(chain, algorithm=algorithm) == reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (make_key("RSA-1024"), f'certificate "{MIDDLE}" has an RSA key of 1024 bits'),
        (make_key("P-224"), "neither RSA nor of P-256"),
        (make_key("Ed25519"), "is not signed with SHA-256"),
    ],
)
def test_a_ca_with_a_weak_key_is_refused(key: Any, reason: str) -> None:
    chain = with_middle(key=key)
    assert reason in refusal(chain)


def test_the_moment_may_be_in_any_time_zone() -> None:
    signer, middle, root = make_chain()
    chain = [holder.certificate for holder in (signer, middle, root)]
    zone = timezone(timedelta(hours=14))
    verify_chain(chain, chain[2:], Purpose.CODE_SIGNING, NOW.astimezone(zone))
