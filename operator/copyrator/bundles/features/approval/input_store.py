"""The records of what plans were made of (``inputs.py``), in Secrets.

A record is written before the plan's Job is created, from the values that the Job gets. It has a
signature by the operator's hash key, as whoever may write Secrets in the Bundle's namespace could
replace it to hide a change from who approves.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from copyrator.api.bundle_spec import BundleSpec, ValuesSource
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.object_refs import ValuesKind
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.features.approval.fields import PlanStatus
from copyrator.bundles.features.approval.inputs import (
    FileHash,
    Hashes,
    Inputs,
    SourceHash,
    find_changes,
    key_hashes_of,
    read_inputs,
)
from copyrator.bundles.features.approval.secrets import PlanSecret, inputs_secret, keyed_hash
from copyrator.bundles.jobs.redaction import (
    BUNDLE_REDACTION_INLINE_BRACKETS,
    BUNDLE_REDACTION_INLINE_BYTES,
)
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import SECRETS
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
        return read_inputs(text)

    def _signature(self, entry: BundleEntry, job: str, text: str) -> str:
        key = self._seals.derive(entry, job, f"{_PURPOSE} signature").encode()
        return keyed_hash(key, text.encode())
