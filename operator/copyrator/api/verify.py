"""``spec.verify``, and the same entries in the operator's signature policy: whom to trust."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final

from copyrator.api import syntax
from copyrator.api.bundle_spec import (
    CosignIdentitySpec,
    CosignKeysSpec,
    LocalObjectRef,
    NotationSpec,
    ValuesKind,
    VerifyEntry,
)
from copyrator.api.fields import Fields
from copyrator.api.records import Record
from copyrator.api.tagfilter import FilterError, compile_filter
from copyrator.settings.limits import SIGNATURE_ENTRIES

SIGNATURE_SUBJECTS: Final = 20
"""Subjects of one entry."""

_SUBJECT: Final = syntax.at_most(512)
_ISSUER: Final = syntax.matching(
    r"(?s)https?://.*", "isn't the URL of an issuer; for example https://accounts.google.com", 512
)


def read_entries(parent: Fields) -> tuple[VerifyEntry, ...]:
    """The list ``anyOf``, which has an entry at least.

    Raises:
        SpecError: it isn't valid.
    """
    items = parent.maps("anyOf", SIGNATURE_ENTRIES, "entries")
    if not items:
        parent.fail("anyOf", "is required: name who may sign, or remove the field above it")
    return tuple(map(_entry, items))


def _entry(entry: Fields) -> VerifyEntry:
    named = [name for name in ("cosign", "notation") if entry.has(name)]
    if len(named) != 1:
        entry.fail("cosign", "or notation is required, and only one of them in each entry")
    if named == ["cosign"]:
        return _cosign(entry.sub("cosign"))
    notation = entry.sub("notation")
    if len(notation.items("subjects")) > SIGNATURE_SUBJECTS:
        notation.fail("subjects", f"must have at most {SIGNATURE_SUBJECTS} items")
    if not (subjects := notation.texts("subjects", _SUBJECT)):
        notation.fail("subjects", 'is required; ["*"] accepts every certificate of the CA')
    if not (notation.has("caFrom") or notation.has("signingAuthorityFrom")):
        notation.fail("caFrom", "is required, or signingAuthorityFrom")
    return NotationSpec(
        ca_from=_optional(notation, "caFrom"),
        subjects=subjects,
        tsa_from=_optional(notation, "tsaFrom"),
        signing_authority_from=_optional(notation, "signingAuthorityFrom"),
    )


def _cosign(cosign: Fields) -> VerifyEntry:
    identity = ("issuer", "subjectPattern", "trustedRootFrom")
    if cosign.has("keysFrom"):
        for name in identity:
            if cosign.has(name):
                cosign.fail(name, "must be removed: keysFrom is set; use an entry of its own")
        return CosignKeysSpec(read_object(cosign, "keysFrom"))
    if not any(map(cosign.has, identity)):
        cosign.fail("keysFrom", f"is required, or {', '.join(identity[:2])} and {identity[2]}")
    return CosignIdentitySpec(
        issuer=cosign.required_text("issuer", _ISSUER),
        subject_pattern=cosign.required_text("subjectPattern", _pattern),
        trusted_root_from=read_object(cosign, "trustedRootFrom"),
    )


def _optional(parent: Fields, name: str) -> LocalObjectRef | None:
    return read_object(parent, name) if parent.has(name) else None


def read_object(parent: Fields, name: str) -> LocalObjectRef:
    """The ConfigMap or Secret that a field names.

    Raises:
        SpecError: it isn't valid.
    """
    if not parent.has(name):
        parent.fail(name, "is required: the kind and name of a ConfigMap or Secret")
    ref = parent.sub(name)
    return LocalObjectRef(
        kind=ref.choice("kind", ValuesKind, ValuesKind.CONFIG_MAP),
        name=ref.required_text("name", syntax.object_name),
    )


def _pattern(value: str) -> str | None:
    try:
        compile_filter(value)
    except FilterError as error:
        return f"isn't a valid regular expression: {error}"
    return None


def refs_of(entries: tuple[VerifyEntry, ...]) -> tuple[LocalObjectRef, ...]:
    """The objects that entries name, each once."""
    found: list[LocalObjectRef] = []
    for entry in entries:
        match entry:
            case CosignKeysSpec(ref) | CosignIdentitySpec(trusted_root_from=ref):
                found.append(ref)
            case NotationSpec():
                named = (entry.ca_from, entry.tsa_from, entry.signing_authority_from)
                found += (ref for ref in named if ref is not None)
    return tuple(dict.fromkeys(found))


class Trust(StrEnum):
    """Whether what is deployed satisfies ``spec.verify`` and the operator's signature policy."""

    TRUSTED = "Trusted"
    NOT_TRUSTED = "NotTrusted"
    UNKNOWN = "Unknown"
    """It can't be determined now."""


class Verification(Record, frozen=True):
    """The verdict on the signatures of what is deployed."""

    FIELD: ClassVar[str] = "verification"
    """Whether the signatures of what is deployed satisfy spec.verify and the operator's signature
    policy, where one of them asks for signatures."""

    digest: str | None = None
    """The digest that was judged."""
    verdict: str | None = None
    """Trusted, NotTrusted or Unknown."""
    reason: str | None = None
    """Reason in CamelCase."""
    message: str | None = None
    """By whom it is signed, or why it isn't trusted."""
    policy: str | None = None
    """Hash of all that was asked for, keys included."""
