"""Keyless signatures, against a sigstore made on the spot."""

from __future__ import annotations

import base64
import json
import socket
import sys
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from hypothesis import example, given
from tests.unit.signatures.making import (
    ARTIFACT,
    NOW,
    OTHER,
    bundle,
    bundle_signature,
    key,
    statement,
)
from tests.unit.signatures.making_keyless import ISSUER, SIGNED_AT, SUBJECT, Sigstore
from tests.unit.signatures.mutations import altered_bytes, altered_json

from copyrator.signatures import keyless
from copyrator.signatures.keyless import check_trusted_root, verify
from copyrator.signatures.model import (
    SIGNATURE_ROOT_BYTES,
    CosignIdentity,
    InvalidSignatureError,
    TrustError,
)

SIGSTORE = Sigstore()
ROOT = SIGSTORE.trusted_root()
ENTRY = CosignIdentity("identity", ISSUER, r"https://git\.example/team/app/.*", ROOT)


@cache
def _good() -> bytes:
    return json.dumps(SIGSTORE.bundle()).encode()


def _refusal(document: Any, **entry: Any) -> str:
    with pytest.raises(InvalidSignatureError) as caught:
        verify(ARTIFACT, bundle_signature(document), replace(ENTRY, **entry), NOW)
    return str(caught.value)


def test_a_signature_by_the_identity_is_accepted_without_end() -> None:
    assert verify(ARTIFACT, bundle_signature(_good()), ENTRY, NOW) is None
    exact = replace(ENTRY, subject_pattern=SUBJECT.replace(".", r"\."))
    assert verify(ARTIFACT, bundle_signature(_good()), exact, NOW) is None


def test_the_subject_may_be_an_e_mail_and_the_issuer_in_the_older_extension() -> None:
    made = SIGSTORE.bundle(subject=x509.RFC822Name("dev@team.example"), issuer_v2=False)
    by_mail = replace(ENTRY, subject_pattern=r".*@team\.example")
    assert verify(ARTIFACT, bundle_signature(made), by_mail, NOW) is None
    assert "OIDCIssuer does not match" in _refusal(made, subject_pattern=".*", issuer=ISSUER + "/")


@pytest.mark.parametrize("issuer", [ISSUER + "/", ISSUER[:-1], ISSUER.upper(), "", ".*"])
def test_the_issuer_is_compared_as_a_whole(issuer: str) -> None:
    assert "OIDCIssuerV2 does not match" in _refusal(_good(), issuer=issuer)


@pytest.mark.parametrize(
    "pattern", [SUBJECT[:-1], SUBJECT[1:], SUBJECT + "x", "https://git", "", r"(?i:X).*", "^$"]
)
def test_the_pattern_has_to_match_the_whole_subject(pattern: str) -> None:
    said = _refusal(_good(), subject_pattern=pattern)
    assert said.startswith(f"the subject {SUBJECT[:100]!r}")
    assert "doesn't match" in said


def test_another_kind_of_subject_is_refused() -> None:
    made = SIGSTORE.bundle(subject=x509.DNSName("git.example"))
    said = _refusal(made, subject_pattern=".*")
    assert said == "the certificate doesn't have exactly one subject that is an e-mail or a URI"


@pytest.mark.parametrize("pattern", ["(", "a" * 1000, "(?=a)", "((a{1,900}){1,900})"])
def test_a_pattern_that_cannot_be_used_accepts_nothing(pattern: str) -> None:
    assert _refusal(_good(), subject_pattern=pattern).startswith("subjectPattern can't be used: ")


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("ca_key", "failed to build timestamp certificate chain"),
        ("ct_key", "failed to verify SCT on signing certificate"),
        ("log_key", "invalid log entry"),
        ("leaf_key", None),
    ],
)
def test_each_service_has_to_be_that_of_the_trusted_root(service: str, said: str | None) -> None:
    other = replace(SIGSTORE, **{service: getattr(Sigstore(), service)})
    if said is None:
        assert verify(ARTIFACT, bundle_signature(other.bundle()), ENTRY, NOW) is None
    else:
        assert said in _refusal(other.bundle())


@pytest.mark.parametrize("minutes", [-2, 10])
def test_the_certificate_has_to_be_valid_at_the_time_of_the_log(minutes: int) -> None:
    made = SIGSTORE.bundle(at=SIGNED_AT + timedelta(minutes=minutes))
    assert "failed to build timestamp certificate chain" in _refusal(made)


def test_the_digest_and_the_kind_of_statement_are_bound() -> None:
    assert "is for another digest" in _refusal(SIGSTORE.bundle(statement(OTHER)))
    made = SIGSTORE.bundle(statement(predicateType="https://slsa.dev/provenance/v1"))
    assert "it is an attestation" in _refusal(made)


def _without(name: str) -> dict[str, Any]:
    made = SIGSTORE.bundle()
    del made["verificationMaterial"]["tlogEntries"][0][name]
    return made


