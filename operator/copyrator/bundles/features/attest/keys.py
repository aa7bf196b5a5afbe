"""Reads the private key of ``spec.attest``, and the credential that may push."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.structs import replace
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.references import (
    Access,
    Known,
    MissingReferenceError,
    Ref,
    ReferenceReader,
    access_refs,
    read_access,
    read_key,
    version_of,
)
from copyrator.bundles.features.attest.fields import OPERATORS_KEY, AttestSpec
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.kube.resources import SECRETS
from copyrator.oci.statements import PrivateKeyFile
from copyrator.signatures.model import SIGNATURE_KEY_BYTES


@dataclass(frozen=True, slots=True)
class AttestAccess:
    """What signs attestations, and the access to the registry that they are pushed with."""

    key: PrivateKeyFile
    access: Access


class AttestKeyReader:
    """The private keys of all Bundles, none of which is kept."""

    def __init__(self, context: Context, references: ReferenceReader) -> None:
        self._context = context
        self._references = references

    async def access(self, entry: BundleEntry, spec: BundleSpec) -> AttestAccess:
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
            raise MissingReferenceError(text, AttestReason.ATTEST_KEY_INVALID)
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
    return read_key(f"{ref} of spec.attest", name, data, most, AttestReason.ATTEST_KEY_INVALID)
