"""The Secrets of plans: values, operations, what they were made of, and what releases have.

Whoever may write Secrets in the Bundle's namespace could replace them. So a Job checks what it gets
by salted hashes, and what only the operator reads has a signature by its hash key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from copyrator.api.bundle_spec import BundleSpec, ValuesSource
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.object_refs import ValuesKind
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.references import ReferenceReader, TakeFiles
from copyrator.bundles.engine.sealed import SealKind, SealStore
from copyrator.bundles.jobs.redaction import (
    BUNDLE_REDACTION_INLINE_BRACKETS,
    BUNDLE_REDACTION_INLINE_BYTES,
)
from copyrator.bundles.jobs.script import SALT, seal_of
from copyrator.bundles.plans.fields import ApprovedPlan, Baseline, PlanStatus
from copyrator.bundles.plans.inputs import (
    FileHash,
    Hashes,
    Inputs,
    SourceHash,
    find_changes,
    key_hashes_of,
    read_inputs,
)
from copyrator.bundles.plans.operations import (
    NO_OBJECTS,
    PLAN_BYTES,
    Operation,
    OperationType,
    Plan,
    RenderedObjects,
    read_objects,
    read_operation,
    read_plan,
)
from copyrator.bundles.plans.orders import (
    OPERATIONS,
    RENDER_SALT,
    SealedValues,
    salt_secret,
    sealed_render_salt,
    sealed_secret_key,
    sealed_value,
    values_secret,
)
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import SECRETS
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.isolated import Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


_SIGNATURE: Final = "signature"


class PlanSecret(StrEnum):
    """The content of a Secret of a plan's Job, and how long it is kept."""

    OPERATIONS = "operations"
    """A plan: until another one replaces it."""
    INPUTS = "inputs"
    """Hashes of values and variables: likewise, and while its plan is the deployed one."""


def operations_secret(job: str) -> str:
    """Name of the Secret with the operations that a plan Job found, and their salt."""
    return f"{job}-operations"


def inputs_secret(job: str) -> str:
    """Name of the Secret with the hashes of what a plan was made of besides the chart."""
    return f"{job}-inputs"


def release_secret(bundle: str, slot: int) -> str:
    """Name of a Secret with what the approved plans of a Bundle's release had."""
    return f"{bundle}-release-objects-{slot}"


def keyed_hash(key: bytes, *parts: bytes) -> str:
    """The hash of some parts that only who has the key can compute: 32 hexadecimal digits."""
    found = hashlib.blake2b(key=key, digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8) + part)
    return found.hexdigest()


def signed(part: str, text: str, key: bytes) -> dict[str, str]:
    """What a Secret has of a text: whoever may write Secrets there could replace it."""
    return {part: text, _SIGNATURE: keyed_hash(key, text.encode())}


async def read_signed(
    client: KubeClient, entry: BundleEntry, name: str, part: str, key: bytes
) -> str | None:
    """The text of such a Secret of a Bundle; None where it has none with a valid signature.

    Raises:
        ApiError: it can't be read.
    """
    body = await client.get(SECRETS, entry.key.namespace, name)
    try:
        data = {one: base64.b64decode(text) for one, text in (body.get("data") or {}).items()}
        text, signature = data[part].decode(), data[_SIGNATURE]
    except (KeyError, ValueError):
        return None
    valid = keyed_hash(key, text.encode()).encode()
    return text if hmac.compare_digest(signature, valid) else None


