"""ConfigMaps and Secrets that Bundles name: watched by name, read only when they changed.

A watch carries metadata only; it tells that there is something new to read. What is read by GET
is the truth, so a watch that is late, forbidden, or one too many only costs time, never
correctness.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api import limits
from copyrator.api.bundle_spec import BundleSpec, ValuesKind, ValuesSource
from copyrator.api.bundle_status import BundleReason
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.bundles.identity import ValuesFiles
from copyrator.bundles.job import Login
from copyrator.bundles.pod import CA_KEY
from copyrator.engine.outcome import Lane
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import CONFIGMAPS, SECRETS, Resource
from copyrator.kube.watchpool import Subscription, WatchSpec
from copyrator.oci.auth import (
    Credential,
    UnusableSecretError,
    credential_from_secret,
    decoded_size,
    is_docker_config,
)
from copyrator.reconcile.bundle_context import Context
from copyrator.reconcile.bundle_values import ValuesReader, ValuesTooLargeError
from copyrator.registry.bundles import BundleEntry


class MissingReferenceError(Exception):
    """Something that the spec names isn't there, or isn't what it should be."""

    def __init__(
        self, message: str, reason: BundleReason = BundleReason.AUTHENTICATION_FAILED
    ) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Ref:
    """One object that a Bundle names."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a metadata-only watch keeps of an object."""

    resource_version: str


