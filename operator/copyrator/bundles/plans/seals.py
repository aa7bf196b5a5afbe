"""Writes and deletes the Secrets of plan Jobs and of planned deploys (policy.jobs.seal)."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Mapping

from copyrator.api.bundle_spec import BundleSpec, ValuesSource
from copyrator.api.plan_status import ApprovedPlan, Baseline
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.jobs import seal
from copyrator.bundles.policy.jobs.manifest import owner_reference
from copyrator.bundles.policy.jobs.seal import SealedValues, SealKind, SealLabels
from copyrator.bundles.policy.plans.operations import Plan, read_plan
from copyrator.bundles.references.reader import References, TakeFiles
from copyrator.kube.errors import AlreadyExists, Forbidden, NotFound
from copyrator.kube.resources import SECRETS
from copyrator.workqueue.timeslice import TimeSlice

log = logging.getLogger(__name__)


class Seals:
    """The Secrets of all Bundles.

    Salts and nonces are derived with the operator's hash key from the Job's name, which is
    unique: so they are the same after a restart, and aren't stored.
    """

    def __init__(self, context: Context, references: References) -> None:
        self._context = context
        self._references = references

    def derived(self, entry: BundleEntry, job: str, purpose: str) -> str:
        """32 hexadecimal digits, derived with the hash key, which can't be known without it."""
        keyed = self._context.hasher()
        keyed.update(f"{purpose}\0{entry.uid}\0{job}".encode())
        return keyed.hexdigest()[:32]

    async def values(
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
        salt = self.derived(entry, job, "salt")
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
        data, render_salt = {seal.SALT: _encoded(salt)}, None
        if compares_renders:
            shared = self.derived(entry, "", "render")
            data[seal.RENDER_SALT] = _encoded(shared)
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

    async def store(
        self, entry: BundleEntry, name: str, job: str, kind: SealKind, data: Mapping[str, str]
    ) -> None:
        """Store texts in a Secret of a Job; one that is there already is kept.

        Raises:
            ApiError: it can't be written.
        """
        labels = SealLabels(entry.key.name, job, kind)
        encoded = {key: _encoded(text) for key, text in data.items()}
        await self._create(entry, name, labels, encoded)

    async def store_operations(self, entry: BundleEntry, job: str, text: str) -> str:
        """Store the operations that a plan Job found; returns the seal that a deploy checks."""
        salt = self.derived(entry, job, "salt")
        data = {seal.SALT: _encoded(salt), seal.OPERATIONS: _encoded(text)}
        labels = SealLabels(entry.key.name, job, SealKind.OPERATIONS)
        await self._create(entry, seal.operations_secret(job), labels, data)
        return seal.seal_of(salt, text.encode())

    async def operations(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan; None where there is none, it was changed, or it can't be read."""
        try:
            return await self.read_operations(entry, kept)
        except Forbidden:
            return None

    async def read_operations(
        self, entry: BundleEntry, kept: ApprovedPlan | Baseline
    ) -> Plan | None:
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
        if seal.seal_of(self.derived(entry, kept.job, "salt"), content) != kept.seal:
            return None
        return read_plan(content.decode())

    async def remove_values(self, entry: BundleEntry, job: str | None) -> None:
        """Delete the copies of values that were written for a Job."""
        if job:
            await self._remove(entry, SealLabels(entry.key.name, job, SealKind.VALUES).selector)

    async def remove_job(self, entry: BundleEntry, job: str) -> None:
        """Delete all Secrets of a Job."""
        await self._remove(entry, seal.of_job(entry.key.name, job))

    async def remove_others(self, entry: BundleEntry, kept: Iterable[str | None]) -> None:
        """Delete the Secrets of all the Bundle's Jobs except these."""
        await self._remove(entry, seal.others(entry.key.name, (job for job in kept if job)))

    async def _remove(self, entry: BundleEntry, selector: str) -> None:
        """Delete Secrets; on an error they are deleted with the Bundle, their owner."""
        path = SECRETS.path(entry.key.namespace)
        try:
            await self._context.client.request("DELETE", path, params={"labelSelector": selector})
        except (NotFound, Forbidden) as error:
            log.debug("%s: Secrets with %s can't be deleted: %s", entry.key, selector, error)

    async def _create(
        self, entry: BundleEntry, name: str, labels: SealLabels, data: Mapping[str, str]
    ) -> None:
        key = entry.key
        body = seal.secret(owner_reference(key.name, entry.uid), key.namespace, name, labels, data)
        try:
            await self._context.client.create(SECRETS, key.namespace, body)
        except AlreadyExists:  # by this operator; if not, the Job's hash check fails
            log.debug("%s: Secret %s exists already", key, name)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
