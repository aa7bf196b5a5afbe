"""Writes and deletes the Secrets of Jobs: copies of values, of logins and of kubeconfigs."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.docker_config import KEY
from copyrator.api.keys import BundleKey
from copyrator.api.kubeconfig import Kubeconfig
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import ERROR_SECONDS
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Features
from copyrator.bundles.engine.step import AT_ONCE
from copyrator.bundles.jobs.job import kubeconfig_secret, login_secret
from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.jobs.pod import owner_reference
from copyrator.bundles.jobs.script import KUBECONFIG, SALT, SealedFile, seal_of, sealed_kubeconfig
from copyrator.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound, QuotaExceeded
from copyrator.kube.resources import SECRETS
from copyrator.oci.auth import Credential, docker_config
from copyrator.workqueue.fairness import TimeSlice

log = logging.getLogger(__name__)


class SealKind(StrEnum):
    """The content of a Secret, and how long it is kept; features have kinds of their own."""

    VALUES = "values"
    """Copies of values and of a kubeconfig, the registry's credential: until the Job has ended."""
    RELEASE = "release"
    """What is of the release, not of a Job: until the Bundle is gone."""


_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def seal_labels(bundle: str, job: str, kind: str) -> dict[str, str]:
    """The labels by which Secrets are found: their Job and their content.

    ``kind``: a ``SealKind``, or a feature's.
    """
    return {
        names.LABEL_BUNDLE: bundle,
        names.LABEL_SEALED_FOR: _label_value(job),
        names.LABEL_SEAL: kind,
    }


def _label_value(job: str) -> str:
    """A Job's name; a hash of one that only a forged status has, as a selector takes no such."""
    if _LABEL_VALUE.fullmatch(job):
        return job
    return hashlib.sha256(job.encode(errors="replace")).hexdigest()[:63]


def of_job(bundle: str, job: str) -> str:
    """A selector of all the Secrets of a Bundle's Job."""
    found = f"{names.LABEL_SEALED_FOR}={_label_value(job)}"
    return f"{names.LABEL_BUNDLE}={bundle},{names.LABEL_SEAL},{found}"


def others(bundle: str, jobs: Iterable[str]) -> str:
    """A selector of the Secrets of a Bundle that are for none of these Jobs."""
    selector = f"{names.LABEL_BUNDLE}={bundle},{names.LABEL_SEAL}"
    selector += f",{names.LABEL_SEAL}!={SealKind.RELEASE}"
    if kept := ",".join(sorted(set(map(_label_value, jobs)))):
        selector += f",{names.LABEL_SEALED_FOR} notin ({kept})"
    return selector


async def secret_body(
    entry: BundleEntry, name: str, job: str, kind: str, data: Mapping[str, str | bytes]
) -> dict[str, Any]:
    """An immutable Secret of a Job, which the Bundle owns.

    While that is being deleted nobody does, as a foreground deletion would delete the Secret: what
    has no owner is deleted before the Bundle's finalizer is removed.
    """
    pause, encoded = TimeSlice(), dict[str, str]()
    for key, content in data.items():
        raw = content.encode() if isinstance(content, str) else content
        encoded[key] = base64.b64encode(raw).decode()
        await pause.pause()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": entry.key.namespace,
            "labels": seal_labels(entry.key.name, job, kind),
            "ownerReferences": []
            if entry.deleting
            else [owner_reference(entry.key.name, entry.uid)],
        },
        "immutable": True,
        "type": "Opaque",
        "data": encoded,
    }


@dataclass(slots=True)
class _SecretsMemory:
    is_tidied: bool = False
    """Whether this process has deleted Secrets that a former one may have left."""
    again_at: datetime | None = None
    """When that is tried again, where it failed."""


LEFT_WITHIN: Final = timedelta(hours=1)
"""Time after a Job's end in which a new process removes what an earlier one left."""