def stamp(body: Mapping[str, Any]) -> Stamp:
    """Decode for the watches."""
    return Stamp(body["metadata"].get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class Access:
    """How the registry is spoken to, and how werf's Job logs in."""

    credential: Credential | None = None
    login: Login = Login.NONE
    ca: bytes | None = None


_ANONYMOUS: Final = Access()


@dataclass(frozen=True, slots=True)
class _Known:
    """What was made of the contents, good for exactly these objects at these versions."""

    refs: tuple[Ref, ...]
    versions: tuple[str, ...]
    value: Any


class References:
    """Watches and reads for all Bundles."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._held: dict[BundleKey, dict[Ref, Subscription | None]] = {}
        self._values: dict[BundleKey, _Known] = {}
        self._access: dict[BundleKey, _Known] = {}
        self._watching: Counter[Ref] = Counter()  # how many Bundles share each watch
        self._of_namespace: Counter[str] = Counter()  # watches

    def follow(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Watch exactly what the spec names now."""
        key = entry.key
        wanted = _references(spec)
        if not wanted and key not in self._held:
            return
        held = self._held.setdefault(key, {})
        for ref in [ref for ref in held if ref not in wanted]:
            self._release(ref, held.pop(ref))
        for ref in wanted:
            if held.get(ref) is None and self._may_watch(ref):
                held[ref] = self._acquire(key, ref)
            else:
                held.setdefault(ref, None)

    def forget(self, key: BundleKey) -> None:
        """Let go of everything that is held for a Bundle."""
        for ref, subscription in self._held.pop(key, {}).items():
            self._release(ref, subscription)
        self._values.pop(key, None)
        self._access.pop(key, None)

    def forget_all(self) -> None:
        """Let go of everything."""
        for key in list(self._held):
            self.forget(key)

    async def values_hash(self, entry: BundleEntry, spec: BundleSpec) -> str | None:
        """Hash of the Bundle's values; reads them only if one of them changed.

        Raises:
            MissingReferenceError: a source that isn't optional isn't there.
            ApiError: a source can't be read.
        """
        if not spec.values_from:
            return None
        known = self._values.get(entry.key)
        if known is not None and self._still(entry.key, known, _values_refs(spec)):
            found: str | None = known.value
            return found
        return (await self.values(entry, spec))[0]

    async def values(
        self, entry: BundleEntry, spec: BundleSpec
    ) -> tuple[str | None, tuple[ValuesFiles, ...]]:
        """Read the Bundle's values now, and their hash; raises as ``values_hash``."""
        reader = ValuesReader(entry.uid, spec, self._context.hasher)
        versions: list[str] = []
        for source in spec.values_from:
            # Nothing of one source is kept for the next.
            async with self._context.readers.place(entry.key.namespace):
                body = await self._read_optional(_values_ref(spec, source))
                versions.append(_version(body))
                if body is not None:
                    try:
                        await reader.add(source, body)
                    except ValuesTooLargeError as error:
                        text = f"with {_values_ref(spec, source)} {error}"
                        raise MissingReferenceError(text, BundleReason.VALUES_MISSING) from None
                elif not source.optional:
                    raise MissingReferenceError(
                        f"{_values_ref(spec, source)}, which holds values, doesn't exist; make it, "
                        "or take it out of the spec",
                        BundleReason.VALUES_MISSING,
                    )
        found = reader.hash.result()
        self._values[entry.key] = _Known(_values_refs(spec), tuple(versions), found)
        return found, tuple(reader.files)

    async def access(self, entry: BundleEntry, spec: BundleSpec) -> Access:
        """The registry's credential and CA; reads them only if they changed.

        Raises:
            MissingReferenceError: a Secret isn't there, or lacks what it should hold.
        """
        refs = _access_refs(spec)
        if not refs:
            return _ANONYMOUS
        known = self._access.get(entry.key)
        shape = _shape(spec)
        if known is not None and known.value[0] == shape and self._still(entry.key, known, refs):
            cached: Access = known.value[1]
            return cached
        versions: list[str] = []
        bodies: dict[str, dict[str, Any]] = {}
        for ref in refs:
            if (body := await self._read_optional(ref)) is None:
                field = "spec.auth" if ref.name == spec.auth else "spec.caSecret"
                raise MissingReferenceError(
                    f"{ref} of {field} doesn't exist; make it, or take it out of the spec"
                )
            bodies[ref.name] = body
            versions.append(_version(body))
        found = _read_access(spec, bodies)
        self._access[entry.key] = _Known(refs, tuple(versions), (shape, found))
        return found

    def _may_watch(self, ref: Ref) -> bool:
        """Whether a watch is there already, or there is room for one more."""
        if ref in self._watching:
            return True
        together = len(self._watching) < limits.ALL_REFERENCE_WATCHES
        return together and self._of_namespace[ref.namespace] < limits.REFERENCE_WATCHES

    def _acquire(self, key: BundleKey, ref: Ref) -> Subscription:
        def changed(_name: ObjectName, old: Stamp | None, new: Stamp | None) -> None:
            if old != new:
                self._context.queue.add(key, Lane.URGENT)

        self._watching[ref] += 1
        self._of_namespace[ref.namespace] += self._watching[ref] == 1
        spec = WatchSpec(
            resource=ref.resource,
            namespace=ref.namespace,
            name=ref.name,
            metadata_only=True,
            decode=stamp,
            reserved=True,
        )
        return self._context.watch_pool.acquire(spec, changed)

    def _release(self, ref: Ref, subscription: Subscription | None) -> None:
        if subscription is not None:
            self._watching[ref] -= 1
            if not self._watching[ref]:
                del self._watching[ref]
                self._of_namespace[ref.namespace] -= 1
                if not self._of_namespace[ref.namespace]:
                    del self._of_namespace[ref.namespace]
            subscription.release()

    def _still(self, key: BundleKey, known: _Known, refs: tuple[Ref, ...]) -> bool:
        """Tell whether what was read is certainly what stands there now."""
        if known.refs != refs:
            return False
        held = self._held.get(key, {})
        for ref, version in zip(refs, known.versions, strict=True):
            subscription = held.get(ref)
            if subscription is None or not subscription.synced:
                return False
            seen: Stamp | None = subscription.store.get(ObjectName(ref.namespace, ref.name))
            if (seen.resource_version if seen else "") != version:
                return False
        return True

    async def _read_optional(self, ref: Ref) -> dict[str, Any] | None:
        try:
            return await self._context.client.get(ref.resource, ref.namespace, ref.name)
        except NotFound:
            return None


def _references(spec: BundleSpec) -> set[Ref]:
    return {*_values_refs(spec), *_access_refs(spec)}


def _values_ref(spec: BundleSpec, source: ValuesSource) -> Ref:
    resource = SECRETS if source.kind is ValuesKind.SECRET else CONFIGMAPS
    return Ref(resource, spec.namespace, source.name)


def _values_refs(spec: BundleSpec) -> tuple[Ref, ...]:
    return tuple(_values_ref(spec, source) for source in spec.values_from)


def _access_refs(spec: BundleSpec) -> tuple[Ref, ...]:
    found = [name for name in (spec.auth, spec.ca_secret) if name]
    return tuple(Ref(SECRETS, spec.namespace, name) for name in dict.fromkeys(found))


def _version(body: Mapping[str, Any] | None) -> str:
    return str(body["metadata"].get("resourceVersion", "")) if body else ""


def _shape(spec: BundleSpec) -> str:
    """What else decides how the Secrets are read."""
    return f"{spec.registry} {spec.auth} {spec.ca_secret}"


def _read_access(spec: BundleSpec, bodies: Mapping[str, Mapping[str, Any]]) -> Access:
    credential, login, ca = None, Login.NONE, None
    if spec.auth:
        secret = bodies[spec.auth]
        try:
            credential = credential_from_secret(secret, spec.registry)
        except UnusableSecretError as error:
            text = f"Secret {spec.namespace}/{spec.auth} of spec.auth {error}"
            raise MissingReferenceError(text) from None
        login = Login.DOCKER_CONFIG if is_docker_config(secret) else Login.PASSWORD
    if spec.ca_secret:
        where = f"Secret {spec.namespace}/{spec.ca_secret} of spec.caSecret"
        try:
            encoded = (bodies[spec.ca_secret].get("data") or {})[CA_KEY]
            if decoded_size(encoded) > limits.CA_BYTES:
                most = f"{limits.CA_BYTES} bytes"
                raise MissingReferenceError(f"{where} holds more than {most} under {CA_KEY}")
            ca = base64.b64decode(encoded)
        except (KeyError, binascii.Error, ValueError):
            raise MissingReferenceError(f"{where} has no key {CA_KEY}") from None
    return Access(credential, login, ca)
