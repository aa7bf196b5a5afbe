"""Keyless signatures: by certificates of Fulcio's own CA, with entries of Rekor's own modules."""

from __future__ import annotations

import json
from typing import Any

from localcluster.repository import Repository, Stored
from localcluster.signing import PREDICATE, statement
from signatures.forged_cosign import ATTESTED, attach
from signatures.material import LAYER, KeylessPolicy, Workshop
from signatures.registries import WITH

SUBJECT = "https://git.example.com/app/release.yaml@refs/heads/main"
ISSUER = "https://token.example.com"
EMAIL = "release@example.com"

_OWN = "keyless, own root"
_VARIANTS = {
    "": "a keyless signature",
    "no-sct": "its certificate without a timestamp of a certificate log",
    "foreign-sct": "its certificate in an unknown certificate log",
    "no-proof": "no inclusion proof, only the log's promise",
    "late": "logged after the certificate's end",
    "other-root": "under another root",
}

Json = dict[str, Any]


def policies() -> dict[str, KeylessPolicy]:
    """Who may be trusted."""
    return {
        _OWN: KeylessPolicy("own", ISSUER, SUBJECT.replace(".", r"\.")),
        "keyless, pattern": KeylessPolicy("own", ISSUER, r"https://git\.example\.com/app/.*"),
        "keyless, part of the subject": KeylessPolicy("own", ISSUER, r"git\.example\.com"),
        "keyless, other subject": KeylessPolicy("own", ISSUER, f"{SUBJECT}s"),
        "keyless, other issuer": KeylessPolicy("own", f"{ISSUER}.org", ".*"),
        "keyless, issuer's beginning": KeylessPolicy("own", ISSUER[:-1], ".*"),
        "keyless, other root": KeylessPolicy("other", ISSUER, ".*"),
        "keyless, e-mail": KeylessPolicy("own", ISSUER, EMAIL.replace(".", r"\.")),
    }


def make(shop: Workshop) -> None:
    """All cases; the roots become ``shop.roots``."""
    shop.policies |= policies()
    places: dict[str, tuple[Repository, Stored]] = {}
    requests = []

    def ask(name: str, **more: str) -> None:
        case = f"keyless{name}"
        places[case] = shop.artifact(case, WITH)
        wanted = {"name": case, "subject": SUBJECT, "issuer": ISSUER, "predicate": PREDICATE}
        wanted |= more
        said = statement(places[case][1].digest, wanted.pop("predicate"))
        requests.append({**wanted, "statement": json.dumps(said)})

    for variant in _VARIANTS:
        ask(f"-{variant}" if variant else "", variant=variant)
    ask("-email", subject=EMAIL)
    ask("-attestation", predicate=ATTESTED)
    answer = json.loads(shop.tools.run("keyless", given=json.dumps(requests)))
    shop.roots = {"own": answer["trustedRoot"], "other": answer["otherRoot"]}
    for case, bundle in answer["bundles"].items():
        repository, artifact = places[case]
        attach(repository, artifact, bundle)
        text = _VARIANTS.get(case.removeprefix("keyless").removeprefix("-"), case)
        rows = list(policies()) if case in {"keyless", "keyless-email"} else [_OWN]
        rows += ["keyless, other root"] if case == "keyless-other-root" else []
        shop.add(case, f"Signed by a certificate: {text}.", repository, artifact, rows)
    _forged(shop, answer["bundles"]["keyless"], answer["bundles"]["keyless-email"])


def _forged(shop: Workshop, bundle: Json, other: Json) -> None:
    def material(name: str, value: Any) -> Json:
        return bundle | {"verificationMaterial": bundle["verificationMaterial"] | {name: value}}

    def entry(**changes: Any) -> Json:
        (first,) = bundle["verificationMaterial"]["tlogEntries"]
        return material("tlogEntries", [first | changes])

    (first,) = bundle["verificationMaterial"]["tlogEntries"]
    foreign = other["verificationMaterial"]
    later = str(int(first["integratedTime"]) + 1)
    proof = first["inclusionProof"]
    forged = {
        "no-entry": ("the log's entry left out", material("tlogEntries", [])),
        "foreign-entry": ("another one's entry", material("tlogEntries", foreign["tlogEntries"])),
        "foreign-certificate": (
            "another one's certificate",
            material("certificate", foreign["certificate"]),
        ),
        "other-time": ("the log's time altered", entry(integratedTime=later)),
        "no-promise": ("the log's promise left out", entry(inclusionPromise=None)),
        "other-hashes": ("the proof altered", entry(inclusionProof=proof | {"hashes": []})),
        "no-checkpoint": ("no checkpoint", entry(inclusionProof=proof | {"checkpoint": None})),
    }
    for name, (text, altered) in forged.items():
        case = f"keyless-forged-{name}"
        # The artifact of the signature: what is altered is what proves who signed it.
        repository, artifact = shop.artifact("keyless", WITH)
        repository = Repository(repository.registry, f"cases/{case}", has_referrers=True)
        for blob in (shop.config("keyless", 0), LAYER):
            repository.upload(blob)
        repository.put(artifact.body, "1.0.0")
        attach(repository, artifact, altered)
        shop.add(case, f"A keyless signature with {text}.", repository, artifact, [_OWN])
    repository, artifact = shop.artifact("keyless-copied", WITH)
    attach(repository, artifact, bundle)
    shop.add("keyless-copied", "Of another digest.", repository, artifact, [_OWN])
