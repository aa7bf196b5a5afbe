"""Reads ConfigMaps and Secrets that Bundles name, only when they changed, and watches them.

Watches deliver metadata only, and trigger a read. Content always comes from GET, so a watch that is
late, forbidden or beyond the limit delays an update and does nothing worse. Values are read one
source at a time, within limits of memory and time.

Each watch is a connection, so their scopes widen with the number of names: one object by its name,
where the server filters; a namespace, where its Bundles name several; all namespaces, where there
would be many of these. A wide watch delivers unrelated objects too, which are dropped on arrival.
Where a wide watch is forbidden, names and namespaces are watched up to a limit, which namespaces
share fairly: each gets its first watch before any gets a second. Other objects are read at polls.

No edit is lost when the scope of a watch changes: the old watch ends only after the new one has
listed everything and its list was compared with what Bundles have read. Where several watches cover
an object, the events of one are used.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import heapq
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, cast

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
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.kubeconfig import Kubeconfig
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context, Hasher
from copyrator.bundles.engine.step import Change
from copyrator.bundles.jobs.identity import ValuesFiles, ValuesHash
from copyrator.bundles.jobs.pod import CA_KEY, Login
from copyrator.kube.errors import ApiError, Forbidden, NotFound, Refusal
from copyrator.kube.permissions import is_allowed
from copyrator.kube.resources import CONFIGMAPS, SECRETS, Resource
from copyrator.kube.watch.informers import Registration, WatchPlacement, watch_permissions
from copyrator.kube.watch.reflector import Seen, WantedNames, WatchSpec, seen
from copyrator.oci.auth import Credential, UnusableSecretError, decoded_size, find_credential
from copyrator.oci.exchange import DOCKER_HUB_HOST, DOCKER_HUB_NAMES, Repository
from copyrator.workqueue.fairness import TimeSlice


class MissingReferenceError(Exception):
    """An object that the spec names doesn't exist, or isn't valid; the message names the fault."""

    def __init__(self, message: str, reason: Reason = BundleReason.AUTHENTICATION_FAILED) -> None:
        super().__init__(message)
        self.reason = reason


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

    async def add(
        self, ref: Ref, source: ValuesSource, body: Mapping[str, Any]
    ) -> Mapping[str, bytes]:
        """Add the next source; returns its files.

        Raises:
            MissingReferenceError: the values exceed a limit with this source.
        """
        data: Mapping[str, str] = body.get("data") or {}
        self._keys += len(data)
        if self._keys > BUNDLE_VALUES_FILES:
            raise _too_large(ref, f"{BUNDLE_VALUES_FILES:,} keys, each a values file")
        content: dict[str, bytes] = {}
        for key, text in data.items():
            is_secret = source.kind is ValuesKind.SECRET
            content[key] = base64.b64decode(text) if is_secret else text.encode()
            self._bytes += len(content[key])
            if self._bytes > BUNDLE_VALUES_BYTES:
                raise _too_large(ref, f"{BUNDLE_VALUES_BYTES // 2**20} MiB")
            await self._slice.pause()
        for _ in self.hash.add(source.kind, source.name, content):
            await self._slice.pause()
        self.files.append(ValuesFiles(source.kind, source.name, tuple(sorted(content))))
        return content

    async def add_secret_key(self, found: SecretKey, content: Mapping[str, bytes]) -> None:
        """Add the content of ``spec.secretKey``; no values source has a name with a colon."""
        for _ in self.hash.add(ValuesKind.SECRET, f"secretKey:{found.secret}", content):
            await self._slice.pause()


def _too_large(ref: Ref, limit: str) -> MissingReferenceError:
    text = (
        f"with {ref} the Bundle's values exceed {limit}: reduce that source, put large files into "
        "the chart, or remove the source from the spec"
    )
    return MissingReferenceError(text, BundleReason.VALUES_MISSING)


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


@dataclass(frozen=True, slots=True)
class TargetAccess:
    """A spec with the cluster that its release is in, and the access to that."""

    spec: BundleSpec
    kubeconfig: Kubeconfig | None = field(default=None, repr=False)
    """Only where it is asked for; None: the Job's account in the operator's own cluster."""
    ends: datetime | None = None
    """When its credential ends."""


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

    Attributes:
        in_cluster: returns the spec with the cluster that its release is in, and the credential
            there, read anew; raises MissingReferenceError where there is none that may be used.
        find_credential: the registry's by a feature, in place of that of a Secret.
        watches: of all that they name.
    """

    def __init__(
        self,
        context: Context,
        in_cluster: Locate,
        find_credential: Callable[[BundleSpec], Credential | None],
    ) -> None:
        self._context = context
        self.in_cluster = in_cluster
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
            ref = local_ref(spec.namespace, source)
            # Nothing of one source is kept for the next one.
            async with self._context.readers.slot(entry.key.namespace):
                body = await self.read(ref)
                versions.append(version_of(body))
                if body is not None:
                    content = await reader.add(ref, source, body)
                    if take is not None:
                        await take(source, content)
                    del content
                elif not source.optional:
                    raise MissingReferenceError(
                        f"{ref}, a source of values, doesn't exist; create "
                        "it, or remove it from the spec",
                        BundleReason.VALUES_MISSING,
                    )
        if spec.secret_key is not None:
            ref = Ref(SECRETS, spec.namespace, spec.secret_key.secret)
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

    async def access(self, entry: BundleEntry, spec: BundleSpec) -> Access:
        """The registry's credential and CA; reads them only if they changed.

        Raises:
            MissingReferenceError: a Secret doesn't exist, or lacks a required key.
        """
        refs = access_refs(spec)
        if not refs:
            return read_access(spec, {}, self.find_credential(spec))
        # By the other fields of the spec, too, Secrets are interpreted.
        repository, secrets = (spec.registry, spec.repo), (spec.auth, spec.ca_secret)
        shape = repository, secrets, spec.insecure, spec.binds_passwords
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


