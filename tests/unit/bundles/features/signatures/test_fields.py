"""``spec.verify``: what is valid, and which objects it names."""

from __future__ import annotations

from tests.builders.bundles import bundle, parsed

from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.verify import Cosign, Notation, VerifyEntry, refs_of
from copyrator.bundles.features.signatures.fields import SignaturesSpec

KEYS = {"kind": "Secret", "name": "keys"}
ROOT = {"kind": "ConfigMap", "name": "root"}
IDENTITY = {"issuer": "https://i", "subjectPattern": ".+@x", "trustedRootFrom": ROOT}


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
