"""Reads ConfigMaps and Secrets that Bundles name, only when they changed.

Watches deliver metadata only, and trigger a read. Content always comes from GET, so a watch that is
late, forbidden or beyond the limit delays an update and does nothing worse. Values are read one
source at a time, within limits of memory and time.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from copyrator.api import names
from copyrator.api.bundle_spec import (
    BUNDLE_SECRET_KEY,
    BUNDLE_VALUES_BYTES,
    BUNDLE_VALUES_FILES,
    CA_BYTES,
    BundleSpec,
    SecretKey,
    ValuesSource,
)
from copyrator.api.keys import BundleKey
from copyrator.api.object_refs import ValuesKind
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context, Hasher
from copyrator.bundles.identity import ValuesFiles, ValuesHash
from copyrator.bundles.inputs.target import TargetAccess
from copyrator.bundles.inputs.watches import (
    Ref,
    ReferenceWatcher,
    access_refs,
    secret_key_ref,
    values_ref,
    values_refs,
)
from copyrator.bundles.pod import CA_KEY, Login
from copyrator.kube.errors import NotFound
from copyrator.oci.auth import (
    Credential,
    UnusableSecretError,
    decoded_size,
    find_credential,
)
from copyrator.oci.exchange import DOCKER_HUB_HOST, DOCKER_HUB_NAMES, Repository
from copyrator.workqueue.fairness import TimeSlice


class ValuesTooLargeError(Exception):
    """With this source a Bundle's values exceed a limit.

    Args:
        limit: the exceeded limit.
    """

    def __init__(self, limit: str) -> None:
        super().__init__(
            f"the Bundle's values exceed {limit}: reduce that source, put large "
            "files into the chart, or remove the source from the "
            "spec"
        )


class ValuesReader:
    """Adds the values sources of a Bundle, one after the other, within the limits."""

    def __init__(self, uid: str, spec: BundleSpec, hasher: Hasher) -> None:
        has_secret = any(source.kind is ValuesKind.SECRET for source in spec.values_sources)
        has_secret |= spec.secret_key is not None
        self.hash = ValuesHash(uid, hasher if has_secret else None)
        self.files: list[ValuesFiles] = []
        self._slice = TimeSlice()
        self._bytes = 0
        self._keys = 0

    async def add(self, source: ValuesSource, body: Mapping[str, Any]) -> Mapping[str, bytes]:
        """Add the next source; returns its files.

        Raises:
            ValuesTooLargeError: the values exceed a limit with this source.
        """
        data: Mapping[str, str] = body.get("data") or {}
        self._keys += len(data)
        if self._keys > BUNDLE_VALUES_FILES:
            raise ValuesTooLargeError(f"{BUNDLE_VALUES_FILES:,} keys, each a values file")
        content: dict[str, bytes] = {}
        for key, text in data.items():
            is_secret = source.kind is ValuesKind.SECRET
            content[key] = base64.b64decode(text) if is_secret else text.encode()
            self._bytes += len(content[key])
            if self._bytes > BUNDLE_VALUES_BYTES:
                raise ValuesTooLargeError(f"{BUNDLE_VALUES_BYTES // 2**20} MiB")
            await self._slice.pause()
        for _ in self.hash.add(source.kind, source.name, content):
            await self._slice.pause()
        self.files.append(ValuesFiles(source.kind, source.name, tuple(sorted(content))))
        return content

    async def add_secret_key(self, found: SecretKey, content: Mapping[str, bytes]) -> None:
        """Add the content of ``spec.secretKey``; no values source has a name with a colon."""
        for _ in self.hash.add(ValuesKind.SECRET, f"secretKey:{found.secret}", content):
            await self._slice.pause()


class MissingReferenceError(Exception):
    """An object that the spec names doesn't exist, or isn't valid; the message names the fault."""

    def __init__(self, message: str, reason: Reason = BundleReason.AUTHENTICATION_FAILED) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Access:
    """The operator's access to the registry, and the login of werf's Job."""

    credential: Credential | None = None
    login: Login = Login.NONE
    """As the spec's Secret has it; for a feature's credential the feature adds one to the Job."""
    ca: bytes | None = None

    @property
    def selected(self) -> Credential:
        """What a Job gets in a Secret of its own."""
        assert self.credential is not None, "a login of its own has a credential"
        return self.credential


Locate = Callable[[BundleEntry, BundleSpec], Awaitable[TargetAccess]]
TakeFiles = Callable[[ValuesSource, Mapping[str, bytes]], Awaitable[None]]
"""Is called with a values source and its files, by their names."""


@dataclass(frozen=True, slots=True)
class Known:
    """A result computed from contents, valid for exactly these objects at these versions."""

    refs: tuple[Ref, ...]
    versions: tuple[str, ...]
    shape: object = None
    """What else it was computed from."""
    value: Any = None


@dataclass(slots=True)
class InputsMemory:
    """What was read of the objects that a Bundle's spec names."""

    known: dict[str, Known] = field(default_factory=dict)
    """By what it is used for."""


