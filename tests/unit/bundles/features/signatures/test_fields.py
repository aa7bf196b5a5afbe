"""``spec.verify``: what is valid, and which objects it names."""

from __future__ import annotations

from typing import Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import InvalidSpec
from copyrator.api.verify import Cosign, Notation, VerifyEntry, refs_of
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle

KEYS = {"kind": "Secret", "name": "keys"}
ROOT = {"kind": "ConfigMap", "name": "root"}
IDENTITY = {"issuer": "https://i", "subjectPattern": ".+@x", "trustedRootFrom": ROOT}


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