class SealStore:
    """The Secrets of all Bundles.

    Salts and nonces are derived with the operator's hash key from the Job's name, which is
    unique: so they are the same after a restart, and aren't stored.
    """

    def __init__(self, context: Context, features: Features) -> None:
        self._context = context
        self._features = features
        self._on_removed: list[Callable[[BundleKey, Callable[[str], bool]], None]] = []

    def on_removed(self, listener: Callable[[BundleKey, Callable[[str], bool]], None]) -> None:
        """Have this called after a Bundle's Secrets were removed, with whether a Job's were."""
        self._on_removed.append(listener)

    def derive(self, entry: BundleEntry, job: str, purpose: str) -> str:
        """32 hexadecimal digits, derived with the hash key, which can't be known without it."""
        keyed = self._context.hasher()
        keyed.update(f"{purpose}\0{entry.uid}\0{job}".encode())
        return keyed.hexdigest()[:32]

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
        data = {KEY: docker_config(credential, spec.registry)}
        body = await secret_body(entry, login_secret(job), job, SealKind.VALUES, data)
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
        salt, name = self.derive(entry, job, "salt"), kubeconfig_secret(job)
        data: dict[str, str | bytes] = {SALT: salt, KUBECONFIG: kubeconfig.encode()}
        body = await secret_body(entry, name, job, SealKind.VALUES, data)
        try:
            if owner is None:
                await self._replace(body)
            else:
                reference = owner_reference(entry.key.name, entry.uid)
                reference |= {"apiVersion": "batch/v1", "kind": "Job", "name": owner.name}
                body["metadata"]["ownerReferences"] = [reference | {"uid": owner.uid}]
                await self._create(entry, body)
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
        return sealed_kubeconfig(seal_of(salt, found.encode()))

    async def store(
        self,
        entry: BundleEntry,
        name: str,
        job: str,
        kind: str,
        data: Mapping[str, str | bytes],
        *,
        replaces: bool = False,
    ) -> None:
        """Store texts in a Secret of a Job; one that is there already is kept, or replaced.

        Raises:
            ApiError: it can't be written.
        """
        body = await secret_body(entry, name, job, kind, data)
        await (self._replace(body) if replaces else self._create(entry, body))

    async def remove_values(self, entry: BundleEntry, job: str | None) -> None:
        """Delete the copies of values that were written for a Job."""
        if job:
            labels = seal_labels(entry.key.name, job, SealKind.VALUES)
            await self._remove(entry, ",".join(map("=".join, labels.items())), job.__eq__)

    async def remove_job(self, entry: BundleEntry, job: str) -> None:
        """Delete all Secrets of a Job."""
        await self._remove(entry, of_job(entry.key.name, job), job.__eq__)

    async def remove_others(self, entry: BundleEntry, kept: Iterable[str | None]) -> None:
        """Delete the Secrets of all the Bundle's Jobs except these."""
        jobs = {job for job in kept if job}
        await self._remove(entry, others(entry.key.name, jobs), lambda job: job not in jobs)
        self._context.memories.of(entry.key, _SecretsMemory).is_tidied = True

    async def tidy(
        self, entry: BundleEntry, spec: BundleSpec, *further: str | None, may_have: bool = False
    ) -> datetime | None:
        """Delete what a Bundle's Jobs don't need, once in a process, where one may have left it.

        Args:
            entry: the Bundle.
            spec: its spec.
            further: when Jobs ended, beside that of the last attempt.
            may_have: whether its Jobs may have had Secrets, beside those for logins and clusters.

        Returns:
            When to try again, as an error stops nothing.
        """
        memories, now = self._context.memories, self._context.clock()
        known = memories.find(entry.key, _SecretsMemory)
        if known is not None and known.is_tidied:
            return None
        if known is not None and known.again_at is not None and now < known.again_at:
            return known.again_at
        has_secrets = self._features.have_secrets(spec)
        if not (may_have or spec.auth or has_secrets or spec.is_remote):
            return None
        since = AT_ONCE if has_secrets else now - LEFT_WITHIN
        ends = map(parse_time, (*further, entry.status.attempted.finished_at))
        if any(end >= since for end in ends if end is not None):
            try:
                await self.remove_others(entry, self._features.needed_jobs(entry.status))
            except ApiError as error:
                log.debug("%s: Secrets can't be deleted now: %s", entry.key, error)
                again_at = now + timedelta(seconds=ERROR_SECONDS)
                memories.of(entry.key, _SecretsMemory).again_at = again_at
                return again_at
        memories.of(entry.key, _SecretsMemory).is_tidied = True
        return None

    async def _remove(
        self, entry: BundleEntry, selector: str, is_removed: Callable[[str], bool]
    ) -> None:
        """Delete Secrets; on an error they are deleted with the Bundle, their owner."""
        memory = self._context.memories.of(entry.key, _SecretsMemory)
        known, memory.is_tidied = memory.is_tidied, False  # where this fails, it is repeated
        path = SECRETS.path(entry.key.namespace)
        try:
            await self._context.client.request("DELETE", path, params={"labelSelector": selector})
        except (NotFound, Forbidden) as error:
            log.debug("%s: Secrets with %s can't be deleted: %s", entry.key, selector, error)
        memory.is_tidied = known
        for listener in self._on_removed:
            listener(entry.key, is_removed)

    async def _replace(self, body: Mapping[str, Any]) -> None:
        """Write a Secret of a Job, which may have another content than one that is there."""
        client, metadata = self._context.client, body["metadata"]
        try:
            await client.create(SECRETS, metadata["namespace"], body)
        except (AlreadyExists, QuotaExceeded):  # one that is there counts against a quota
            with suppress(NotFound):
                await client.delete(SECRETS, metadata["namespace"], metadata["name"])
            await client.create(SECRETS, metadata["namespace"], body)

    async def _create(self, entry: BundleEntry, body: Mapping[str, Any]) -> None:
        try:
            await self._context.client.create(SECRETS, entry.key.namespace, body)
        except AlreadyExists:  # by this operator; if not, the Job's hash check fails
            log.debug("%s: Secret %s exists already", entry.key, body["metadata"]["name"])
