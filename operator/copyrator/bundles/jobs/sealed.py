"""Writes and deletes the Secrets of plan Jobs and of planned deploys (plan/seal.py).

Among them are records of what plans were made of besides the chart, which tell what changed since
the deployed one. A record is written before the plan's Job is created, from the values that the Job
gets. It has a signature by the operator's hash key, as whoever may write Secrets in the Bundle's
namespace could replace it to hide a change from who approves.
"""

from __future__ import annotations

import base64
import hmac
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from copyrator.api import names
from copyrator.api.approval import ApprovedPlan, PlanStatus
from copyrator.api.bundle_spec import BundleSpec, ValuesSource
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.docker_config import KEY
from copyrator.api.keys import BundleKey
from copyrator.api.kubeconfig import Kubeconfig
from copyrator.api.object_refs import ValuesKind
from copyrator.api.plan_status import Baseline
from copyrator.api.times import format_time
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.features.approval.operations import Operation, Plan, read_plan
from copyrator.bundles.inputs.reader import ReferenceReader, TakeFiles
from copyrator.bundles.jobs import seal
from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.jobs.redaction import (
    BUNDLE_REDACTION_INLINE_BRACKETS,
    BUNDLE_REDACTION_INLINE_BYTES,
)
from copyrator.bundles.jobs.script import KUBECONFIG, SealedFile
from copyrator.bundles.jobs.seal import (
    FileHash,
    Hashes,
    Inputs,
    SealedValues,
    SealKind,
    SealLabels,
    SourceHash,
)
from copyrator.bundles.pod import owner_reference
from copyrator.kube.errors import AlreadyExists, Forbidden, NotFound, QuotaExceeded
from copyrator.kube.resources import SECRETS
from copyrator.oci.auth import Credential, docker_config
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.isolated import Isolated, IsolatedError

PLAN_INPUT_FILES: Final = 500
"""Values files of a Bundle that are told apart to name what changed since the deployed plan; of
more only the ConfigMap or Secret is named."""

PLAN_INPUT_KEYS: Final = 1_000
"""Top-level keys of all of them together."""

PLAN_INPUT_BYTES: Final = 256 * 1024
"""Bytes of all files whose top-level keys are read: half a second in a child process."""

PLAN_INPUT_BRACKETS: Final = 2_000
"""Brackets and braces in them: YAML's parsing time grows with the square of the depth."""

log = logging.getLogger(__name__)

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
class _SecretsMemory:
    is_tidied: bool = False
    """Whether this process has deleted Secrets that a former one may have left."""