REFERENCES_BY_NAME: Final = 4
"""ConfigMaps, and likewise Secrets, named by one namespace's Bundles, with a watch each. For
more there is one metadata watch of the namespace, which caches only the named objects."""

KIND_REFERENCE_WATCHES: Final = 64
"""Watches of ConfigMaps, and likewise of Secrets, named by Bundles. Where all namespaces together
would have more, there is one metadata watch of all namespaces, which caches only the named
objects."""

REFERENCE_WATCHES: Final = 32
"""Watches for the Bundles of one namespace where the wider ones aren't granted. Objects beyond it
are read again at every poll instead."""

ALL_REFERENCE_WATCHES: Final = 128
"""Watches of objects named by Bundles, all together: each is a connection. Where the wider ones
aren't granted, each namespace gets its first before any gets a second."""

Names = Mapping[str, Collection[str]]
"""Names of objects of one kind, by namespace."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One object that a Bundle names."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


def references_of(spec: BundleSpec) -> frozenset[Ref]:
    """All objects that a Bundle names and the operator reads."""
    parts = (local_ref(spec.namespace, ref) for _, ref in spec.part_refs)
    return frozenset((*values_refs(spec), *access_refs(spec), *parts))


def local_ref(namespace: str, named: LocalObjectRef | ValuesSource) -> Ref:
    """The object that an entry in this namespace names: of values, keys or certificates."""
    return Ref(SECRETS if named.kind is ValuesKind.SECRET else CONFIGMAPS, namespace, named.name)


def values_refs(spec: BundleSpec) -> tuple[Ref, ...]:
    """The objects of all values, the key of secret values last."""
    found = [local_ref(spec.namespace, source) for source in spec.values_sources]
    if spec.secret_key is not None:
        found.append(Ref(SECRETS, spec.namespace, spec.secret_key.secret))
    return tuple(found)


def access_refs(spec: BundleSpec) -> tuple[Ref, ...]:
    """The Secrets of the registry, each once."""
    found = [name for name in (spec.auth, spec.ca_secret) if name]
    return tuple(Ref(SECRETS, spec.namespace, name) for name in dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class WatchScope:
    """What one watch covers: an object, a namespace's objects, or all of a kind."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.namespace is None:
            return f"{self.resource.plural} of all namespaces"
        return f"{self.resource.plural} of {self.namespace}"

    @property
    def is_wide(self) -> bool:
        """Whether it needs the permission to list and watch more than an object by its name."""
        return self.name is None

    def overlaps(self, other: WatchScope) -> bool:
        """Whether there may be an object that both cover."""
        pairs = (self.namespace, other.namespace), (self.name, other.name)
        return self.resource == other.resource and all(
            one == another or one is None or another is None for one, another in pairs
        )