@dataclass(frozen=True, slots=True)
class ValuesSealer:
    """Writes the copies of the values of all Bundles, each for one Job."""

    seals: SealStore
    references: ReferenceReader

    async def write(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: str,
        also: TakeFiles | None = None,
        *,
        compares_renders: bool = True,
    ) -> tuple[str | None, SealedValues]:
        """Write copies of a Bundle's values for a Job; returns the values' hash and the copies.

        ``also`` is called with the files of each source.

        ``compares_renders``: the Job also gets the salt of the hash of renders, which is the same
        in all Jobs of the Bundle, so that hashes can be compared and contents can't be guessed.

        Raises:
            MissingReferenceError: a source doesn't exist, or the values are too large.
            ApiError: a Secret can't be written.
        """
        salt, pause = self.seals.derive(entry, job, "salt"), TimeSlice()
        hashes: list[list[tuple[str, str]]] = []
        origins: list[str] = []

        async def take(source: ValuesSource, files: Mapping[str, bytes]) -> None:
            sealed = []
            for key in sorted(files):
                sealed.append((key, seal_of(salt, files[key])))
                await pause.pause()
            name = values_secret(job, len(hashes))
            hashes.append(sealed)
            origins.append(f"{source.kind}/{source.name}")
            await self.seals.store(entry, name, job, SealKind.VALUES, dict(sorted(files.items())))
            if also is not None:
                await also(source, files)

        found, _ = await self.references.values(entry, spec, take)
        data, render_salt = {SALT: salt}, None
        if compares_renders:
            data[RENDER_SALT] = shared = self.seals.derive(entry, "", "render")
            render_salt = sealed_render_salt(seal_of(salt, shared.encode()))
        if hashes or compares_renders:
            await self.seals.store(entry, salt_secret(job), job, SealKind.VALUES, data)
        flat = [(i, key, one) for i, source in enumerate(hashes) for key, one in source]
        files = [sealed_value(i, number, key, one) for number, (i, key, one) in enumerate(flat)]
        if spec.secret_key is not None:  # it is read last
            files[-1] = sealed_secret_key(*flat[-1])
        return found, SealedValues(job, len(hashes), tuple(files), render_salt, tuple(origins))


_REMEMBERED: Final = 2
"""Plans of a Bundle that are kept in memory: of the deploy, and of the check for drift."""
_REMEMBERED_BYTES: Final = 16 * 1024
"""Bytes of one that is kept, compressed: some thousand operations."""


@dataclass(frozen=True, slots=True)
class RollbackHooks:
    """The hooks that a rollback to what is deployed makes, as approved for that."""

    operations: tuple[Operation, ...] = ()
    unknown: str = ""
    """Why they aren't known, as a sentence without a full stop; empty: they are."""


@dataclass(slots=True)
class StoredPlans:
    """The last plans of a Bundle that were stored."""

    texts: dict[str, bytes] = field(default_factory=dict)
    """Compressed, by their Jobs' names."""


