"""Reads ConfigMaps and Secrets that Bundles name, only when they changed.

Watches deliver metadata only, and trigger a read. Content always comes from GET, so a watch that is
late, forbidden or beyond the limit delays an update and does nothing worse. Values are read one
source at a time, within limits of memory and time.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from copyrator.api import names
from copyrator.api.approval import ApprovalSpec
from copyrator.api.attest import AttestKey, AttestSpec
from copyrator.api.bundle_spec import (
    BUNDLE_SECRET_KEY,
    BUNDLE_VALUES_BYTES,
    BUNDLE_VALUES_FILES,
    CA_BYTES,
    BundleSpec,
    SecretKey,
    TargetCluster,
    ValuesSource,
)
from copyrator.api.cluster import ClusterSpec
from copyrator.api.fields import SpecError
from copyrator.api.keys import BundleKey
from copyrator.api.kubeconfig import InvalidKubeconfigError, Kubeconfig, is_home, kubeconfig_in
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.promotion import PromotionSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.structs import replace
from copyrator.api.times import format_time
from copyrator.api.verify import SignaturesSpec, refs_of
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context, Hasher
from copyrator.bundles.gates.evidence import NO_ATTESTERS, Attesters
from copyrator.bundles.gates.signature import Asked
from copyrator.bundles.identity import ValuesFiles, ValuesHash, hash_of
from copyrator.bundles.inputs.watches import (
    Ref,
    ReferenceWatcher,
    access_refs,
    attester_refs,
    key_refs,
    kubeconfig_refs,
    secret_key_ref,
    values_ref,
    values_refs,
    verify_ref,
)
from copyrator.bundles.pod import CA_KEY, Login
from copyrator.bundles.trust.policy import SPEC, Contents, read_attesters, read_requirement
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import SECRETS
from copyrator.oci.auth import (
    Credential,
    UnusableSecretError,
    decoded_size,
    find_credential,
)
from copyrator.oci.reference import DOCKER_HUB_HOST, DOCKER_HUB_NAMES, Repository
from copyrator.oci.statements import PrivateKeyFile
from copyrator.signatures.model import SIGNATURE_KEY_BYTES, SignatureRequirement
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

    def __init__(
        self, message: str, reason: BundleReason = BundleReason.AUTHENTICATION_FAILED
    ) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Access:
    """The operator's access to the registry, and the login of werf's Job."""

    credential: Credential | None = None
    login: Login = Login.NONE
    """As the spec's Secret has it; for a feature's credential the feature adds one to the Job."""
    ca: bytes | None = None


@dataclass(frozen=True, slots=True)
class AttestAccess:
    """What signs attestations, and the access to the registry that they are pushed with."""

    key: PrivateKeyFile
    access: Access


OPERATORS_KEY: Final = AttestKey(names.ATTEST_SECRET, names.ATTEST_KEY, names.ATTEST_PASSWORD)


@dataclass(frozen=True, slots=True)
class TargetAccess:
    """A spec with the cluster that its release is in, and the access to that."""

    spec: BundleSpec
    kubeconfig: Kubeconfig | None = field(default=None, repr=False)
    """Only of ``in_cluster``; None: the Job's account in the operator's own cluster."""
    ends: datetime | None = None
    """When its credential ends."""


TakeFiles = Callable[[ValuesSource, Mapping[str, bytes]], Awaitable[None]]
"""Is called with a values source and its files, by their names."""


@dataclass(frozen=True, slots=True)
class Known:
    """A result computed from contents, valid for exactly these objects at these versions."""

    refs: tuple[Ref, ...]
    versions: tuple[str, ...]
    value: Any


@dataclass(slots=True)
class InputsMemory:
    """What was read of the objects that a Bundle's spec names."""

    values: Known | None = None
    access: Known | None = None
    signers: Known | None = None
    attesters: Known | None = None
    attest_key: Known | None = None
    """Of ``spec.attest``: only which versions of the Secrets were read."""
    cluster: Known | None = None


