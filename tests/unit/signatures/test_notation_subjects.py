"""Distinguished names that an entry trusts."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.signatures.notary import (
    ARTIFACT,
    NOW,
    Holder,
    as_signature,
    make_ca,
    make_certificate,
    make_envelope,
    make_trust,
)

from copyrator.signatures.certificates import describe
from copyrator.signatures.model import InvalidSignatureError, TrustError
from copyrator.signatures.notation import check_subject, read_subjects, verify

LEAF = "CN=releases,OU=build,O=Example\\, Inc.,L=Seattle,ST=WA,C=US"


def accepts(subject: str, wanted: str) -> bool:
    certificate = make_certificate(subject, make_ca()).certificate
    try:
        check_subject(certificate, read_subjects([wanted]))
    except InvalidSignatureError:
        return False
    return True


@pytest.mark.parametrize(
    "wanted",
    [
        LEAF,
        "C=US,ST=WA,O=Example\\, Inc.",
        "C=US, ST=WA, O=Example\\, Inc., CN=releases",
        "x509.subject: C=US, ST=WA, O=Example\\, Inc.",
        "x509.subject:C=US,S=WA,O=Example\\2C Inc.",
        " C = US , ST = WA , O = Example\\, Inc. ",
        "OU=build,C=US,2.5.4.8=WA,O=Example\\, Inc.",
    ],
)
def test_a_subject_with_the_named_attributes_is_accepted(wanted: str) -> None:
    assert accepts(LEAF, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        "C=US,ST=WA,O=Example\\, Inc",
        "C=US,ST=WA,O=Example\\, Inc.\\ ",
        "C=US,ST=WA,O=Example\\,  Inc.",
        "C=US,ST=WA,O=example\\, inc.",
        "C=US,ST=WA,O=Example\\, Inc.,CN=\u0280eleases",
        "C=US,ST=WA,O=Example\\, Inc.,STREET=1",
        "C=US,ST=WA,O=Example\\, Inc.,OU=releases",
    ],
)
def test_a_subject_that_differs_is_refused(wanted: str) -> None:
    assert not accepts(LEAF, wanted)


@given(data=st.data())
def test_a_subject_that_differs_by_one_character_is_refused(data: st.DataObject) -> None:
    text = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=1, max_size=12)
    value = data.draw(text)
    other = list(value)
    place = data.draw(st.integers(0, len(other) - 1))
    other[place] = data.draw(st.characters(min_codepoint=33, max_codepoint=0x17F))
    escaped = [
        "".join(f"\\{byte:02x}" for byte in name.encode()) for name in (value, "".join(other))
    ]
    leaf, wanted = (f"CN={name},O=x,ST=y,C=US" for name in escaped)
    assert accepts(leaf, leaf)
    assert accepts(leaf, wanted) == (value == "".join(other))


def test_an_attribute_twice_in_the_certificate_is_refused() -> None:
    twice = "OU=build,OU=other,O=x,ST=WA,C=US"
    assert not accepts(twice, "C=US,ST=WA,O=x")
    assert not accepts("OU=build+OU=other,O=x,ST=WA,C=US", "C=US,ST=WA,O=x")
    assert accepts("CN=a+OU=other,O=x,ST=WA,C=US", "C=US,ST=WA,O=x,CN=a")


@pytest.mark.parametrize(
    ("subjects", "reason"),
    [
        ([], "subjects is empty"),
        (["*", LEAF], '"*" beside names'),
        ([""], "is not a distinguished name"),
        (["x509.subject:"], "is not a distinguished name"),
        (["releases"], "which is not one attribute with a text"),
        (["C=US,ST=WA"], "has no O"),
        (["c=US,st=WA,o=x"], "'c=US', which is not one attribute"),
        (["C=US,ST=WA,O="], "'O=', which is not"),
        ([], "'O=', which is not"),
        (["C=US,,ST=WA,O=x"], "is not a distinguished name"),
        (["C=US,ST=WA,O=x\\"], "is not a distinguished name"),
        ([], "'C=USA', which is not"),
        (["C=US,ST=WA,O=#0401"], "'O=#0401', which is not"),
        (["C=US,ST=WA,O=x+CN=y"], "which is not one attribute"),
        ([], "has an attribute twice"),
        (["C=US,ST=WA,S=WA,O=x"], "has an attribute twice"),
        ([], "which is not one attribute"),
        ([LEAF, "O=x"], "subject 'O=x' has no C, ST"),
        (["x" * 5000], "..."),
    ],
)
def test_names_that_are_no_subject_are_refused(subjects: list[str], reason: str) -> None:
    with pytest.raises(TrustError) as raised:
        read_subjects(subjects)
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 500


@given(st.text(max_size=60) | st.text(alphabet="CSTO=,\\+# *x", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(TrustError):
        assert all(len(wanted) >= 3 for wanted in read_subjects([text]))


def test_any_subject_is_accepted_where_the_entry_says_so() -> None:
    assert read_subjects(["*"]) == ()
    signer = make_certificate("CN=anybody", make_ca())
    envelope = as_signature(make_envelope([signer, make_ca()]))
    assert verify(ARTIFACT, envelope, make_trust(subjects=("*",)), NOW) is not None


def with_name(*attributes: tuple[Any, str]) -> Holder:
    """A certificate whose name the library wouldn't make: too long, with control characters."""
    name = x509.Name([x509.NameAttribute(*one, _validate=False) for one in attributes])
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(make_ca().certificate.subject)
    )
    signer = make_ca().key
    certificate = (
        builder.public_key(signer.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW)
        .sign(signer, make_ca().certificate.signature_hash_algorithm)  # type: ignore[arg-type]
    )
    return Holder(certificate, signer)


@pytest.mark.filterwarnings("ignore:Attribute's length")
def test_a_hostile_name_is_one_short_line_in_messages() -> None:
    odd = with_name((NameOID.ORGANIZATION_NAME, "a\nb\x1b[31m\u202e" + "c" * 50)).certificate
    assert str(InvalidSignatureError(describe(odd))) == '"O=a?b?[31m?' + "c" * 50 + '"'
    long = with_name(*[(NameOID.ORGANIZATION_NAME, "c" * 60)] * 9).certificate
    assert len(describe(long)) == 122
    wrong = with_name((NameOID.COUNTRY_NAME, "USA")).certificate
    assert describe(wrong) == '"C=USA"'
    with pytest.raises(InvalidSignatureError, match="none of the trusted subjects"):
        check_subject(wrong, read_subjects([LEAF]))


@pytest.mark.filterwarnings("error:Attribute's length")
def test_a_name_that_cant_be_read_is_refused() -> None:
    with pytest.warns(UserWarning, match="Attribute's length"):
        wrong = with_name((NameOID.COUNTRY_NAME, "USA")).certificate
    assert describe(wrong) == "with an unreadable name"
    with pytest.raises(
        InvalidSignatureError, match=r"^the subject of its certificate can't be read$"
    ):
        check_subject(wrong, read_subjects([LEAF]))


def test_a_certificate_with_an_attribute_twice_has_no_subject_to_compare() -> None:
    names = [(NameOID.ORGANIZATION_NAME, "a"), (NameOID.ORGANIZATION_NAME, "b")]
    with pytest.raises(
        InvalidSignatureError, match=r"^the subject of its certificate has an attribute twice$"
    ):
        check_subject(with_name(*names).certificate, read_subjects([LEAF]))