class SealStore:
    """The Secrets of all Bundles.

    Salts and nonces are derived with the operator's hash key from the Job's name, which is
    unique: so they are the same after a restart, and aren't stored.
    """

    def __init__(self, context: Context, references: ReferenceReader) -> None:
        self._context = context
        self._references = references
        self._on_removed: list[Callable[[BundleKey, Callable[[str], bool]], None]] = []
        self.plans = PlanStore(context, self)

    def on_removed(self, listener: Callable[[BundleKey, Callable[[str], bool]], None]) -> None:
        """Have this called after a Bundle's Secrets were removed, with whether a Job's were."""
        self._on_removed.append(listener)

    def derive(self, entry: BundleEntry, job: str, purpose: str) -> str:
        """32 hexadecimal digits, derived with the hash key, which can't be known without it."""
        keyed = self._context.hasher()
        keyed.update(f"{purpose}\0{entry.uid}\0{job}".encode())
        return keyed.hexdigest()[:32]

    async def write_values(
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
        salt = self.derive(entry, job, "salt")
        labels = SealLabels(entry.key.name, job, SealKind.VALUES)
        hashes: list[list[tuple[str, str]]] = []
        pause = TimeSlice()

        async def take(source: ValuesSource, files: Mapping[str, bytes]) -> None:
            name = seal.values_secret(job, len(hashes))
            sealed, encoded = [], {}
            for key in sorted(files):
                sealed.append((key, seal.seal_of(salt, files[key])))
                encoded[key] = base64.b64encode(files[key]).decode()
                await pause.pause()
            hashes.append(sealed)
            await self._create(entry, name, labels, encoded)
            if also is not None:
                await also(source, files)

        found, _ = await self._references.values(entry, spec, take)
        data, render_salt = {seal.SALT: _encode(salt)}, None
        if compares_renders:
            shared = self.derive(entry, "", "render")
            data[seal.RENDER_SALT] = _encode(shared)
            render_salt = seal.sealed_render_salt(seal.seal_of(salt, shared.encode()))
        if hashes or compares_renders:
            await self._create(entry, seal.salt_secret(job), labels, data)
        sources, secret_key = len(hashes), None
        if spec.secret_key is not None:
            ((key, one),) = hashes.pop()  # it is read last
            secret_key = seal.sealed_secret_key(len(hashes), key, one)
        flat = [(i, key, one) for i, source in enumerate(hashes) for key, one in source]
        files = tuple(
            seal.sealed_value(i, number, key, one) for number, (i, key, one) in enumerate(flat)
        )
        return found, SealedValues(job, sources, files, secret_key, render_salt)

    async def write_login(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: str,
        credential: Credential,
        expires: datetime | None = None,
    ) -> None:
        """Write the Secret with the registry's credential alone for a Job (Login.SELECTED).

        One that is there already is replaced: spec.auth may have changed since it was written, or
        somebody else may have written it. A pod that is mounting it tries again.

        With ``expires``, of a token of a cloud, it isn't immutable: a kubelet reads an immutable
        Secret once, and would give a pod that waits for its image the former token.

        Raises:
            ApiError: it can't be written.
        """
        data = {KEY: _encode(docker_config(credential, spec.registry))}
        body = self._body(entry, seal.login_secret(job), job, data)
        what = f"Secret {spec.namespace}/{spec.auth} of spec.auth isn't mounted, as "
        remedy = f"leave one entry, {spec.registry}, in the Secret of spec.auth"
        if expires is not None:
            body["immutable"] = False
            body["metadata"]["annotations"] = {names.ANN_LOGIN_EXPIRES: format_time(expires)}
            what, remedy = "", "use spec.auth in place of spec.provider"
        try:
            await self._replace(body)
        except Forbidden as error:
            raise Forbidden(
                f"{what}a Job gets the credential of {spec.registry} alone, and the operator may "
                f"not write a Secret with that: {error.message}. Set bundles.plans.enabled of the "
                f"chart, or {remedy}",
                details=error.details,
            ) from None

    async def write_kubeconfig(
        self, entry: BundleEntry, job: str, kubeconfig: Kubeconfig, owner: JobRecord | None = None
    ) -> SealedFile:
        """Write the copy of the kubeconfig for a Job; returns what the Job accepts it by.

        One that is there already is replaced before its Job is created, as the credential may have
        changed since.

        Args:
            entry: the Bundle, which owns the copy.
            job: the Job's name.
            kubeconfig: what was read and checked.
            owner: the Job, where it was created already: of an uninstall, as the Bundle is being
                deleted.

        Raises:
            ApiError: it can't be written.
        """
        name, content = seal.kubeconfig_secret(job), kubeconfig.encode()
        data = {
            seal.SALT: _encode(self.derive(entry, job, "salt")),
            KUBECONFIG: base64.b64encode(content).decode(),
        }
        try:
            if owner is None:
                await self._replace(self._body(entry, name, job, data))
            else:
                labels = SealLabels(entry.key.name, job, SealKind.VALUES)
                await self._create(entry, name, labels, data, owner)
        except Forbidden as error:
            raise Forbidden(
                f"Job {job} can't get a copy of the kubeconfig of spec.kubeConfig: the operator "
                f"may not write a Secret with it: {error.message}. Set bundles.plans.enabled of "
                "the chart",
                details=error.details,
            ) from None
        return self.sealed_kubeconfig(entry, job, kubeconfig)

    def sealed_kubeconfig(self, entry: BundleEntry, job: str, found: Kubeconfig) -> SealedFile:
        """What a Job accepts the copy of its kubeconfig by."""
        salt = self.derive(entry, job, "salt")
        return seal.sealed_kubeconfig(seal.seal_of(salt, found.encode()))

    async def store(
        self, entry: BundleEntry, name: str, job: str, kind: SealKind, data: Mapping[str, str]
    ) -> None:
        """Store texts in a Secret of a Job; one that is there already is kept.

        Raises:
            ApiError: it can't be written.
        """
        labels = SealLabels(entry.key.name, job, kind)
        encoded = {key: _encode(text) for key, text in data.items()}
        await self._create(entry, name, labels, encoded)

    async def store_release(self, entry: BundleEntry, slot: int, data: Mapping[str, str]) -> None:
        """Store what the approved plans of the release had; then delete the other slot's.

        Raises:
            ApiError: it can't be written.
        """
        encoded = {key: _encode(text) for key, text in data.items()}
        owner = owner_reference(entry.key.name, entry.uid)
        namespace, bundle = entry.key.namespace, entry.key.name
        labels = SealLabels(bundle, bundle, SealKind.RELEASE)
        name = seal.release_secret(bundle, slot)
        await self._replace(seal.secret(owner, namespace, name, labels, encoded))
        with suppress(NotFound):
            former = seal.release_secret(bundle, 1 - slot)
            await self._context.client.delete(SECRETS, namespace, former)

    async def remove_values(self, entry: BundleEntry, job: str | None) -> None:
        """Delete the copies of values that were written for a Job."""
        if job:
            await self._remove(entry, SealLabels(entry.key.name, job, SealKind.VALUES).selector)
            self._report_removed(entry.key, job.__eq__)

    async def remove_job(self, entry: BundleEntry, job: str) -> None:
        """Delete all Secrets of a Job."""
        await self._remove(entry, seal.of_job(entry.key.name, job))
        self._report_removed(entry.key, job.__eq__)

    async def remove_others(self, entry: BundleEntry, kept: Iterable[str | None]) -> None:
        """Delete the Secrets of all the Bundle's Jobs except these."""
        names_kept = {job for job in kept if job}
        await self._remove(entry, seal.others(entry.key.name, names_kept))
        self._report_removed(entry.key, lambda job: job not in names_kept)
        self.set_tidied(entry.key)

    def is_tidied(self, key: BundleKey) -> bool:
        """Whether this process has deleted a Bundle's Secrets that a former one may have left."""
        memory = self._context.memories.find(key, _SecretsMemory)
        return memory is not None and memory.is_tidied

    def set_tidied(self, key: BundleKey) -> None:
        """Record that a former process has left none, or that they were deleted."""
        self._context.memories.of(key, _SecretsMemory).is_tidied = True

    def _report_removed(self, key: BundleKey, is_removed: Callable[[str], bool]) -> None:
        for listener in self._on_removed:
            listener(key, is_removed)

    async def _remove(self, entry: BundleEntry, selector: str) -> None:
        """Delete Secrets; on an error they are deleted with the Bundle, their owner."""
        memory = self._context.memories.of(entry.key, _SecretsMemory)
        known, memory.is_tidied = memory.is_tidied, False  # where this fails, it is repeated
        path = SECRETS.path(entry.key.namespace)
        try:
            await self._context.client.request("DELETE", path, params={"labelSelector": selector})
        except (NotFound, Forbidden) as error:
            log.debug("%s: Secrets with %s can't be deleted: %s", entry.key, selector, error)
        memory.is_tidied = known

    @staticmethod
    def _body(entry: BundleEntry, name: str, job: str, data: Mapping[str, str]) -> dict[str, Any]:
        """A Secret of a Job that the Bundle owns."""
        labels, owner = SealLabels(entry.key.name, job, SealKind.VALUES), _owner(entry)
        return seal.secret(owner, entry.key.namespace, name, labels, data)

    async def _replace(self, body: Mapping[str, Any]) -> None:
        """Write a Secret of a Job, which may have another content than one that is there."""
        client, metadata = self._context.client, body["metadata"]
        try:
            await client.create(SECRETS, metadata["namespace"], body)
        except (AlreadyExists, QuotaExceeded):  # one that is there counts against a quota
            with suppress(NotFound):
                await client.delete(SECRETS, metadata["namespace"], metadata["name"])
            await client.create(SECRETS, metadata["namespace"], body)

    async def _create(
        self,
        entry: BundleEntry,
        name: str,
        labels: SealLabels,
        data: Mapping[str, str],
        job: JobRecord | None = None,
    ) -> None:
        """Create a Secret that the Bundle owns, or a Job."""
        key, owner = entry.key, _owner(entry)
        if job is not None:
            owner = owner_reference(key.name, entry.uid)
            owner |= {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.uid}
        body = seal.secret(owner, key.namespace, name, labels, data)
        try:
            await self._context.client.create(SECRETS, key.namespace, body)
        except AlreadyExists:  # by this operator; if not, the Job's hash check fails
            log.debug("%s: Secret %s exists already", key, name)


def _owner(entry: BundleEntry) -> dict[str, Any] | None:
    """The Bundle; None while it is being deleted: a foreground deletion would delete the Secret.

    What has no owner is deleted before the Bundle's finalizer is removed.
    """
    return None if entry.deleting else owner_reference(entry.key.name, entry.uid)


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
        salt, name = self._seals.derive(entry, job, "salt"), seal.operations_secret(job)
        data = {seal.SALT: salt, seal.OPERATIONS: text}
        await self._seals.store(entry, name, job, SealKind.OPERATIONS, data)
        self._remember(entry, job, text)
        return seal.seal_of(salt, text.encode())

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
        return seal.seal_of(salt, content) == kept.seal

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
        name = seal.operations_secret(kept.job)
        try:
            body = await self._context.client.get(SECRETS, entry.key.namespace, name)
            content = base64.b64decode((body.get("data") or {}).get(seal.OPERATIONS) or "")
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


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


_INPUTS: Final = "inputs"
_SIGNATURE: Final = "signature"
_PURPOSE: Final = "inputs"


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
            hashes[name] = seal.keyed_hash(self.key, name.encode(), files[name])
            await pause.pause()
        name = f"{source.kind} {source.name}"
        if again := sum(one.name.partition(" (")[0] == name for one in self._sources):
            name += f" ({again + 1})"  # it is named twice, perhaps as spec.secretKey
        parts = (part.encode() for pair in hashes.items() for part in pair)
        whole = seal.keyed_hash(self.key, *parts)
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
            found = seal.key_hashes_of(self.key, parsed)
        else:
            try:
                found = await self.isolated.call(
                    seal.key_hashes_of, self.namespace, self.key, parsed
                )
            except IsolatedError:
                return {}
        self._keys += sum(len(one or ()) for one in found.values())
        return found if self._keys <= PLAN_INPUT_KEYS else {}

    def result(self) -> Inputs:
        """The record of all sources and the variables."""
        env = {
            name: seal.keyed_hash(self.key, name.encode(), value.encode())
            for name, value in self.env.items()
        }
        return Inputs(tuple(self._sources), env)


class InputsStore:
    """The records of all Bundles' plans."""

    def __init__(self, context: Context, seals: SealStore, isolated: Isolated) -> None:
        self._context = context
        self._seals = seals
        self._isolated = isolated

    def begin(self, entry: BundleEntry, spec: BundleSpec) -> InputsReader:
        """Begin the record of a plan whose Job is made of this spec."""
        key = self._seals.derive(entry, "", _PURPOSE).encode()
        return InputsReader(key, entry.key.namespace, self._isolated, spec.env)

    async def store(self, entry: BundleEntry, job: str, reader: InputsReader) -> None:
        """Store the record of a plan before its Job is created.

        Raises:
            ApiError: it can't be written.
        """
        text = reader.result().to_text()
        data = {_INPUTS: text, _SIGNATURE: self._signature(entry, job, text)}
        await self._seals.store(entry, seal.inputs_secret(job), job, SealKind.INPUTS, data)

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
        return seal.find_changes(before, now), ""

    async def _read(self, entry: BundleEntry, job: str) -> Inputs:
        name = seal.inputs_secret(job)
        try:
            body = await self._context.client.get(SECRETS, entry.key.namespace, name)
        except NotFound:
            raise _UnknownError(f"Secret {name} was deleted") from None
        except Forbidden as error:
            raise _UnknownError(f"Secret {name} can't be read: {error.message}") from None
        try:
            data = {key: base64.b64decode(one) for key, one in (body.get("data") or {}).items()}
            text, signature = data[_INPUTS].decode(), data[_SIGNATURE]
        except (KeyError, ValueError):
            text, signature = "", b""
        if not hmac.compare_digest(signature, self._signature(entry, job, text).encode()):
            raise _UnknownError(
                f"Secret {name} isn't what the operator wrote, or its hash key has changed"
            )
        return seal.read_inputs(text)

    def _signature(self, entry: BundleEntry, job: str, text: str) -> str:
        key = self._seals.derive(entry, job, f"{_PURPOSE} signature").encode()
        return seal.keyed_hash(key, text.encode())