class ReferenceReader:
    """Reads the objects that Bundles name.

    Args:
        context: the controller's.
        find_credential: the registry's by a feature, in place of that of a Secret.

    Attributes:
        watches: of all that they name.
    """

    def __init__(
        self, context: Context, find_credential: Callable[[BundleSpec], Credential | None]
    ) -> None:
        self._context = context
        self._find_credential = find_credential
        self._memories = context.memories
        self.watches = ReferenceWatcher(context, self._has_read)
        context.memories.on_drop(lambda key: self.watches.follow(key, frozenset()))

    def close(self) -> None:
        """End all watches, and drop all cached results."""
        self.watches.close()
        for key, _ in self._memories.each(InputsMemory):
            self._memories.forget(key, InputsMemory)

    @property
    def _home(self) -> tuple[str, ...]:
        """The addresses of the operator's own API server: the one in use, and its ClusterIP."""
        host = self._context.client.connection.host
        return host, os.environ.get("KUBERNETES_SERVICE_HOST", "")

    def _memory(self, key: BundleKey) -> InputsMemory:
        return self._memories.of(key, InputsMemory)

    async def values_hash(self, entry: BundleEntry, spec: BundleSpec) -> str | None:
        """The hash of the Bundle's values, None without values; reads them only if one changed.

        Raises:
            MissingReferenceError: a source that isn't optional doesn't exist.
            ApiError: a source can't be read.
        """
        refs = values_refs(spec)
        if not refs:
            return None
        known = self._memory(entry.key).values
        if known is not None and self._is_current(known, refs):
            shape, found = known.value
            if shape == spec.secret_key:
                return cast("str | None", found)
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
                body = await self._read_optional(values_ref(spec, source))
                versions.append(_version(body))
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
                body = await self._read_optional(ref)
                versions.append(_version(body))
                content = {spec.secret_key.key: _read_secret_key(ref, spec.secret_key, body)}
                del body
            await reader.add_secret_key(spec.secret_key, content)
            if take is not None:
                await take(ValuesSource(ValuesKind.SECRET, spec.secret_key.secret), content)
        found = reader.hash.result()
        value = spec.secret_key, found
        known = Known(values_refs(spec), tuple(versions), value)
        self._memory(entry.key).values = known
        return found, tuple(reader.files)

    async def with_cluster(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The spec with the cluster of its kubeconfig; reads that only if it changed.

        Raises:
            MissingReferenceError: there is no kubeconfig that may be used.
        """
        if (wanted := spec.find(ClusterSpec)) is None:
            return TargetAccess(spec)
        refs, known = kubeconfig_refs(spec), self._memory(entry.key).cluster
        if known is None or known.value[0] != wanted or not self._is_current(known, refs):
            return await self.in_cluster(entry, spec)
        _, cluster, ends = known.value
        _check_end(refs[0], ends, self._context.clock())
        return TargetAccess(replace(spec, cluster=cluster), ends=ends)

    async def in_cluster(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """As ``with_cluster``, with the kubeconfig itself, which is read anew and isn't kept."""
        if (wanted := spec.find(ClusterSpec)) is None:
            return TargetAccess(spec)
        (ref,) = refs = kubeconfig_refs(spec)
        self._memory(entry.key).cluster = None
        body = await self._read_optional(ref)
        found = _read_kubeconfig(ref, wanted.key, body, self._home)
        place, ends = found.place, found.ends
        parts = place.server, place.ca.decode(), place.tls_server_name
        cluster = TargetCluster(place.server, hash_of(*parts))
        known = Known(refs, (_version(body),), (wanted, cluster, ends))
        self._memory(entry.key).cluster = known
        _check_end(ref, ends, self._context.clock())
        return TargetAccess(replace(spec, cluster=cluster), found, ends)

    async def access(self, entry: BundleEntry, spec: BundleSpec) -> Access:
        """The registry's credential and CA; reads them only if they changed.

        Raises:
            MissingReferenceError: a Secret doesn't exist, or lacks a required key.
        """
        refs = access_refs(spec)
        if not refs:
            return read_access(spec, {}, self._find_credential(spec))
        known = self._memory(entry.key).access
        shape = _shape(spec)
        if known is not None and known.value[0] == shape and self._is_current(known, refs):
            cached: Access = known.value[1]
            return cached
        versions: list[str] = []
        bodies: dict[str, dict[str, Any]] = {}
        for ref in refs:
            if (body := await self._read_optional(ref)) is None:
                field = "spec.auth" if ref.name == spec.auth else "spec.caSecret"
                raise MissingReferenceError(
                    f"{ref} of {field} doesn't exist; create it, or remove it from the spec"
                )
            bodies[ref.name] = body
            versions.append(_version(body))
        found = read_access(spec, bodies)
        known = Known(refs, tuple(versions), (shape, found))
        self._memory(entry.key).access = known
        return found

    async def requirement(
        self, entry: BundleEntry, spec: BundleSpec
    ) -> tuple[SignatureRequirement, tuple[str, ...]]:
        """The requirement of ``spec.verify`` and its faults; reads keys only if they changed."""
        wanted = spec.find(SignaturesSpec)
        assert wanted is not None
        refs = key_refs(spec, refs_of(wanted.any_of))
        known = self._memory(entry.key).signers
        if known is not None and known.value[0] == wanted and self._is_current(known, refs):
            cached: tuple[SignatureRequirement, tuple[str, ...]] = known.value[1]
            return cached
        contents, versions = await self._read_keys(spec, refs_of(wanted.any_of))
        found = await asyncio.to_thread(
            read_requirement, SPEC, spec.namespace, wanted.any_of, contents
        )
        known = Known(refs, versions, (wanted, found))
        self._memory(entry.key).signers = known
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
        known = self._memory(entry.key).attesters
        if known is not None and known.value[0] == shape and self._is_current(known, refs):
            cached: Attesters = known.value[1]
            return cached
        contents, versions = await self._read_keys(spec, attester_refs(spec))
        try:
            found = await asyncio.to_thread(read_attesters, spec.namespace, named, contents, asked)
        except SpecError as error:
            raise MissingReferenceError(str(error), BundleReason.INVALID_SPEC) from None
        self._memory(entry.key).attesters = Known(refs, versions, (shape, found))
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
        pushing, credential = spec, self._find_credential(spec)
        if attest.auth is not None:
            pushing, credential = replace(spec, auth=attest.auth), None
        bodies: dict[Ref, Mapping[str, Any]] = {}
        versions: dict[Ref, str] = {}
        for one in (ref, *access_refs(pushing)):
            body = await self._read_optional(one)
            versions[one], bodies[one] = _version(body), body or {}
        known = Known(tuple(versions), tuple(versions.values()), None)
        self._memory(entry.key).attest_key = known
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
            body = await self._read_optional(verify_ref(spec.namespace, one))
            contents[one] = files_of(one, body) if body else None
            versions.append(_version(body))
        return contents, tuple(versions)

    def _is_current(self, known: Known, refs: tuple[Ref, ...]) -> bool:
        """Whether a cached result is of the same objects at their current versions."""
        return known.refs == refs and all(map(self.watches.is_current, refs, known.versions))

    def _has_read(self, key: BundleKey, ref: Ref, version: str | None) -> bool:
        """Whether all results cached for a Bundle were read from that version of an object."""
        if (inputs := self._memories.find(key, InputsMemory)) is None:
            return False
        known = (
            inputs.values,
            inputs.access,
            inputs.signers,
            inputs.attesters,
            inputs.attest_key,
            inputs.cluster,
        )
        versions = [
            read
            for part in known
            if part is not None
            for each, read in zip(part.refs, part.versions, strict=True)
            if each == ref
        ]
        return bool(versions) and all(read == version for read in versions)

    async def _read_optional(self, ref: Ref) -> dict[str, Any] | None:
        begun = self.watches.begin_read(ref)
        try:
            body = await self._context.client.get(ref.resource, ref.namespace, ref.name)
        except NotFound:
            body = None
        self.watches.was_read(ref, _version(body), begun)
        return body


def files_of(ref: LocalObjectRef, body: Mapping[str, Any]) -> Mapping[str, bytes]:
    """The files of a ConfigMap or Secret."""
    data: Mapping[str, str] = body.get("data") or {}
    if ref.kind is ValuesKind.CONFIG_MAP:
        return {name: text.encode() for name, text in data.items()}
    return {name: base64.b64decode(text) for name, text in data.items()}


def _read_secret_key(ref: Ref, wanted: SecretKey, body: Mapping[str, Any] | None) -> bytes:
    """The content of ``spec.secretKey``."""
    where, reason = f"{ref} of spec.secretKey", BundleReason.VALUES_MISSING
    if body is None:
        text = f"{where} doesn't exist; create it, or remove it from the spec"
        raise MissingReferenceError(text, reason)
    return _read_key(where, wanted.key, body.get("data") or {}, BUNDLE_SECRET_KEY, reason)


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
    return _read_key(f"{ref} of spec.attest", name, data, most, BundleReason.ATTEST_KEY_INVALID)


def _read_key(
    where: str, key: str, data: Mapping[str, str], most: int, reason: BundleReason
) -> bytes:
    """The content of one key of a Secret, of at most so many bytes."""
    encoded = data.get(key)
    if encoded is None:
        raise MissingReferenceError(f"{where} has no key {key}; add it", reason)
    if decoded_size(encoded) > most:
        raise MissingReferenceError(f"{where} has more than {most} bytes under {key}", reason)
    return base64.b64decode(encoded)


def _read_kubeconfig(
    ref: Ref, key: str, body: Mapping[str, Any] | None, home: Collection[str]
) -> Kubeconfig:
    """The kubeconfig of ``spec.kubeConfig``, which isn't of the operator's own cluster.

    Raises:
        MissingReferenceError: it may not be used.
    """
    where, reason = f"{ref} of spec.kubeConfig", BundleReason.KUBE_CONFIG_INVALID
    if body is None:
        raise MissingReferenceError(f"{where} doesn't exist; create it, or restore it", reason)
    try:
        found = kubeconfig_in(body, key)
    except InvalidKubeconfigError as error:
        raise MissingReferenceError(f"{where}: {error}", reason) from None
    if is_home(found.server, home):
        text = (
            f"{where} names the operator's own cluster, {found.server}; remove spec.kubeConfig: "
            "a Bundle deploys there by spec.serviceAccountName and spec.project_namespace"
        )
        raise MissingReferenceError(text, BundleReason.INVALID_SPEC)
    return found


def _check_end(ref: Ref, ends: datetime | None, now: datetime) -> None:
    """Raise where the credential of the kubeconfig has ended."""
    if ends is None or now < ends:
        return
    raise MissingReferenceError(
        f"{ref} of spec.kubeConfig: its token or certificate has expired at {format_time(ends)}; "
        "write a kubeconfig with a new one into the Secret",
        BundleReason.KUBE_CONFIG_INVALID,
    )


def _version(body: Mapping[str, Any] | None) -> str:
    return str(body["metadata"].get("resourceVersion", "")) if body else ""


def _shape(spec: BundleSpec) -> str:
    """The other fields of a spec by which Secrets are interpreted."""
    bound = spec.part(ApprovalSpec).is_required
    return f"{spec.registry} {spec.repo} {spec.insecure} {spec.auth} {spec.ca_secret} {bound}"


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
        if spec.part(ApprovalSpec).is_required and login is Login.PASSWORD:
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
