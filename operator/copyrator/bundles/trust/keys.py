"""Reads the keys that specs name for signatures and attestations, only when they changed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import SpecError
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.verify import refs_of
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.gates.evidence import Attesters
from copyrator.bundles.inputs.reader import (
    Known,
    MissingReferenceError,
    ReferenceReader,
    version_of,
)
from copyrator.bundles.inputs.watches import key_refs, verify_ref
from copyrator.bundles.trust.policy import SPEC, Contents, read_attesters, read_requirement
from copyrator.bundles.trust.verdicts import Asked
from copyrator.signatures.model import SignatureRequirement

_SIGNERS: Final = "signers"
_ATTESTERS: Final = "attesters"

_Requirement = tuple[SignatureRequirement, tuple[str, ...]]


class KeyReader:
    """The keys of all Bundles."""

    def __init__(self, context: Context, references: ReferenceReader) -> None:
        self._context = context
        self._references = references

    async def requirement(self, entry: BundleEntry, spec: BundleSpec) -> _Requirement:
        """The requirement of ``spec.verify`` and its faults; reads keys only if they changed."""
        wanted = spec.signers
        refs = key_refs(spec, refs_of(wanted))
        if (known := self._references.recall(entry.key, _SIGNERS, refs, wanted)) is not None:
            return cast("_Requirement", known.value)
        contents, versions = await self._read_keys(spec, refs_of(wanted))
        found = await asyncio.to_thread(read_requirement, SPEC, spec.namespace, wanted, contents)
        self._references.keep(entry.key, _SIGNERS, Known(refs, versions, wanted, found))
        return found

    async def attesters(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        named: Mapping[str, LocalObjectRef],
        asked: Asked,
    ) -> Attesters:
        """The keys of environments, in these objects; reads them only if they changed.

        Raises:
            MissingReferenceError: two environments have the same key.
            ApiError: they can't be read.
        """
        refs, shape = key_refs(spec, tuple(named.values())), (named, asked)
        if (known := self._references.recall(entry.key, _ATTESTERS, refs, shape)) is not None:
            return cast("Attesters", known.value)
        contents, versions = await self._read_keys(spec, tuple(named.values()))
        try:
            found = await asyncio.to_thread(read_attesters, spec.namespace, named, contents, asked)
        except SpecError as error:
            raise MissingReferenceError(str(error), BundleReason.INVALID_SPEC) from None
        self._references.keep(entry.key, _ATTESTERS, Known(refs, versions, shape, found))
        return found

    async def _read_keys(
        self, spec: BundleSpec, wanted: Sequence[LocalObjectRef]
    ) -> tuple[Contents, tuple[str, ...]]:
        """The files of objects with keys or certificates, and the objects' versions."""
        contents: dict[LocalObjectRef, Mapping[str, bytes] | None] = {}
        versions: list[str] = []
        for one in wanted:
            body = await self._references.read(verify_ref(spec.namespace, one))
            contents[one] = files_of(one, body) if body else None
            versions.append(version_of(body))
        return contents, tuple(versions)


def files_of(ref: LocalObjectRef, body: Mapping[str, Any]) -> Mapping[str, bytes]:
    """The files of a ConfigMap or Secret."""
    data: Mapping[str, str] = body.get("data") or {}
    if ref.kind is ValuesKind.CONFIG_MAP:
        return {name: text.encode() for name, text in data.items()}
    return {name: base64.b64decode(text) for name, text in data.items()}