def test_what_proves_the_time_may_not_be_missing() -> None:
    made = SIGSTORE.bundle()
    made["verificationMaterial"]["tlogEntries"] = []
    assert "expected exactly one log entry" in _refusal(made)
    assert "inclusion promise or signed timestamp" in _refusal(_without("inclusionPromise"))
    assert "inclusionProof" in _refusal(_without("inclusionProof"))
    assert "not enough sources of verified time" in _refusal(_without("integratedTime"))


def test_other_kinds_of_bundles_are_refused_by_name() -> None:
    of_key = "it is signed with a key, not with a certificate (keyless)"
    assert _refusal(bundle(key("P-256"))) == of_key
    older = SIGSTORE.bundle() | {
        "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1"
    }
    assert "version=0.1' is not supported" in _refusal(older)
    message = SIGSTORE.bundle() | {"messageSignature": {"signature": "AAAA"}}
    assert "message signature, as `cosign sign-blob` makes it" in _refusal(message)


ROOTS = {
    "empty": b"",
    "garbage": b"\xff{",
    "nested": b"[" * 100_000,
    "another document": b"{}",
    "no log": json.dumps(json.loads(ROOT) | {"tlogs": []}).encode(),
    "no CA": json.dumps(json.loads(ROOT) | {"certificateAuthorities": []}).encode(),
    "large": ROOT + b" " * SIGNATURE_ROOT_BYTES,
}


@pytest.mark.parametrize("what", ROOTS)
def test_a_trusted_root_that_cannot_be_used_accepts_nothing(what: str) -> None:
    said = _refusal(_good(), trusted_root=ROOTS[what])
    assert said.startswith("the trusted root ")
    with pytest.raises(TrustError, match=r"^root\.json: the trusted root "):
        check_trusted_root("root.json", ROOTS[what])
    check_trusted_root("root.json", ROOT)


def test_without_the_extra_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    said = _refusal(_good(), trusted_root=ROOT + b" ")
    assert "set image.variant of the chart to keyless or clouds" in said
    assert said.endswith("or install copyrator[keyless]")


def test_no_request_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("network")

    fresh = replace(ENTRY, trusted_root=ROOT + b"\n")
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert verify(ARTIFACT, bundle_signature(_good()), fresh, NOW) is None


def _signed_parts(blob: bytes) -> list[bytes]:
    """What is signed, or what signs: the envelope, the certificate, the log's entry."""
    document = json.loads(blob)
    material, signed = document["verificationMaterial"], document["dsseEnvelope"]
    (entry,) = material["tlogEntries"]
    texts = [
        signed["payload"],
        signed["signatures"][0]["sig"],
        material["certificate"]["rawBytes"],
        entry["canonicalizedBody"],
        entry["inclusionProof"]["rootHash"],
    ]
    return [base64.b64decode(each) for each in texts] + [entry["integratedTime"].encode()]


@given(altered_bytes(_good()) | altered_json(_good()))
@example(_good())
def test_an_altered_bundle_is_accepted_for_the_signed_parts_only(blob: bytes) -> None:
    try:
        verify(ARTIFACT, bundle_signature(blob), ENTRY, NOW)
    except InvalidSignatureError as error:
        said = str(error)
    else:
        assert _signed_parts(blob) == _signed_parts(_good())
        return
    assert len(said) <= 300
    assert said.isprintable()


@given(altered_bytes(ROOT) | altered_json(ROOT))
def test_an_altered_trusted_root_is_refused_or_trusts_no_other(root: bytes) -> None:
    other = Sigstore().bundle()
    with pytest.raises(InvalidSignatureError):
        verify(ARTIFACT, bundle_signature(other), replace(ENTRY, trusted_root=root), NOW)


AUTHORITY = json.loads(ROOT)["certificateAuthorities"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"certificateAuthorities": [AUTHORITY | {"hunter2": 1}]},
            "certificateAuthorities.0: extra forbidden",
        ),
        ({"hunter2": 1}, "the document: extra forbidden"),
        ({"tlogs": "hunter2"}, "tlogs: list type"),
    ],
)
def test_the_fault_of_a_trusted_root_is_its_field_and_kind(change: Any, said: str) -> None:
    with pytest.raises(TrustError) as caught:
        check_trusted_root("root.json", json.dumps(json.loads(ROOT) | change).encode())
    assert str(caught.value) == f"root.json: the trusted root can't be used: {said}"


class _Answers:
    """In place of sigstore-python's verifier."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def verify_dsse(self, *_: Any) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (KeyError(), "keyless verification failed: KeyError"),
        (KeyError("a\n b"), "keyless verification failed: 'a\\n b'"),
        (("text", b""), "the envelope's payload type is not application/vnd.in-toto+json"),
    ],
)
def test_whatever_sigstore_raises_or_returns_is_a_refusal(
    answer: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyless, "_verifier", lambda _: _Answers(answer))
    assert _refusal(_good()) == said
