"""Writes and deletes the Secrets of Jobs: copies of values, of logins and of kubeconfigs."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec, ValuesSource
from copyrator.api.docker_config import KEY
from copyrator.api.keys import BundleKey
from copyrator.api.kubeconfig import Kubeconfig
from copyrator.api.text import format_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.references import ReferenceReader, TakeFiles
from copyrator.bundles.jobs import seal
from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.jobs.pod import owner_reference
from copyrator.bundles.jobs.script import KUBECONFIG, SealedFile
from copyrator.bundles.jobs.seal import SealedValues, SealKind, SealLabels
from copyrator.kube.errors import AlreadyExists, Forbidden, NotFound, QuotaExceeded
from copyrator.kube.resources import SECRETS
from copyrator.oci.auth import Credential, docker_config
from copyrator.workqueue.fairness import TimeSlice

log = logging.getLogger(__name__)


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
        self, entry: BundleEntry, name: str, job: str, kind: str, data: Mapping[str, str]
    ) -> None:
        """Store texts in a Secret of a Job; one that is there already is kept.

        Raises:
            ApiError: it can't be written.
        """
        labels = SealLabels(entry.key.name, job, kind)
        encoded = {key: _encode(text) for key, text in data.items()}
        await self._create(entry, name, labels, encoded)

    async def replace(
        self, entry: BundleEntry, name: str, labels: SealLabels, data: Mapping[str, str]
    ) -> None:
        """Store texts in a Secret of the Bundle, in place of one that is there already.

        Raises:
            ApiError: it can't be written.
        """
        encoded = {key: _encode(text) for key, text in data.items()}
        await self._replace(seal.secret(_owner(entry), entry.key.namespace, name, labels, encoded))

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


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
