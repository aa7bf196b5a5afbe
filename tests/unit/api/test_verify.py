"""``spec.verify``: what is valid, and which objects it names."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.verify import Cosign, Notation, SignaturesSpec, VerifyEntry, refs_of

KEYS = {"kind": "Secret", "name": "keys"}
ROOT = {"kind": "ConfigMap", "name": "root"}
IDENTITY = {"issuer": "https://i", "subjectPattern": ".+@x", "trustedRootFrom": ROOT}


NOTATION = {"caFrom": ROOT, "subjects": ["*"]}


def parsed(verify: Any) -> BundleSpec | InvalidSpec:
    spec = {"registry": "r", "repo": "a", "verify": verify}
    return parse_bundle({"metadata": {"name": "x", "namespace": "y"}, "spec": spec}, DEFAULTS)


DEFAULTS = BundleDefaults()


def test_entries_of_each_kind_and_the_objects_that_they_name() -> None:
    entries = [
        {"cosign": {"keysFrom": KEYS}},
        {"cosign": IDENTITY},
        {"notation": {"caFrom": ROOT, "subjects": ["*"], "tsaFrom": KEYS}},
        {"notation": {"signingAuthorityFrom": KEYS, "subjects": ["C=US, ST=WA, O=x"]}},
    ]
    keys, root = (
        LocalObjectRef("keys", ValuesKind.SECRET),
        LocalObjectRef("root", ValuesKind.CONFIG_MAP),
    )
    found = parsed({"anyOf": entries})
    assert isinstance(found, BundleSpec)
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
    found = parsed(None)
    assert isinstance(found, BundleSpec)
    assert found.find(SignaturesSpec) is None


@pytest.mark.parametrize(
    ("verify", "said"),
    [
        ({}, "spec.verify.anyOf: is required"),
        ({"anyOf": []}, "spec.verify.anyOf: is required"),
        ({"anyOf": [{}] * 11}, "has 11 entries; at most 10"),
        ({"anyOf": [{}]}, "anyOf[0].cosign: or notation is required"),
        ({"anyOf": [{"cosign": IDENTITY, "notation": NOTATION}]}, "only one of them"),
        ({"anyOf": [{"cosign": {}}]}, "cosign.keysFrom: is required, or issuer"),
        ({"anyOf": [{"cosign": {"keysFrom": {"kind": "Pod", "name": "x"}}}]}, "must be one of"),
        ({"anyOf": [{"cosign": {"keysFrom": {"kind": "Secret"}}}]}, "keysFrom.name: is required"),
        ({"anyOf": [{"cosign": {"keysFrom": KEYS} | IDENTITY}]}, "issuer: must be removed"),
        ({"anyOf": [{"cosign": IDENTITY | {"issuer": "x"}}]}, "isn't the URL of an issuer"),
        ({"anyOf": [{"cosign": IDENTITY | {"subjectPattern": "("}}]}, "regular expression"),
        ({"anyOf": [{"cosign": IDENTITY | {"trustedRootFrom": None}}]}, "trustedRootFrom: is req"),
        ({"anyOf": [{"notation": {"caFrom": ROOT}}]}, "notation.subjects: is required"),
        ({"anyOf": [{"notation": {"subjects": ["*"]}}]}, "caFrom: is required, or signingAuth"),
        (
            {"anyOf": [{"notation": {"caFrom": ROOT, "subjects": ["x"] * 21}}]},
            "has 21 items; at most 20",
        ),
        ({"anyOf": [{"notation": {"caFrom": ROOT, "subjects": ["x" * 513]}}]}, "at most 512 char"),
    ],
)
def test_what_is_not_valid_is_named(verify: Any, said: str) -> None:
    found = parsed(verify)
    assert isinstance(found, InvalidSpec)
    assert said in str(found)