def covering_scopes(ref: Ref) -> tuple[WatchScope, WatchScope, WatchScope]:
    """The scopes that cover an object, the widest first."""
    return (
        WatchScope(ref.resource),
        WatchScope(ref.resource, ref.namespace),
        WatchScope(ref.resource, ref.namespace, ref.name),
    )


def decide(
    wanted: Mapping[Resource, Names],
    refused: Container[WatchScope] = frozenset(),
    held: Container[WatchScope] = frozenset(),
) -> set[WatchScope]:
    """The watches to keep open.

    Args:
        wanted: what Bundles name.
        refused: wide scopes that are forbidden.
        held: the open watches; a wide one is kept until there are clearly fewer names, so that
            creating and deleting one Bundle opens and ends no watch.
    """
    everywhere = {
        WatchScope(resource)
        for resource, names in wanted.items()
        if _are_many(WatchScope(resource), names, refused, held)
    }
    narrow = {kind: names for kind, names in wanted.items() if WatchScope(kind) not in everywhere}
    places = ALL_REFERENCE_WATCHES - len(everywhere)
    # No more namespaces than there are places are considered, however many there are.
    first = heapq.nsmallest(places, set[str]().union(*narrow.values()))
    scopes = {space: _of_namespace(space, narrow, refused, held) for space in first}
    return everywhere | _share_fairly(scopes, places)


def find_uncovered(wanted: Mapping[Resource, Names], scopes: Container[WatchScope]) -> list[Ref]:
    """The objects that no watch covers: an edit is seen at the next poll."""
    refs = (
        Ref(resource, namespace, name)
        for resource, names in wanted.items()
        for namespace, found in names.items()
        for name in sorted(found)
    )
    return [ref for ref in refs if not any(scope in scopes for scope in covering_scopes(ref))]


