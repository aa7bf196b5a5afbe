"""Writes cases with all that their repositories hold: content-addressed blobs and one index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from copyrator.signatures.model import DEPLOYED_PREDICATE
from localcluster.bundle import INDEX_TYPE
from localcluster.repository import Repository
from signatures.material import (
    AttestationPolicy,
    Case,
    CosignPolicy,
    KeylessPolicy,
    NotationPolicy,
    Workshop,
)
from signatures.tools import Answer

INDEX_FILE = "cases.json"
BLOBS = "blobs"


_KINDS: Mapping[type, str] = {
    CosignPolicy: "cosign",
    NotationPolicy: "notation",
    KeylessPolicy: "keyless",
    AttestationPolicy: "attestation",
}


@dataclass(slots=True)
class _Content:
    """What one repository holds."""

    tags: dict[str, str] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    blobs: set[str] = field(default_factory=set)


def record(
    shop: Workshop, versions: Mapping[str, str], now: datetime, directory: Path
) -> dict[str, Any]:
    """Write all cases and what the tools say of them.

    Args:
        shop: the cases.
        versions: of the programs, by name.
        now: when the tools are asked; tests judge as of then.
        directory: gets ``cases.json`` and ``blobs/HEX``.

    Returns:
        The content of ``cases.json``.
    """
    blobs = directory / BLOBS
    blobs.mkdir(parents=True, exist_ok=True)
    cases = []
    for case in shop.cases:
        rows = {
            policy: {
                way: {"holds": answer.holds} | ({"error": answer.error} if answer.error else {})
                for way, answer in verdicts(shop, case, policy).items()
            }
            for policy in case.policies
        }
        cases.append(_case(case, blobs) | {"rows": rows})
    used = {policy for case in shop.cases for policy in case.policies}
    index = {
        "about": "Written by `make signatures`: see hack/signatures/README.md.",
        "now": now.isoformat(),
        "versions": dict(sorted(versions.items())),
        "keys": shop.keys,
        "certificates": shop.certificates,
        "roots": shop.roots,
        "policies": {
            name: {
                "kind": _KINDS[type(policy)],
                **asdict(policy),
            }
            for name, policy in shop.policies.items()
            if name in used
        },
        "cases": cases,
    }
    text = json.dumps(index, indent=1, ensure_ascii=False)
    (directory / INDEX_FILE).write_text(f"{text}\n", encoding="utf-8")
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _case(case: Case, blobs: Path) -> dict[str, Any]:
    repository, content = case.repository, _Content()
    for tag in repository.tags():
        content.tags[tag] = _manifest(repository, tag, content, blobs)
    for digest in list(content.manifests):
        for entry in repository.referrers(digest):
            _manifest(repository, entry["digest"], content, blobs)
    api = list(repository.referrers(case.artifact.digest)) if repository.has_referrers else None
    return {
        "name": case.name,
        "text": case.text,
        "repository": repository.repo,
        "digest": case.artifact.digest,
        "tags": content.tags,
        "manifests": content.manifests,
        "blobs": sorted(content.blobs),
        "referrers": api,
    }


def _manifest(repository: Repository, reference: str, content: _Content, blobs: Path) -> str:
    """Record a manifest with all that it names; its digest."""
    stored = repository.get(reference)
    if stored is None:  # named by an index, and gone
        return reference
    if stored.digest in content.manifests:
        return stored.digest
    content.manifests[stored.digest] = stored.media_type
    _write(blobs, stored.digest, stored.content)
    body = stored.body
    if stored.media_type == INDEX_TYPE:
        for entry in body["manifests"]:
            _manifest(repository, entry["digest"], content, blobs)
        return stored.digest
    for entry in (body["config"], *body.get("layers", [])):
        content.blobs.add(entry["digest"])
        _write(blobs, entry["digest"], repository.blob(entry["digest"]))
    return stored.digest


def _write(blobs: Path, digest: str, content: bytes) -> None:
    (blobs / digest.removeprefix("sha256:")).write_bytes(content)


# Each way of asking: by default they expect SHA-256, also of keys that they sign with another.
_TOOLS = ("cosign2", "cosign3")
_HASHES = {"p384": "sha384", "p521": "sha512", "ed25519": "sha512"}
_TRUSTED_ROOT = "trusted_root.json"
_NO_ROOT = {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}


def verdicts(shop: Workshop, case: Case, policy: str) -> dict[str, Answer]:
    """The answer of each tool, and of each with an option that changes it."""
    answers = _asked(shop, case, policy)
    usual = {way: answer for way, answer in answers.items() if " " not in way}
    return {
        way: answer
        for way, answer in answers.items()
        if way in usual or answer.holds != usual[way.partition(" ")[0]].holds
    }


def _asked(shop: Workshop, case: Case, policy: str) -> dict[str, Answer]:
    wanted = shop.policies[policy]
    if isinstance(wanted, CosignPolicy):
        return dict(_cosign(shop, case, wanted))
    if isinstance(wanted, KeylessPolicy):
        return dict(_keyless(shop, case, wanted))
    if isinstance(wanted, AttestationPolicy):
        return dict(_attested(shop, case, wanted))
    ways = ("", "verifyTimestamp=afterCertExpiry") if wanted.tsa else ("",)
    return {f"notation {way}".strip(): _notation(shop, case, policy, wanted, way) for way in ways}


def _cosign(shop: Workshop, case: Case, policy: CosignPolicy) -> Iterator[tuple[str, Answer]]:
    # Without a root, cosign 2 asks the internet for one as soon as it sees a bundle.
    (shop.directory / _TRUSTED_ROOT).write_text(json.dumps(_NO_ROOT), encoding="utf-8")
    reference = case.repository.reference(case.artifact.digest)
    hashes = {_HASHES[key] for key in policy.keys if key in _HASHES}
    options = ("verify", "--insecure-ignore-tlog", f"--trusted-root={_TRUSTED_ROOT}")
    # By default they look at payloads only where there is no bundle.
    ways = ("--new-bundle-format=false", *(f"--signature-digest-algorithm={one}" for one in hashes))
    for tool in _TOOLS:
        yield from _by_keys(shop, (tool, *options), ways, policy.keys, reference)


def _attested(
    shop: Workshop, case: Case, policy: AttestationPolicy
) -> Iterator[tuple[str, Answer]]:
    options = ("verify-attestation", "--insecure-ignore-tlog", f"--type={DEPLOYED_PREDICATE}")
    reference = case.repository.reference(case.artifact.digest)
    ways = ("--signature-digest-algorithm=sha384",)
    yield from _by_keys(shop, ("cosign3", *options), ways, policy.keys, reference)


def _by_keys(
    shop: Workshop, asked: Sequence[str], ways: Sequence[str], keys: Sequence[str], reference: str
) -> Iterator[tuple[str, Answer]]:
    """Ask as it is, and with each option. cosign takes one key: one that holds is enough."""
    for more in ("", *ways):
        words = (*asked, *filter(None, [more]))
        answers = [shop.tools.ask(*words, f"--key={key}.pub", reference) for key in keys]
        answer = next((one for one in answers if one.holds), answers[0])
        yield f"{asked[0]} {more}".strip(), answer


def _keyless(shop: Workshop, case: Case, policy: KeylessPolicy) -> Iterator[tuple[str, Answer]]:
    root = f"{policy.root}.{_TRUSTED_ROOT}"
    (shop.directory / root).write_text(json.dumps(shop.roots[policy.root]), encoding="utf-8")
    options = (
        f"--trusted-root={root}",
        f"--certificate-oidc-issuer={policy.issuer}",
        # cosign looks for a match anywhere in the subject, we match the whole.
        f"--certificate-identity-regexp=^(?:{policy.subject_pattern})$",
    )
    reference = case.repository.reference(case.artifact.digest)
    for tool in _TOOLS:
        yield tool, shop.tools.ask(tool, "verify", *options, reference)


def _notation(shop: Workshop, case: Case, name: str, policy: NotationPolicy, way: str) -> Answer:
    home = f"notation-{list(shop.policies).index(name)}"
    option, _, value = way.partition("=")
    configuration = shop.directory / home / "notation"
    stores = {"ca": policy.ca, "signingAuthority": policy.authorities, "tsa": policy.tsa}
    stores = {store: names for store, names in stores.items() if names}
    for store, names in stores.items():
        directory = configuration / "truststore" / "x509" / store / "recorded"
        directory.mkdir(parents=True, exist_ok=True)
        for certificate in names:
            pem = shop.certificates[certificate]
            (directory / f"{certificate}.pem").write_text(pem, encoding="utf-8")
    identities = [
        "*" if subject == "*" else f"x509.subject: {subject}" for subject in policy.subjects
    ]
    document = {
        "version": "1.0",
        "trustPolicies": [
            {
                "name": "recorded",
                "registryScopes": ["*"],
                "signatureVerification": {"level": "strict"} | ({option: value} if way else {}),
                "trustStores": [f"{store}:recorded" for store in stores],
                "trustedIdentities": identities,
            }
        ],
    }
    (configuration / "trustpolicy.json").write_text(json.dumps(document), encoding="utf-8")
    (configuration / "trustpolicy.json").chmod(0o600)
    reference = case.repository.reference(case.artifact.digest)
    return shop.tools.ask("notation", "verify", "-v", "--insecure-registry", reference, home=home)
