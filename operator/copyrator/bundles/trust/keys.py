"""Reads the keys that specs name for signatures and attestations, only when they changed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from copyrator.api import names
from copyrator.api.attest import AttestKey, AttestSpec
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import SpecError
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.promotion import PromotionSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.structs import replace
from copyrator.api.verify import SignaturesSpec, refs_of
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.gates.evidence import NO_ATTESTERS, Attesters
from copyrator.bundles.inputs.reader import (
    Access,
    Known,
    MissingReferenceError,
    ReferenceReader,
    read_access,
    read_key,
    version_of,
)
from copyrator.bundles.inputs.watches import Ref, access_refs, attester_refs, key_refs, verify_ref
from copyrator.bundles.trust.policy import SPEC, Contents, read_attesters, read_requirement
from copyrator.bundles.trust.verdicts import Asked
from copyrator.kube.resources import SECRETS
from copyrator.oci.statements import PrivateKeyFile
from copyrator.signatures.model import SIGNATURE_KEY_BYTES, SignatureRequirement

_SIGNERS: Final = "signers"
_ATTESTERS: Final = "attesters"

_Requirement = tuple[SignatureRequirement, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AttestAccess:
    """What signs attestations, and the access to the registry that they are pushed with."""

    key: PrivateKeyFile
    access: Access


OPERATORS_KEY: Final = AttestKey(names.ATTEST_SECRET, names.ATTEST_KEY, names.ATTEST_PASSWORD)


class KeyReader:
    """The keys of all Bundles."""

    def __init__(self, context: Context, references: ReferenceReader) -> None:
        self._context = context
        self._references = references

    async def requirement(self, entry: BundleEntry, spec: BundleSpec) -> _Requirement:
        """The requirement of ``spec.verify`` and its faults; reads keys only if they changed."""
        wanted = spec.find(SignaturesSpec)
        assert wanted is not None
        refs = key_refs(spec, refs_of(wanted.any_of))
        if (known := self._references.recall(entry.key, _SIGNERS, refs, wanted)) is not None:
            return cast("_Requirement", known.value)
        contents, versions = await self._read_keys(spec, refs_of(wanted.any_of))
        found = await asyncio.to_thread(
            read_requirement, SPEC, spec.namespace, wanted.any_of, contents
        )
        self._references.keep(entry.key, _SIGNERS, Known(refs, versions, wanted, found))
        return found

    async def attesters(self, entry: BundleEntry, spec: BundleSpec, asked: Asked) -> Attesters:
        """The keys of ``spec.promoteFrom.attestations``; reads them only if they changed.

        Raises:
            MissingReferenceError: two environments have the same key.
            ApiError: they can't be read.
        """
        named = spec.part(PromotionSpec).attestations
        if not named:
            return NO_ATTESTERS
        refs, shape = key_refs(spec, attester_refs(spec)), (named, asked)
        if (known := self._references.recall(entry.key, _ATTESTERS, refs, shape)) is not None:
            return cast("Attesters", known.value)
        contents, versions = await self._read_keys(spec, attester_refs(spec))
        try:
            found = await asyncio.to_thread(read_attesters, spec.namespace, named, contents, asked)
        except SpecError as error:
            raise MissingReferenceError(str(error), BundleReason.INVALID_SPEC) from None
        self._references.keep(entry.key, _ATTESTERS, Known(refs, versions, shape, found))
        return found

    async def attest_access(self, entry: BundleEntry, spec: BundleSpec) -> AttestAccess:
        """Read the private key of ``spec.attest``, and the credential that may push.

        Nothing of the key is kept.

        Raises:
            MissingReferenceError: a Secret doesn't exist, or lacks a required key.
            ApiError: one can't be read.
        """
        attest = spec.find(AttestSpec)
        assert attest is not None
        ref = _attest_ref(self._context, spec)
        pushing, credential = spec, self._references.find_credential(spec)
        if attest.auth is not None:
            pushing, credential = replace(spec, auth=attest.auth), None
        bodies: dict[Ref, Mapping[str, Any]] = {}
        versions: dict[Ref, str] = {}
        for one in (ref, *access_refs(pushing)):
            body = await self._references.read(one)
            versions[one], bodies[one] = version_of(body), body or {}
        known = Known(tuple(versions), tuple(versions.values()))  # of the key nothing else is kept
        self._references.keep(entry.key, "attest key", known)
        if missing := [one for one, body in bodies.items() if not body]:
            text = f"{missing[0]} of spec.attest doesn't exist; create it"
            raise MissingReferenceError(text, BundleReason.ATTEST_KEY_INVALID)
        own = {one.name: body for one, body in bodies.items() if one.namespace == spec.namespace}
        key, data = attest.own_key or OPERATORS_KEY, bodies[ref].get("data") or {}
        needs_password = key.password_key and (attest.own_key or key.password_key in data)
        return AttestAccess(
            PrivateKeyFile(
                f"the key {key.key} of {ref}",
                _read_attest_key(ref, key.key, data),
                _read_attest_key(ref, key.password_key or "", data) if needs_password else None,
            ),
            read_access(pushing, own, credential),
        )

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


def _attest_ref(context: Context, spec: BundleSpec) -> Ref:
    """The Secret with the private key: the Bundle's, or the operator's own."""
    attest = spec.find(AttestSpec)
    assert attest is not None
    if attest.own_key is None:
        return Ref(SECRETS, context.settings.namespace, names.ATTEST_SECRET)
    return Ref(SECRETS, spec.namespace, attest.own_key.secret)


def _read_attest_key(ref: Ref, name: str, data: Mapping[str, str]) -> bytes:
    """One file of the Secret with the private key."""
    most = SIGNATURE_KEY_BYTES
    return read_key(f"{ref} of spec.attest", name, data, most, BundleReason.ATTEST_KEY_INVALID)