class PlanStore:
    """The operations that plans found, in Secrets."""

    def __init__(self, context: Context, seals: SealStore) -> None:
        self._context = context
        self._seals = seals

    async def store(self, entry: BundleEntry, job: str, text: str) -> str:
        """Store the operations that a plan Job found; returns the seal that a deploy checks."""
        salt, name = self._seals.derive(entry, job, "salt"), operations_secret(job)
        data = {SALT: salt, OPERATIONS: text}
        await self._seals.store(entry, name, job, PlanSecret.OPERATIONS, data)
        self._remember(entry, job, text)
        return seal_of(salt, text.encode())

    def _remember(self, entry: BundleEntry, job: str, text: str) -> None:
        """Keep a plan that is small, so that its deploy reads no Secret."""
        kept = self._context.memories.of(entry.key, StoredPlans).texts
        compressed = zlib.compress(text.encode())
        if len(compressed) <= _REMEMBERED_BYTES:
            kept[job] = compressed
        while len(kept) > _REMEMBERED:
            del kept[next(iter(kept))]

    def is_sealed(self, entry: BundleEntry, kept: ApprovedPlan | Baseline, content: bytes) -> bool:
        """Whether it is the text of the plan that was stored."""
        salt = self._seals.derive(entry, kept.job or "", "salt")
        return seal_of(salt, content) == kept.seal

    async def find(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan; None where there is none, it was changed, or it can't be read."""
        try:
            return await self.read(entry, kept)
        except Forbidden:
            return None

    async def read(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan; None where there is none, or it was changed.

        Raises:
            ApiError: it can't be read.
        """
        if kept.job is None:
            return None
        name = operations_secret(kept.job)
        try:
            body = await self._context.client.get(SECRETS, entry.key.namespace, name)
            content = base64.b64decode((body.get("data") or {}).get(OPERATIONS) or "")
        except (NotFound, ValueError):
            return None
        return read_plan(content.decode()) if self.is_sealed(entry, kept, content) else None

    async def recall(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan as ``read`` finds it, without a request where this process stored it.

        Raises:
            ApiError: it can't be read.
        """
        memory = self._context.memories.find(entry.key, StoredPlans)
        known = memory.texts.get(kept.job or "") if memory is not None else None
        if known is None:
            return await self.read(entry, kept)
        content = zlib.decompress(known)
        return read_plan(content.decode()) if self.is_sealed(entry, kept, content) else None

    async def find_rollback_hooks(self, entry: BundleEntry) -> RollbackHooks:
        """The hooks of a rollback to the deployed version.

        Raises:
            ApiError: its plan can't be read now.
        """
        there = entry.status.deployed
        if there.digest is None:
            return RollbackHooks()  # nothing to roll back to
        hooks = f"the hooks for a rollback to {there.version} aren't known"
        if there.plan_job is None:
            return RollbackHooks(unknown=f"{hooks}, as it was deployed without a plan")
        kept = ApprovedPlan(job=there.plan_job, seal=there.plan_seal)
        try:
            stored = await self.recall(entry, kept)
        except Forbidden as error:
            return RollbackHooks(unknown=f"{hooks}, as its plan can't be read: {error.message}")
        if stored is None:
            return RollbackHooks(unknown=f"{hooks}, as its plan was deleted or changed")
        return RollbackHooks(stored.objects.rollback_hooks)


_MOST_PLANS: Final = 20
"""Plans that are recorded by name while what was deployed before isn't known."""
_RECORD: Final = "record"


@dataclass(frozen=True, slots=True)
class ReleaseInventory:
    """The union of the approved plans that were attempted since the release began.

    An uninstall may delete what they named, and make only their hooks. That is never read from the
    stored release, which a chart may have drawn.
    """

    objects: RenderedObjects = NO_OBJECTS
    is_whole: bool = False
    """Whether it has all plans of what is deployed, or was attempted after that."""
    plans: tuple[str, ...] = ()
    """Without that, the Jobs of the plans that it has: one of them may be deployed."""

    def with_plan(
        self, job: str, objects: RenderedObjects, status: BundleStatus
    ) -> ReleaseInventory:
        """Also of a plan whose attempt begins.

        Args:
            job: that made the plan.
            objects: of the plan.
            status: of the Bundle, with the new attempt.
        """
        union = self._add(objects)
        is_first = not status.has_deployed and (status.attempted.attempt or 1) <= 1
        if is_first or self.is_complete(status):
            return ReleaseInventory(union, is_whole=True)
        plans = tuple(one for one in self.plans if one != job)
        return ReleaseInventory(union, plans=(*plans[1 - _MOST_PLANS :], job))

    def complete_with(self, objects: RenderedObjects) -> ReleaseInventory:
        """Also of what is deployed, as it was rendered."""
        return ReleaseInventory(self._add(objects), is_whole=True)

    def _add(self, objects: RenderedObjects) -> RenderedObjects:
        before = self.objects
        return RenderedObjects(
            before.inventory | objects.inventory,
            before.hooks | objects.hooks,
            (),
            tuple(sorted({*before.uninstall_hooks, *objects.uninstall_hooks}, key=str)),
            before.as_account | objects.as_account,
        )

    def is_complete(self, status: BundleStatus) -> bool:
        """Whether it has what is deployed."""
        return self.is_whole or (
            status.deployed.plan_job is not None and status.deployed.plan_job in self.plans
        )

    def to_text(self) -> str:
        """The record, as ``read_release`` reads it."""
        record = {"objects": self.objects.lines(), "whole": self.is_whole, "plans": self.plans}
        return json.dumps(record)

    @property
    def deletions(self) -> tuple[Operation, ...]:
        """What an uninstall may delete."""
        found = (read_operation(f"{OperationType.DELETE} {one}") for one in self.objects.inventory)
        return tuple(sorted((one for one in found if one is not None), key=str))

    @property
    def hooks_as_account(self) -> frozenset[Operation]:
        """The hooks of an uninstall that run as the deploying account."""
        hooks, ours = self.objects.uninstall_hooks, self.objects.as_account
        return frozenset(one for one in hooks if one.object in ours)


def read_release(text: str) -> ReleaseInventory | None:
    """Parse ``ReleaseInventory.to_text``; only records with a valid signature are parsed."""
    raw = json.loads(text)
    objects = read_objects(raw["objects"])
    if objects is None:
        return None
    return ReleaseInventory(objects, is_whole=raw["whole"], plans=tuple(raw["plans"]))


class InventoryStore:
    """The Secrets with the objects of all releases that are deployed by approved plans.

    One is owned by the Bundle until that is gone. One of two names is free, so that the next one is
    there before the former one is deleted.
    """

    def __init__(self, client: KubeClient, seals: SealStore) -> None:
        self._client = client
        self._seals = seals

    async def add(self, entry: BundleEntry, job: str, plan: Plan) -> None:
        """Add the objects of a plan, before the Job of its attempt is created.

        It writes only where something is added. What no longer fits into a Secret begins anew, and
        is whole once this plan is deployed.

        Raises:
            ApiError: it can't be read or written.
        """
        try:
            known, slot = await self._newest(entry)
        except Forbidden:
            return  # with bundles.allowedSecrets: it would be lost
        after = (known or ReleaseInventory()).with_plan(job, plan.objects, entry.status)
        if after == known:
            return
        if len(text := after.to_text()) > PLAN_BYTES:
            text = replace(after, objects=plan.objects, is_whole=False, plans=(job,)).to_text()
        data = signed(_RECORD, text, self._key(entry))
        bundle = entry.key.name
        name = release_secret(bundle, 1 - slot)
        await self._seals.store(entry, name, bundle, SealKind.RELEASE, data, replaces=True)
        with suppress(NotFound):
            former = release_secret(bundle, slot)
            await self._client.delete(SECRETS, entry.key.namespace, former)

    async def find(self, entry: BundleEntry) -> ReleaseInventory:
        """What is known of the Bundle's release; of an edited Secret nothing is.

        Raises:
            ApiError: it can't be read now.
        """
        try:
            known, _ = await self._newest(entry)
        except Forbidden:
            known = None
        return known or ReleaseInventory()

    async def _newest(self, entry: BundleEntry) -> tuple[ReleaseInventory | None, int]:
        """The newest record and its slot; without one the first slot is free."""
        slots = [(await self._read(entry, slot), slot) for slot in (0, 1)]
        found = [(one, slot) for one, slot in slots if one is not None]
        return max(found, key=lambda pair: _size(pair[0]), default=(None, 1))

    async def _read(self, entry: BundleEntry, slot: int) -> ReleaseInventory | None:
        name = release_secret(entry.key.name, slot)
        try:
            text = await read_signed(self._client, entry, name, _RECORD, self._key(entry))
        except NotFound:
            return None
        return None if text is None else read_release(text)

    def _key(self, entry: BundleEntry) -> bytes:
        return self._seals.derive(entry, "", "release objects").encode()


def _size(one: ReleaseInventory) -> tuple[int, bool, int]:
    """Of two records the larger one is the newer one: after a crash both are there."""
    return len(one.objects.lines()), one.is_whole, len(one.plans)


PLAN_INPUT_FILES: Final = 500
"""Values files of a Bundle that are told apart to name what changed since the deployed plan; of
more only the ConfigMap or Secret is named."""

PLAN_INPUT_KEYS: Final = 1_000
"""Top-level keys of all of them together."""

PLAN_INPUT_BYTES: Final = 256 * 1024
"""Bytes of all files whose top-level keys are read: half a second in a child process."""

PLAN_INPUT_BRACKETS: Final = 2_000
"""Brackets and braces in them: YAML's parsing time grows with the square of the depth."""

_INPUTS: Final = "inputs"


class _UnknownError(Exception):
    """A record can't be used; the message says why."""


@dataclass(slots=True)
class InputsReader:
    """Computes the record of a plan while its values are read, one source at a time."""

    key: bytes
    namespace: str
    isolated: Isolated
    env: Mapping[str, str]
    _sources: list[SourceHash] = field(default_factory=list)
    _files: int = 0
    _keys: int = 0
    _bytes: int = 0
    _brackets: int = 0

    async def add(self, source: ValuesSource, files: Mapping[str, bytes]) -> None:
        """Add the next source of the Bundle's values."""
        pause = TimeSlice()
        hashes: dict[str, str] = {}
        for name in sorted(files):
            hashes[name] = keyed_hash(self.key, name.encode(), files[name])
            await pause.pause()
        name = f"{source.kind} {source.name}"
        if again := sum(one.name.partition(" (")[0] == name for one in self._sources):
            name += f" ({again + 1})"  # it is named twice, perhaps as spec.secretKey
        parts = (part.encode() for pair in hashes.items() for part in pair)
        whole = keyed_hash(self.key, *parts)
        self._files += len(files)
        if self._files > PLAN_INPUT_FILES:
            self._sources.append(SourceHash(name, whole))
            return
        keys: Mapping[str, Hashes | None] = {}
        if source.kind is ValuesKind.CONFIG_MAP:
            keys = await self._key_hashes(files)
        found = {one: FileHash(hash_, keys.get(one)) for one, hash_ in hashes.items()}
        self._sources.append(SourceHash(name, whole, found))

    async def _key_hashes(self, files: Mapping[str, bytes]) -> Mapping[str, Hashes | None]:
        """The hashes of the files' top-level keys, as far as the limits go."""
        parsed, size, brackets = {}, 0, 0
        for name, content in sorted(files.items()):
            number = content.count(b"[") + content.count(b"{")
            is_long = self._bytes + size + len(content) > PLAN_INPUT_BYTES
            if is_long or self._brackets + brackets + number > PLAN_INPUT_BRACKETS:
                continue
            size, brackets = size + len(content), brackets + number
            parsed[name] = content
        self._bytes += size
        self._brackets += brackets
        is_small = size <= BUNDLE_REDACTION_INLINE_BYTES
        if is_small and brackets <= BUNDLE_REDACTION_INLINE_BRACKETS:
            found = key_hashes_of(self.key, parsed)
        else:
            try:
                found = await self.isolated.call(key_hashes_of, self.namespace, self.key, parsed)
            except IsolatedError:
                return {}
        self._keys += sum(len(one or ()) for one in found.values())
        return found if self._keys <= PLAN_INPUT_KEYS else {}

    def result(self) -> Inputs:
        """The record of all sources and the variables."""
        env = {
            name: keyed_hash(self.key, name.encode(), value.encode())
            for name, value in self.env.items()
        }
        return Inputs(tuple(self._sources), env)


class InputsStore:
    """The records of what all Bundles' plans were made of (``inputs.py``).

    Each is written before the plan's Job is created, from the values that the Job gets.
    """

    def __init__(self, context: Context, seals: SealStore, isolated: Isolated) -> None:
        self._context = context
        self._seals = seals
        self._isolated = isolated

    def begin(self, entry: BundleEntry, spec: BundleSpec) -> InputsReader:
        """Begin the record of a plan whose Job is made of this spec."""
        key = self._seals.derive(entry, "", "inputs").encode()
        return InputsReader(key, entry.key.namespace, self._isolated, spec.env)

    async def store(self, entry: BundleEntry, job: str, reader: InputsReader) -> None:
        """Store the record of a plan before its Job is created.

        Raises:
            ApiError: it can't be written.
        """
        text = reader.result().to_text()
        data = signed(_INPUTS, text, self._key(entry, job))
        await self._seals.store(entry, inputs_secret(job), job, PlanSecret.INPUTS, data)

    async def find_changes(
        self, entry: BundleEntry, status: BundleStatus
    ) -> tuple[tuple[str, ...], str]:
        """What changed since the deployed plan, and why that isn't known; both empty before it.

        Raises:
            ApiError: a record can't be read now.
        """
        there = status.deployed
        if there.digest is None:
            return (), ""
        try:
            if there.plan_job is None:
                raise _UnknownError("what is deployed was deployed without a plan")
            before = await self._read(entry, there.plan_job)
            now = await self._read(entry, status.part(PlanStatus).job or "")
        except _UnknownError as error:
            return (), f"what changed isn't known: {error}"
        return find_changes(before, now), ""

    async def _read(self, entry: BundleEntry, job: str) -> Inputs:
        name = inputs_secret(job)
        try:
            key = self._key(entry, job)
            text = await read_signed(self._context.client, entry, name, _INPUTS, key)
        except NotFound:
            raise _UnknownError(f"Secret {name} was deleted") from None
        except Forbidden as error:
            raise _UnknownError(f"Secret {name} can't be read: {error.message}") from None
        if text is None:
            raise _UnknownError(
                f"Secret {name} isn't what the operator wrote, or its hash key has changed"
            )
        return read_inputs(text)

    def _key(self, entry: BundleEntry, job: str) -> bytes:
        return self._seals.derive(entry, job, "inputs signature").encode()
