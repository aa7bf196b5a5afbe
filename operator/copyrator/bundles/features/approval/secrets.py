"""The Secrets of plans: their names and kinds, and the copies of values for a Job."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from copyrator.api.bundle_spec import BundleSpec, ValuesSource
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.features.approval.orders import (
    RENDER_SALT,
    SealedValues,
    salt_secret,
    sealed_render_salt,
    sealed_secret_key,
    sealed_value,
    values_secret,
)
from copyrator.bundles.inputs.reader import ReferenceReader, TakeFiles
from copyrator.bundles.jobs.script import SALT, seal_of
from copyrator.bundles.jobs.sealed import SealKind, SealStore
from copyrator.workqueue.fairness import TimeSlice


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

        async def take(source: ValuesSource, files: Mapping[str, bytes]) -> None:
            sealed = []
            for key in sorted(files):
                sealed.append((key, seal_of(salt, files[key])))
                await pause.pause()
            name = values_secret(job, len(hashes))
            hashes.append(sealed)
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
        return found, SealedValues(job, len(hashes), tuple(files), render_salt)
