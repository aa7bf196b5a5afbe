"""What signatures have to satisfy, from entries and the objects that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.builders.bundles import bundle, parsed
from tests.unit.signatures.making import key, private_pem, public_pem
from tests.unit.signatures.making_keyless import Sigstore
from tests.unit.signatures.notary import make_ca

from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.verify import Cosign, Notation, VerifyEntry, refs_of
from copyrator.bundles.engine.gate import Refused, Waiting
from copyrator.bundles.features.signatures import policy as trust
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.signatures.model import (
    SIGNATURE_KEYS,
    SIGNATURE_ROOT_BYTES,
    CosignIdentity,
    CosignKeys,
    NotationTrust,
    SignatureRequirement,
)

REF = LocalObjectRef("keys", ValuesKind.SECRET)
OTHER = LocalObjectRef("more", ValuesKind.CONFIG_MAP)
PUBLIC = public_pem(key("P-256"))
KEYS = VerifyEntry(cosign=Cosign(REF))
ROOT = make_ca().certificate.public_bytes(Encoding.PEM)


def _identity(root: LocalObjectRef) -> VerifyEntry:
    return VerifyEntry(cosign=Cosign(None, "https://i", ".+@x", root))


def _notation(ca: LocalObjectRef | None, subjects: tuple[str, ...], *more: Any) -> VerifyEntry:
    others = dict(zip(("tsa_from", "signing_authority_from"), more, strict=False))
    return VerifyEntry(notation=Notation(ca_from=ca, subjects=subjects, **others))


def read(
    *entries: VerifyEntry, **contents: Mapping[str, bytes] | None
) -> tuple[SignatureRequirement, tuple[str, ...]]:
    objects = {REF: contents.get("keys"), OTHER: contents.get("more")}
    return trust.read_requirement("spec.verify", "team", entries, objects)


def test_keys_of_an_object_become_an_entry_with_its_name() -> None:
    requirement, faults = read(KEYS, keys={"cosign.pub": PUBLIC})
    assert faults == ()
    assert requirement.name == "spec.verify"
    (entry,) = requirement.entries
    assert isinstance(entry, CosignKeys)
    assert entry.name == "the cosign keys of Secret team/keys"
    assert list(entry.keys) == ["cosign.pub"]


def test_identities_and_certificates() -> None:
    identity = _identity(REF)
    notation = _notation(OTHER, ("*",), OTHER, OTHER)
    trusted = Sigstore().trusted_root()
    requirement, faults = read(
        identity, notation, keys={"trusted_root.json": trusted}, more={"b.crt": ROOT}
    )
    assert faults == ()
    assert requirement.entries == (
        CosignIdentity("the identity .+@x of https://i", "https://i", ".+@x", trusted),
        NotationTrust("the notation certificates of ConfigMap team/more", ROOT, ("*",), ROOT, ROOT),
    )


def test_roots_are_of_all_files_in_the_order_of_their_names() -> None:
    second = make_ca().certificate.public_bytes(Encoding.PEM)
    requirement, _ = read(_notation(OTHER, ("*",)), more={"b.crt": ROOT, "a.crt": second})
    (entry,) = requirement.entries
    assert isinstance(entry, NotationTrust)
    assert (entry.ca, entry.tsa, entry.signing_authorities) == (second + b"\n" + ROOT, b"", b"")


def test_roots_of_the_largest_size_are_used() -> None:
    padded = ROOT + b"\n" * (SIGNATURE_ROOT_BYTES - len(ROOT))
    assert read(_notation(OTHER, ("*",)), more={"ca": padded})[1] == ()
    assert read(_notation(OTHER, ("*",)), more={"ca": padded + b"\n"})[1] == (
        "ConfigMap team/more has 262,145 bytes; at most 262,144 bytes are read",
    )


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "Secret team/keys doesn't exist: create it"),
        ({}, "Secret team/keys is empty"),
        ({"a.pub": b"garbage"}, "Secret team/keys: a.pub"),
        ({"a.key": private_pem(key("P-256"))}, "is a private key"),
    ],
)
def test_an_entry_that_cannot_be_used_is_a_fault_and_others_stay(
    files: Mapping[str, bytes] | None, said: str
) -> None:
    usable = VerifyEntry(cosign=Cosign(OTHER))
    requirement, faults = read(KEYS, usable, keys=files, more={"b.pub": PUBLIC})
    assert [one.name for one in requirement.entries] == ["the cosign keys of ConfigMap team/more"]
    (fault,) = faults
    assert said in fault
    assert "PRIVATE KEY-----\n" not in fault


IDENTITY = _identity(OTHER)
NO_CERTIFICATE = "more has no certificate in PEM"


@pytest.mark.parametrize(
    ("entry", "content", "said"),
    [
        (_notation(OTHER, ("CN=x",)), ROOT, "CN=x"),
        (_notation(OTHER, ("*",)), b"garbage", f"ConfigMap team/more: {NO_CERTIFICATE}"),
        (_notation(OTHER, ("*",), REF), ROOT, "Secret team/keys doesn't exist"),
        (_notation(None, ("*",), None, REF), ROOT, "Secret team/keys doesn't exist"),
        (IDENTITY, b"{}", "ConfigMap team/more: more: the trusted root can't be used"),
        (_identity(REF), b"", "Secret team/keys doesn't exist"),
    ],
)
def test_certificates_and_roots_that_cannot_be_used(
    entry: VerifyEntry, content: bytes, said: str
) -> None:
    requirement, (fault,) = read(entry, more={"ca": content})
    assert requirement.entries == ()
    assert said in fault


def test_what_is_asked_has_a_key_that_changes_with_everything() -> None:
    second = public_pem(key("P-256 second"))
    requirement, _ = read(KEYS, keys={"a.pub": PUBLIC})
    rotated, _ = read(KEYS, keys={"a.pub": second})
    notation, _ = read(_notation(OTHER, ("*",)), more={"ca": ROOT})
    found = [
        trust.combine_requirements([requirement]),
        trust.combine_requirements([rotated]),
        trust.combine_requirements([notation]),
        trust.combine_requirements([requirement, rotated]),
        trust.combine_requirements([requirement], ["a fault"]),
        trust.combine_requirements([requirement], (), Waiting("x", "y")),
        trust.combine_requirements([], (), Refused("x", "y")),
    ]
    assert len({one.key for one in found}) == len(found)
    assert all(found)
    assert trust.combine_requirements([requirement]) == trust.combine_requirements(
        iter([requirement])
    )


ENTRIES = (
    CosignKeys("keys", {"a.pub": b"1", "b.pub": b"2"}),
    CosignKeys("other keys", {"a.pub": b"1", "b.pub": b"2"}),
    CosignKeys("keys", {"a.pub": b"2", "b.pub": b"1"}),
    CosignIdentity("identity", "https://i", ".+@x", b"1"),
    CosignIdentity("identity", "https://j", ".+@x", b"1"),
    CosignIdentity("identity", "https://i", ".+@y", b"1"),
    CosignIdentity("identity", "https://i", ".+@x", b"2"),
    NotationTrust("notation", b"1", ("*",)),
    NotationTrust("notation", b"2", ("*",)),
    NotationTrust("notation", b"1", ("C=US",)),
    NotationTrust("notation", b"1", ("*",), tsa=b"1"),
    NotationTrust("notation", b"1", ("*",), signing_authorities=b"1"),
)


def test_whatever_differs_in_an_entry_differs_in_the_key() -> None:
    keys = {
        trust.combine_requirements([SignatureRequirement("spec.verify", (one,))]).key
        for one in ENTRIES
    }
    assert len(keys) == len(ENTRIES)


def test_the_order_of_the_files_of_keys_does_not_matter() -> None:
    files = {"b.pub": b"2", "a.pub": b"1"}
    one, other = (
        SignatureRequirement("x", (CosignKeys("keys", dict(f)),))
        for f in (files, sorted(files.items()))
    )
    assert trust.combine_requirements([one]).key == trust.combine_requirements([other]).key


def test_without_a_requirement_nothing_is_asked() -> None:
    assert not trust.combine_requirements([])


def test_keys_are_bounded_over_all_entries() -> None:
    most = {f"{number}.pub": PUBLIC for number in range(SIGNATURE_KEYS)}
    requirement, faults = read(KEYS, _notation(OTHER, ("*",)), keys=most, more={"ca": ROOT})
    assert (len(requirement.entries), faults) == (2, ())
    many = {f"{number}.pub": PUBLIC for number in range(11)}
    requirement, (fault,) = read(KEYS, VerifyEntry(cosign=Cosign(OTHER)), keys=many, more=many)
    assert len(requirement.entries) == 1
    assert fault == "spec.verify has 22 public keys; at most 20 are used"


SECRET = {"kind": "Secret", "name": "keys"}
CONFIG_MAP = {"kind": "ConfigMap", "name": "root"}
BY_NAME = {"issuer": "https://i", "subjectPattern": ".+@x", "trustedRootFrom": CONFIG_MAP}


def test_entries_of_each_kind_and_the_objects_that_they_name() -> None:
    entries = [
        {"cosign": {"keysFrom": SECRET}},
        {"cosign": BY_NAME},
        {"notation": {"caFrom": CONFIG_MAP, "subjects": ["*"], "tsaFrom": SECRET}},
        {"notation": {"signingAuthorityFrom": SECRET, "subjects": ["C=US, ST=WA, O=x"]}},
    ]
    keys, root = (
        LocalObjectRef("keys", ValuesKind.SECRET),
        LocalObjectRef("root", ValuesKind.CONFIG_MAP),
    )
    found = parsed(bundle(verify={"anyOf": entries}))
    by_authority = Notation(subjects=("C=US, ST=WA, O=x",), signing_authority_from=keys)
    signers = (
        VerifyEntry(cosign=Cosign(keys)),
        VerifyEntry(cosign=Cosign(None, "https://i", ".+@x", root)),
        VerifyEntry(notation=Notation(ca_from=root, subjects=("*",), tsa_from=keys)),
        VerifyEntry(notation=by_authority),
    )
    assert found.part(SignaturesSpec) == SignaturesSpec(signers)
    assert refs_of(signers) == (keys, root)


def test_without_it_no_signature_is_asked_for() -> None:
    assert parsed(bundle()).find(SignaturesSpec) is None