class ReferenceReader:
    """Reads the objects that Bundles name.

    Args:
        context: the controller's.
        locate: finds where the release of a Bundle is.

    Attributes:
        find_credential: the registry's by a feature, in place of that of a Secret.
        watches: of all that they name.
    """

    def __init__(
        self,
        context: Context,
        locate: Locate,
        find_credential: Callable[[BundleSpec], Credential | None],
    ) -> None:
        self._context = context
        self._locate = locate
        self.find_credential = find_credential
        self._memories = context.memories
        self.watches = ReferenceWatcher(context, self._has_read)
        context.memories.on_drop(lambda key: self.watches.follow(key, frozenset()))

    def close(self) -> None:
        """End all watches, and drop all cached results."""
        self.watches.close()
        for key, _ in self._memories.each(InputsMemory):
            self._memories.forget(key, InputsMemory)

    def recall(
        self, key: BundleKey, use: str, refs: tuple[Ref, ...], shape: object
    ) -> Known | None:
        """The result that was kept for a use, if its input is the same at present."""
        known = self._memories.of(key, InputsMemory).known.get(use)
        is_same = known is not None and (known.refs, known.shape) == (refs, shape)
        if known is None or not is_same:
            return None
        return known if all(map(self.watches.is_current, refs, known.versions)) else None

    def keep(self, key: BundleKey, use: str, known: Known) -> None:
        """Keep a result until an object has another version."""
        self._memories.of(key, InputsMemory).known[use] = known

    def forget(self, key: BundleKey, use: str) -> None:
        """Keep it no longer."""
        self._memories.of(key, InputsMemory).known.pop(use, None)

    async def read(self, ref: Ref) -> dict[str, Any] | None:
        """An object; None where it doesn't exist.

        Raises:
            ApiError: it can't be read.
        """
        begun = self.watches.begin_read(ref)
        try:
            body = await self._context.client.get(ref.resource, ref.namespace, ref.name)
        except NotFound:
            body = None
        self.watches.was_read(ref, version_of(body), begun)
        return body

    async def values_hash(self, entry: BundleEntry, spec: BundleSpec) -> str | None:
        """The hash of the Bundle's values, None without values; reads them only if one changed.

        Raises:
            MissingReferenceError: a source that isn't optional doesn't exist.
            ApiError: a source can't be read.
        """
        refs = values_refs(spec)
        if not refs:
            return None
        known = self.recall(entry.key, "values", refs, spec.secret_key)
        if known is not None:
            return cast("str | None", known.value)
        return (await self.values(entry, spec))[0]

    async def values(
        self, entry: BundleEntry, spec: BundleSpec, take: TakeFiles | None = None
    ) -> tuple[str | None, tuple[ValuesFiles, ...]]:
        """Read the Bundle's values; returns their hash and their file names.

        ``take`` is called with the files of each source, so that one source at a time is in memory,
        and last with the content of ``spec.secretKey``, which counts in the hash.
        Raises as ``values_hash``.
        """
        reader = ValuesReader(entry.uid, spec, self._context.hasher)
        versions: list[str] = []
        for source in spec.values_sources:
            # Nothing of one source is kept for the next one.
            async with self._context.readers.slot(entry.key.namespace):
                body = await self.read(values_ref(spec, source))
                versions.append(version_of(body))
                if body is not None:
                    try:
                        content = await reader.add(source, body)
                    except ValuesTooLargeError as error:
                        text = f"with {values_ref(spec, source)} {error}"
                        raise MissingReferenceError(text, BundleReason.VALUES_MISSING) from None
                    if take is not None:
                        await take(source, content)
                    del content
                elif not source.optional:
                    raise MissingReferenceError(
                        f"{values_ref(spec, source)}, a source of values, doesn't exist; create "
                        "it, or remove it from the spec",
                        BundleReason.VALUES_MISSING,
                    )
        if spec.secret_key is not None:
            ref = secret_key_ref(spec, spec.secret_key)
            async with self._context.readers.slot(entry.key.namespace):
                body = await self.read(ref)
                versions.append(version_of(body))
                content = {spec.secret_key.key: _read_secret_key(ref, spec.secret_key, body)}
                del body
            await reader.add_secret_key(spec.secret_key, content)
            if take is not None:
                await take(ValuesSource(ValuesKind.SECRET, spec.secret_key.secret), content)
        found = reader.hash.result()
        known = Known(values_refs(spec), tuple(versions), spec.secret_key, found)
        self.keep(entry.key, "values", known)
        return found, tuple(reader.files)

    async def in_cluster(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The spec with the cluster that its release is in, and the credential there, read anew.

        Raises:
            MissingReferenceError: there is none that may be used.
        """
        return await self._locate(entry, spec)

    async def access(self, entry: BundleEntry, spec: BundleSpec) -> Access:
        """The registry's credential and CA; reads them only if they changed.

        Raises:
            MissingReferenceError: a Secret doesn't exist, or lacks a required key.
        """
        refs = access_refs(spec)
        if not refs:
            return read_access(spec, {}, self.find_credential(spec))
        shape = _shape(spec)
        if (known := self.recall(entry.key, "access", refs, shape)) is not None:
            return cast("Access", known.value)
        versions: list[str] = []
        bodies: dict[str, dict[str, Any]] = {}
        for ref in refs:
            if (body := await self.read(ref)) is None:
                field = "spec.auth" if ref.name == spec.auth else "spec.caSecret"
                raise MissingReferenceError(
                    f"{ref} of {field} doesn't exist; create it, or remove it from the spec"
                )
            bodies[ref.name] = body
            versions.append(version_of(body))
        found = read_access(spec, bodies)
        self.keep(entry.key, "access", Known(refs, tuple(versions), shape, found))
        return found

    def _has_read(self, key: BundleKey, ref: Ref, version: str | None) -> bool:
        """Whether all results cached for a Bundle were read from that version of an object."""
        if (inputs := self._memories.find(key, InputsMemory)) is None:
            return False
        versions = [
            read
            for part in inputs.known.values()
            for each, read in zip(part.refs, part.versions, strict=True)
            if each == ref
        ]
        return bool(versions) and all(read == version for read in versions)


def _read_secret_key(ref: Ref, wanted: SecretKey, body: Mapping[str, Any] | None) -> bytes:
    """The content of ``spec.secretKey``."""
    where, reason = f"{ref} of spec.secretKey", BundleReason.VALUES_MISSING
    if body is None:
        text = f"{where} doesn't exist; create it, or remove it from the spec"
        raise MissingReferenceError(text, reason)
    return read_key(where, wanted.key, body.get("data") or {}, BUNDLE_SECRET_KEY, reason)


def read_key(where: str, key: str, data: Mapping[str, str], most: int, reason: Reason) -> bytes:
    """The content of one key of a Secret, of at most so many bytes."""
    encoded = data.get(key)
    if encoded is None:
        raise MissingReferenceError(f"{where} has no key {key}; add it", reason)
    if decoded_size(encoded) > most:
        raise MissingReferenceError(f"{where} has more than {most} bytes under {key}", reason)
    return base64.b64decode(encoded)


def version_of(body: Mapping[str, Any] | None) -> str:
    """The version of an object; empty where it doesn't exist."""
    return str(body["metadata"].get("resourceVersion", "")) if body else ""


def _shape(spec: BundleSpec) -> str:
    """The other fields of a spec by which Secrets are interpreted."""
    where = f"{spec.registry} {spec.repo} {spec.insecure}"
    return f"{where} {spec.auth} {spec.ca_secret} {spec.binds_passwords}"


def read_access(
    spec: BundleSpec,
    bodies: Mapping[str, Mapping[str, Any]],
    credential: Credential | None = None,
) -> Access:
    """The access by a feature's credential, or by the spec's Secrets.

    Raises:
        MissingReferenceError: a Secret lacks a key, or isn't sent to the Bundle's registry.
    """
    if credential is not None:
        return Access(credential)
    login, ca = Login.NONE, None
    if spec.auth:
        secret = bodies[spec.auth]
        try:
            repository = Repository(spec.registry, spec.repo, plain_http=spec.insecure)
            stored = find_credential(secret, repository)
        except UnusableSecretError as error:
            text = f"Secret {spec.namespace}/{spec.auth} of spec.auth {error}"
            raise MissingReferenceError(text) from None
        credential, login = stored.credential, Login.PASSWORD
        if stored.is_docker_config:
            login = Login.DOCKER_CONFIG if stored.is_alone else Login.SELECTED
        if spec.binds_passwords and login is Login.PASSWORD:
            _check_registry(spec, secret)
    if spec.ca_secret:
        where = f"Secret {spec.namespace}/{spec.ca_secret} of spec.caSecret"
        try:
            encoded = (bodies[spec.ca_secret].get("data") or {})[CA_KEY]
            if decoded_size(encoded) > CA_BYTES:
                most = f"{CA_BYTES} bytes"
                raise MissingReferenceError(f"{where} has more than {most} under {CA_KEY}")
            ca = base64.b64decode(encoded)
        except (KeyError, binascii.Error, ValueError):
            raise MissingReferenceError(f"{where} has no key {CA_KEY}") from None
    return Access(credential, login, ca)


def _check_registry(spec: BundleSpec, secret: Mapping[str, Any]) -> None:
    """Raise unless a Secret's annotation names the Bundle's registry.

    Else whoever edits the Bundle would have username and password sent to a host of theirs. A
    dockerconfigjson Secret names its hosts itself.
    """
    named = (secret["metadata"].get("annotations") or {}).get(names.ANN_REGISTRY) or ""
    if _normal_host(named, spec) == _normal_host(spec.registry, spec):
        return
    name = f"{spec.namespace}/{spec.auth}"
    raise MissingReferenceError(
        f"Secret {name} of spec.auth isn't sent to {spec.registry}: bundles.requireApproval "
        f"applies to this Bundle, and the Secret's annotation {names.ANN_REGISTRY} doesn't name "
        f"that host. Who owns the Secret allows it by: kubectl annotate secret -n "
        f"{spec.namespace} {spec.auth} {names.ANN_REGISTRY}={spec.registry}"
    )


def _normal_host(registry: str, spec: BundleSpec) -> str:
    """A registry's ``host[:port]`` for comparison; the names of Docker Hub are one."""
    host = registry.strip().lower().removesuffix(":80" if spec.insecure else ":443")
    return DOCKER_HUB_HOST if host in DOCKER_HUB_NAMES else host
