"""Builds the requirements for signatures from ``spec.verify``, the signature policy and keys."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from copyrator.api.bundle_spec import (
    CosignIdentitySpec,
    CosignKeysSpec,
    NotationSpec,
    ObjectRef,
    VerifyEntry,
)
from copyrator.bundles.policy.gates import Verdict
from copyrator.bundles.policy.gates.signature import Asked
from copyrator.bundles.policy.identity import hash_of
from copyrator.settings.limits import SIGNATURE_KEYS, SIGNATURE_ROOT_BYTES
from copyrator.signatures.model import (
    CosignIdentity,
    CosignKeys,
    Entry,
    NotationTrust,
    Requirement,
    TrustError,
)

Contents = Mapping[ObjectRef, Mapping[str, bytes] | None]
"""Files of objects; None for an object that doesn't exist."""

T = TypeVar("T")

SPEC: Final = "spec.verify"


def read_requirement(
    name: str, namespace: str, entries: Sequence[VerifyEntry], contents: Contents
) -> tuple[Requirement, tuple[str, ...]]:
    """The requirement with its usable entries, and the faults of others as sentences.

    Call it in a thread: it loads cryptography and parses keys.
    """
    usable: list[Entry] = []
    faults: list[str] = []
    keys = 0
    for entry in entries:
        try:
            found = _read(entry, namespace, contents)
        except TrustError as error:
            faults.append(str(error))
            continue
        keys += len(found.keys) if isinstance(found, CosignKeys) else 0
        if keys > SIGNATURE_KEYS:
            faults.append(f"{name} has {keys} public keys; at most {SIGNATURE_KEYS} are used")
            break
        usable.append(found)
    return Requirement(name, tuple(usable)), tuple(faults)


def _read(entry: VerifyEntry, namespace: str, contents: Contents) -> Entry:
    match entry:
        case CosignKeysSpec(ref):
            name = f"the cosign keys of {_shown(ref, namespace)}"
            from copyrator.signatures.keys import read_keys  # noqa: PLC0415

            files = _files(ref, namespace, contents)
            return CosignKeys(name, _checked(ref, namespace, lambda: read_keys(files)))
        case CosignIdentitySpec(issuer, pattern, ref):
            from copyrator.signatures.keyless import check_trusted_root  # noqa: PLC0415

            root = _whole(ref, namespace, contents)
            _checked(ref, namespace, lambda: check_trusted_root(ref.name, root))
            return CosignIdentity(f"the identity {pattern} of {issuer}", issuer, pattern, root)
        case NotationSpec():
            from copyrator.signatures.notation import read_subjects  # noqa: PLC0415

            signers = entry.ca_from or entry.signing_authority_from
            assert signers is not None
            read_subjects(entry.subjects)
            return NotationTrust(
                f"the notation certificates of {_shown(signers, namespace)}",
                _roots(entry.ca_from, namespace, contents),
                entry.subjects,
                _roots(entry.tsa_from, namespace, contents),
                _roots(entry.signing_authority_from, namespace, contents),
            )


def _files(ref: ObjectRef, namespace: str, contents: Contents) -> Mapping[str, bytes]:
    files = contents.get(ref)
    if files is None:
        raise TrustError(f"{_shown(ref, namespace)} doesn't exist: create it")
    if not files:
        raise TrustError(f"{_shown(ref, namespace)} is empty: add the keys or certificates")
    return files


def _whole(ref: ObjectRef, namespace: str, contents: Contents) -> bytes:
    """All files of an object, in the order of their names."""
    files = _files(ref, namespace, contents)
    size = sum(map(len, files.values()))
    if size > SIGNATURE_ROOT_BYTES:
        most = f"{SIGNATURE_ROOT_BYTES:,} bytes"
        raise TrustError(f"{_shown(ref, namespace)} has {size:,} bytes; at most {most} are read")
    return b"\n".join(files[name] for name in sorted(files))


def _roots(ref: ObjectRef | None, namespace: str, contents: Contents) -> bytes:
    """Certificates of roots; empty where no object is named."""
    if ref is None:
        return b""
    from copyrator.signatures.notation import read_roots  # noqa: PLC0415

    roots = _whole(ref, namespace, contents)
    _checked(ref, namespace, lambda: read_roots(ref.name, roots))
    return roots


def _checked(ref: ObjectRef, namespace: str, check: Callable[[], T]) -> T:
    try:
        return check()
    except TrustError as error:
        raise TrustError(f"{_shown(ref, namespace)}: {error}") from None


def _shown(ref: ObjectRef, namespace: str) -> str:
    return f"{ref.kind} {namespace}/{ref.name}"


def asked(
    requirements: Iterable[Requirement],
    faults: Sequence[str] = (),
    blocked: Verdict | None = None,
) -> Asked:
    """The requirements for a Bundle's signatures, with the hash that identifies them."""
    wanted = tuple(requirements)
    if not wanted and blocked is None:
        return Asked()
    key = hash_of([_canonical(one) for one in wanted], list(faults), repr(blocked))
    return Asked(key, wanted, tuple(faults), blocked)


def _canonical(requirement: Requirement) -> list[Any]:
    return [requirement.name, [_canonical_entry(entry) for entry in requirement.entries]]


def _canonical_entry(entry: Entry) -> list[Any]:
    match entry:
        case CosignKeys(name, keys):
            return [name, sorted([file, _hash(key)] for file, key in keys.items())]
        case CosignIdentity(name, issuer, pattern, root):
            return [name, issuer, pattern, _hash(root)]
        case NotationTrust(name, ca, subjects, tsa, authorities):
            return [name, _hash(ca), list(subjects), _hash(tsa), _hash(authorities)]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
