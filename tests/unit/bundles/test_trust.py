"""What signatures have to satisfy, from entries and the objects that they name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.unit.signatures.making import key, private_pem, public_pem
from tests.unit.signatures.making_keyless import Sigstore
from tests.unit.signatures.notary import make_ca

from copyrator.api.bundle_spec import (
    CosignIdentitySpec,
    CosignKeysSpec,
    NotationSpec,
    ObjectRef,
    ValuesKind,
    VerifyEntry,
)
from copyrator.bundles.policy import trust
from copyrator.bundles.policy.gates import Refused, Waiting
from copyrator.settings.limits import SIGNATURE_ROOT_BYTES
from copyrator.signatures.model import CosignIdentity, CosignKeys, NotationTrust, Requirement

ROOT_DIRECTORY = Path(__file__).resolve().parents[3]
REF = ObjectRef(ValuesKind.SECRET, "keys")
OTHER = ObjectRef(ValuesKind.CONFIG_MAP, "more")
PUBLIC = public_pem(key("P-256"))
KEYS = CosignKeysSpec(REF)
ROOT = make_ca().certificate.public_bytes(Encoding.PEM)


def read(
    *entries: VerifyEntry, **contents: Mapping[str, bytes] | None
) -> tuple[Requirement, tuple[str, ...]]:
    objects = {REF: contents.get("keys"), OTHER: contents.get("more")}
    return trust.read_requirement("spec.verify", "team", entries, objects)


def test_keys_of_an_object_become_an_entry_with_its_name() -> None:
    requirement, faults = read(KEYS, keys={"cosign.pub": PUBLIC})
    assert faults == ()
    (entry,) = requirement.entries
    assert isinstance(entry, CosignKeys)
    assert entry.name == "the cosign keys of Secret team/keys"
    assert list(entry.keys) == ["cosign.pub"]


def test_identities_and_certificates() -> None:
    identity = CosignIdentitySpec("https://i", ".+@x", REF)
    notation = NotationSpec(OTHER, ("*",), OTHER, OTHER)
    trusted = Sigstore().trusted_root()
    requirement, faults = read(
        identity, notation, keys={"trusted_root.json": trusted}, more={"b.crt": ROOT}
    )
    assert faults == ()
    assert requirement.entries == (
        CosignIdentity("the identity .+@x of https://i", "https://i", ".+@x", trusted),
        NotationTrust("the notation certificates of ConfigMap team/more", ROOT, ("*",), ROOT, ROOT),
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
    usable = CosignKeysSpec(OTHER)
    requirement, faults = read(KEYS, usable, keys=files, more={"b.pub": PUBLIC})
    assert [one.name for one in requirement.entries] == ["the cosign keys of ConfigMap team/more"]
    (fault,) = faults
    assert said in fault
    assert "PRIVATE KEY-----\n" not in fault


def test_certificates_and_subjects_that_cannot_be_used() -> None:
    for notation, more, said in (
        (NotationSpec(OTHER, ("CN=x",)), {"ca": ROOT}, "CN=x"),
        (NotationSpec(OTHER, ("*",)), {"ca": b"garbage"}, "ConfigMap team/more: "),
        (NotationSpec(OTHER, ("*",)), {"ca": b"x" * (SIGNATURE_ROOT_BYTES + 1)}, "at most"),
        (NotationSpec(OTHER, ("*",), REF), {"ca": ROOT}, "Secret team/keys doesn't"),
    ):
        requirement, (fault,) = read(notation, more=more)
        assert requirement.entries == ()
        assert said in fault


def test_what_is_asked_has_a_key_that_changes_with_everything() -> None:
    second = public_pem(key("P-256 second"))
    requirement, _ = read(KEYS, keys={"a.pub": PUBLIC})
    rotated, _ = read(KEYS, keys={"a.pub": second})
    notation, _ = read(NotationSpec(OTHER, ("*",)), more={"ca": ROOT})
    found = [
        trust.asked([requirement]),
        trust.asked([rotated]),
        trust.asked([notation]),
        trust.asked([requirement, rotated]),
        trust.asked([requirement], ["a fault"]),
        trust.asked([requirement], (), Waiting("x", "y")),
        trust.asked([], (), Refused("x", "y")),
    ]
    assert len({one.key for one in found}) == len(found)
    assert all(found)
    assert trust.asked([requirement]) == trust.asked(iter([requirement]))


def test_without_a_requirement_nothing_is_asked() -> None:
    assert not trust.asked([])


def test_keys_are_bounded_over_all_entries() -> None:
    many = {f"{number}.pub": PUBLIC for number in range(11)}
    requirement, (fault,) = read(KEYS, CosignKeysSpec(OTHER), keys=many, more=many)
    assert len(requirement.entries) == 1
    assert fault == "spec.verify has 22 public keys; at most 20 are used"


def test_an_operator_whose_bundles_ask_for_no_signature_loads_no_cryptography() -> None:
    code = (
        "import sys, copyrator.runtime.app\n"
        "libraries = ('cryptography', 'rfc3161_client', 'sigstore')\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in libraries))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT_DIRECTORY / "operator")},
    )
    assert done.stdout.strip() == "[]"
