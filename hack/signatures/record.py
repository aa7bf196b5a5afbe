"""Writes cases with all that their repositories hold: content-addressed blobs and one index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from signatures.material import Case, CosignPolicy, KeylessPolicy, NotationPolicy, Workshop
from signatures.repository import INDEX, Repository
from signatures.verdicts import verdicts

INDEX_FILE = "cases.json"
BLOBS = "blobs"


_KINDS: Mapping[type, str] = {
    CosignPolicy: "cosign",
    NotationPolicy: "notation",
    KeylessPolicy: "keyless",
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
        "repository": repository.name,
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
    if stored.media_type == INDEX:
        for entry in body["manifests"]:
            _manifest(repository, entry["digest"], content, blobs)
        return stored.digest
    for entry in (body["config"], *body.get("layers", [])):
        content.blobs.add(entry["digest"])
        _write(blobs, entry["digest"], repository.blob(entry["digest"]))
    return stored.digest


def _write(blobs: Path, digest: str, content: bytes) -> None:
    (blobs / digest.removeprefix("sha256:")).write_bytes(content)