def _are_many(
    scope: WatchScope, names: Names, refused: Container[WatchScope], held: Container[WatchScope]
) -> bool:
    """Whether a kind is watched in all namespaces by one watch."""
    if scope in refused:
        return False
    watches = 0
    for namespace, found in names.items():
        count = len(found)
        if count > 1 and _is_wide(scope.resource, namespace, count, refused, held):
            count = 1
        watches += min(count, REFERENCE_WATCHES)
    most = KIND_REFERENCE_WATCHES
    return watches > (most * 3 // 4 if scope in held else most)


def _of_namespace(
    namespace: str,
    wanted: Mapping[Resource, Names],
    refused: Container[WatchScope],
    held: Container[WatchScope],
) -> list[WatchScope]:
    """The watches of one namespace, the wide ones first."""
    scopes: list[WatchScope] = []
    for resource, named in wanted.items():
        found = named.get(namespace, ())
        if found and _is_wide(resource, namespace, len(found), refused, held):
            scopes.insert(0, WatchScope(resource, namespace))
        else:
            some = heapq.nsmallest(REFERENCE_WATCHES, found)
            scopes += (WatchScope(resource, namespace, name) for name in some)
    return scopes


def _is_wide(
    resource: Resource,
    namespace: str,
    names: int,
    refused: Container[WatchScope],
    held: Container[WatchScope],
) -> bool:
    most = REFERENCES_BY_NAME
    if names <= most // 2:
        return False
    scope = WatchScope(resource, namespace)
    return scope not in refused and (names > most or scope in held)


def _share_fairly(narrow: Mapping[str, list[WatchScope]], places: int) -> set[WatchScope]:
    """Each namespace's first one, then each one's second, until there is no place left."""
    chosen: set[WatchScope] = set()
    left = sorted(narrow)
    for turn in range(REFERENCE_WATCHES):
        left = [namespace for namespace in left if len(narrow[namespace]) > turn]
        for namespace in left:
            if len(chosen) >= places:
                return chosen
            chosen.add(narrow[namespace][turn])
    return chosen


log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenWatch:
    """A watch that is open."""

    scope: WatchScope
    registration: Registration | None = None
    comparison: asyncio.Task[None] | None = None
    """Of its list with what Bundles have read."""
    listed: bool = False
    """Whether it has listed everything once; from then on its events are used."""
    compared: bool = False
    """Whether its list was compared with what Bundles have read, so that an older watch may end."""

    @property
    def denial(self) -> str:
        """The message of a 403; empty for a single object, which needs no wider permission."""
        failure = self.registration and self.registration.failure
        return failure.message if self.scope.is_wide and isinstance(failure, Forbidden) else ""

    def close(self) -> None:
        """End the watch and its comparison."""
        if self.comparison is not None:
            self.comparison.cancel()
        if self.registration is not None:
            self.registration.release()


def scope_permissions(scope: WatchScope, served: Collection[str]) -> list[Refusal]:
    """The permissions that a wide scope requires, each as its refusal.

    `served`: the namespaces that the operator serves; empty: all.
    """
    namespaces = [scope.namespace] if scope.namespace else served or [""]
    return watch_permissions([scope.resource], namespaces)


HasRead = Callable[[BundleKey, Ref, str | None], bool]
"""Whether all that is cached from an object for a Bundle is of that version ("" for none)."""


@dataclass(slots=True)
class _FollowedObject:
    """One object that Bundles name."""

    version: str | None = None
    """None: not known; empty: the object doesn't exist."""
    changes: int = 0
    bundles: set[BundleKey] = field(default_factory=set)


@dataclass(slots=True)
class _Followed:
    refs: frozenset[Ref] = frozenset()
    """The objects that are watched for a Bundle."""


class ReferenceWatcher(WatchPlacement[WatchScope, OpenWatch]):
    """Watches objects for Bundles, and requeues Bundles that have read another version."""

    def __init__(self, context: Context, has_read: HasRead) -> None:
        super().__init__(context.timing.reference_watches, context.monotonic)
        self._context = context
        self._has_read = has_read
        self._refs: dict[Ref, _FollowedObject] = {}
        self._wanted = {resource: WantedNames() for resource in (CONFIGMAPS, SECRETS)}

    # --- for Bundles -----------------------------------------------------------------------------

    def follow(self, key: BundleKey, refs: frozenset[Ref]) -> None:
        """Watch these objects for a Bundle, and no others; the watches open a moment later."""
        memory = self._context.memories.of(key, _Followed)
        before = memory.refs
        if refs == before:
            return
        for ref in before - refs:
            self._leave(key, ref)
        for ref in refs - before:
            self._refs.setdefault(ref, _FollowedObject()).bundles.add(key)
            self._wanted[ref.resource].add(ObjectName(ref.namespace, ref.name))
        memory.refs = refs
        self.arrange_soon()

    def close(self) -> None:
        """End all watches."""
        for key, _ in self._context.memories.each(_Followed):
            self.follow(key, frozenset())
        super().close()

    def is_current(self, ref: Ref, version: str) -> bool:
        """Whether a watch shows that the current version is this one; empty: no object exists."""
        followed, opened = self._refs.get(ref), self._covering(ref)
        if followed is None or opened is None or opened.registration is None:
            return False
        return opened.registration.synced and followed.version == version

    def begin_read(self, ref: Ref) -> int:
        """Call it before an object is read; pass the result to `was_read`."""
        followed = self._refs.get(ref)
        return -1 if followed is None else followed.changes

    def was_read(self, ref: Ref, version: str, begun: int) -> None:
        """Record the version that was read (empty: none exists), unless an event came since."""
        followed = self._refs.get(ref)
        if followed is not None and followed.changes == begun:
            followed.version = version

    def count(self) -> Counter[str]:
        """The number of objects by the scope that covers them: name, namespace, all, poll."""
        found = Counter(name=0, namespace=0, all=0, poll=0)
        for resource, wanted in self._wanted.items():
            names = wanted.by_namespace
            if WatchScope(resource) in self.opened:
                found["all"] += len(wanted)
                continue
            wide = {ns for ns in names if WatchScope(resource, ns) in self.opened}
            by_namespace = sum(len(names[ns]) for ns in wide)
            by_name = sum(
                scope.resource == resource and bool(scope.name) and scope.namespace not in wide
                for scope in self.opened
            )
            found["namespace"] += by_namespace
            found["name"] += by_name
            found["poll"] += max(len(wanted) - by_namespace - by_name, 0)
        return found

    def _leave(self, key: BundleKey, ref: Ref) -> None:
        followed = self._refs[ref]
        followed.bundles.discard(key)
        if not followed.bundles:
            del self._refs[ref]
            self._wanted[ref.resource].discard(ObjectName(ref.namespace, ref.name))

    # --- for the placement -----------------------------------------------------------------------

    def choose(self, denied: Set[WatchScope], held: Set[WatchScope]) -> set[WatchScope]:
        """By the number of names."""
        wanted = {resource: names.by_namespace for resource, names in self._wanted.items()}
        return decide(wanted, denied, held)

    async def find_missing(self, place: WatchScope) -> str:
        """The missing permission of a wide scope, or why it can't be reviewed; else empty."""
        if not place.is_wide:
            return ""
        client, served = self._context.client, self._context.settings.watch_namespaces
        try:
            for refusal in scope_permissions(place, served):
                if not await is_allowed(client, refusal.attributes):
                    return f"the operator cannot {refusal}"
        except ApiError as error:
            return str(error)
        return ""

    def open(self, place: WatchScope) -> None:
        """Open a watch; its events are used when it has listed everything."""
        opened = self.opened[place] = OpenWatch(place)

        def changed(name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
            self._take(opened, Ref(place.resource, *name), new)

        spec = WatchSpec(
            resource=place.resource,
            namespace=place.namespace,
            name=place.name,
            metadata_only=True,
            decode=seen,
            wanted=self._wanted[place.resource] if place.is_wide else None,
            reserved=True,
        )
        synced = partial(self._synced, opened)
        opened.registration = self._context.informers.acquire(spec, changed, on_synced=synced)
        if opened.registration.seen:  # another user of an equal watch was there first
            synced()

    def may_end(self, place: WatchScope) -> bool:
        """Whether all that replace it have listed everything, and were compared."""
        others = (self.opened.get(other) for other in self.wanted if other.overlaps(place))
        return all(other is not None and other.compared for other in others)

    def forgets(self, place: WatchScope, *, is_unused: bool) -> bool:
        """Whether it isn't chosen any more, or nothing is named there."""
        names = self._wanted[place.resource].by_namespace
        return is_unused or not names or bool(place.namespace and place.namespace not in names)

    def on_denied(self, place: WatchScope, why: str, *, is_new: bool) -> None:
        """Log it once."""
        log.log(
            logging.INFO if is_new else logging.DEBUG,
            "Can't watch the %s that Bundles reference (%s); watching them by name where possible",
            place,
            why,
        )

    # --- for watches ------------------------------------------------------------------------------

    def _covering(self, ref: Ref) -> OpenWatch | None:
        """The watch whose events are used for an object: the widest that has listed, or None."""
        found = (self.opened.get(scope) for scope in covering_scopes(ref))
        return next((opened for opened in found if opened is not None and opened.listed), None)

    def _take(self, opened: OpenWatch, ref: Ref, new: Seen | None) -> None:
        """Process an event, if it is from the watch whose events are used for the object."""
        followed = self._refs.get(ref)
        if followed is None or self._covering(ref) is not opened:
            return
        version = new.resource_version if new else None
        if version == followed.version or (version is None and followed.version == ""):
            return
        followed.version = version
        followed.changes += 1
        self._requeue(followed, ref)

    def _synced(self, opened: OpenWatch) -> None:
        """A watch has listed everything: use its events from now on, and compare its list."""
        scope = opened.scope
        if self.opened.get(scope) is not opened or opened.registration is None:
            return
        opened.listed = True
        if opened.comparison is not None:
            opened.comparison.cancel()
        compare = self._compare(opened, self._shown_by(scope))
        opened.comparison = asyncio.create_task(compare, name=f"compare {scope}")

    async def _compare(self, opened: OpenWatch, refs: Iterable[Ref]) -> None:
        """Compare a list with what Bundles have read; events are processed meanwhile."""
        time_slice = TimeSlice()
        for ref in refs:
            await time_slice.pause()
            followed, registration = self._refs.get(ref), opened.registration
            if followed is None or registration is None or self._covering(ref) is not opened:
                continue
            found: Seen | None = registration.store.get(ObjectName(ref.namespace, ref.name))
            if found is not None:
                followed.version = found.resource_version
            elif followed.version:  # deleted, or named too late for this list: to be read
                followed.version = None
                followed.changes += 1
            self._requeue(followed, ref)
        opened.compared = True
        self.retire()

    def _shown_by(self, scope: WatchScope) -> Iterable[Ref]:
        names = self._wanted[scope.resource].by_namespace
        return [
            Ref(scope.resource, namespace, name)
            for namespace in (names if scope.namespace is None else [scope.namespace])
            for name in names.get(namespace, ())
            if scope.name in (None, name)
        ]

    def _requeue(self, followed: _FollowedObject, ref: Ref) -> None:
        """Requeue the Bundles that have read another version."""
        for key in followed.bundles:
            if not self._has_read(key, ref, followed.version):
                self._context.schedule.changed(key, Change.REFERENCE)
