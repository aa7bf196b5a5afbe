"""The calls of the child process that pushes.

Each imports what it needs by itself, so that the operator, which only names them, has neither oras
nor cryptography: 14 and 7 MB.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.schema import read_json
from copyrator.api.text import format_time
from copyrator.oci.push_route import Answer, Route, Upload
from copyrator.signatures.model import (
    ATTESTATION_BYTES,
    DEPLOYED_PREDICATE,
    Artifact,
    DeployedStatement,
    InvalidSignatureError,
    TrustError,
)

IMAGE_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
EMPTY_CONFIG: Final = b"{}"
PREDICATE: Final = "dev.sigstore.bundle.predicateType"
"""Annotation by cosign: the type of the statement in a bundle."""
_EMPTY: Final = "application/vnd.oci.empty.v1+json"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"


def upload(route: Route, what: Upload) -> Answer:
    """Upload blobs and a manifest, also if they are there, up to a refusal."""
    from copyrator.oci import oras_child  # noqa: PLC0415 - only there

    return oras_child.upload(route, what)


def delete(route: Route, path: str, digest: str) -> Answer:
    """Delete a manifest of the repository with this name in the API."""
    from copyrator.oci import oras_child  # noqa: PLC0415 - only there

    return oras_child.delete(route, path, digest)


def sign(
    name: str, content: bytes, password: bytes | None, statement: DeployedStatement
) -> bytes | TrustError:
    """The bundle of a statement, or the error of the key's file."""
    from copyrator.signatures import attestation  # noqa: PLC0415 - only there

    try:
        key = attestation.read_private_key(name, content, password)
    except TrustError as error:
        return error
    return attestation.sign_statement(key, statement)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a bundle is stored."""

    content: bytes
    """Of its manifest."""
    listed: dict[str, Any]
    """The manifest's entry in an index of referrers."""


def lay_out(bundle: bytes, subject: Artifact) -> Layout | str:
    """The manifest by which cosign 3 attaches a bundle, with the statement's date.

    A text: why it isn't a bundle of our statement about this subject.
    """
    from copyrator.signatures.attestation import parse_statement  # noqa: PLC0415 - only there
    from copyrator.signatures.sigstore_bundle import (  # noqa: PLC0415 - only there
        MEDIA_TYPE,
        read_envelope,
    )

    try:
        statement = parse_statement(read_envelope(bundle).payload)
    except InvalidSignatureError as error:
        return str(error)
    if statement.digest != subject.digest or len(bundle) > ATTESTATION_BYTES:
        return f"the statement is about {statement.digest}, or too long"
    found = {
        "artifactType": MEDIA_TYPE,
        "annotations": {
            "dev.sigstore.bundle.content": "dsse-envelope",
            PREDICATE: DEPLOYED_PREDICATE,
            "org.opencontainers.image.created": format_time(statement.issued_at),
        },
    }
    content = _encode(
        {
            "schemaVersion": 2,
            "mediaType": IMAGE_TYPE,
            **found,
            "config": _descriptor(_EMPTY, EMPTY_CONFIG),
            "layers": [_descriptor(MEDIA_TYPE, bundle)],
            "subject": {
                "mediaType": subject.media_type,
                "digest": subject.digest,
                "size": subject.size,
            },
        }
    )
    return Layout(content, _descriptor(IMAGE_TYPE, content) | found)


def replaces_statement(newer: bytes, older: bytes) -> bool:
    """Whether an older statement is of the same source and environment."""
    from copyrator.signatures.attestation import parse_statement  # noqa: PLC0415 - only there
    from copyrator.signatures.sigstore_bundle import read_envelope  # noqa: PLC0415 - only there

    try:
        new, old = (parse_statement(read_envelope(one).payload) for one in (newer, older))
    except InvalidSignatureError:
        return False
    same = (new.environment, new.source) == (old.environment, old.source)
    return same and old.issued_at < new.issued_at


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class EditedIndex:
    """An index of referrers after an edit."""

    content: bytes | None = None
    """None: there is nothing to change."""
    fault: str = ""
    """Why it can't be edited, as the end of a sentence."""


def edit_index(
    body: bytes | None, added: dict[str, Any] | None, removed: str | None, most: int
) -> EditedIndex:
    """Add a descriptor to an index and remove that of a digest; all else stays as it is.

    ``body`` is the index as a registry has it, None where there is none yet. The result may have
    ``most`` bytes.
    """
    index = _read_index(body)
    if index is None:
        return EditedIndex(fault="isn't an index of referrers: delete the tag")
    entries: list[dict[str, Any]] = index["manifests"]
    kept = [one for one in entries if removed is None or one.get("digest") != removed]
    if added is not None and all(one.get("digest") != added["digest"] for one in kept):
        kept.append(added)
    if kept == entries:
        return EditedIndex()
    content = _encode(index | {"mediaType": INDEX_TYPE, "manifests": kept})
    if len(content) > most:
        return EditedIndex(fault=f"has more than {most} bytes: delete referrers")
    return EditedIndex(content)


def _read_index(body: bytes | None) -> dict[str, Any] | None:
    """The whole index, so that nothing of others is lost; None: it isn't one."""
    if body is None:
        return {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": []}
    try:
        index = read_json(body)
    except ValueError:
        return None
    if not isinstance(index, dict) or "manifests" not in index:
        return None
    entries = index["manifests"] or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        return None
    return index | {"manifests": entries}
