"""Copies of what a Job gets, so that nothing changes before it runs. Pure.

A Job that is to have what another one had mounts copies of the values that the operator wrote. It
checks them by salted hashes in its arguments: replacing a Secret only makes the Job end with
PlanChanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from copyrator.api import names
from copyrator.bundles.jobs.pod import RENDER_DIR, RENDER_SIZE
from copyrator.bundles.jobs.script import KUBECONFIG, SECRET_KEY, SealedFile

SALT: Final = "salt"
RENDER_SALT: Final = "render"
"""Key of the Bundle's salt, in the Secret with the salt of a Job's values."""
VALUES_DIR: Final = "/run/copyrator/values"
SALT_DIR: Final = "/run/copyrator/seal"
ADDED_DIR: Final = "/run/copyrator/approved"
"""Where what a feature adds is mounted."""
_SEAL_VOLUME: Final = "seal"
_ADDED_VOLUME: Final = "approved"
_RENDER_VOLUME: Final = "render"
_KUBECONFIG_VOLUME: Final = "kubeconfig"
_KUBECONFIG_DIR: Final = "/run/copyrator/kubeconfig"
VOLUMES: Final = (_SEAL_VOLUME, _ADDED_VOLUME, _KUBECONFIG_VOLUME)
"""Names of a Job's volumes with Secrets, beside those with values."""
COPIES: Final = "/tmp"  # noqa: S108 - an emptyDir of the pod's own


def salt_secret(job: str) -> str:
    """Name of the Secret with the salt of a Job's values."""
    return f"{job}-salt"


def values_secret(job: str, number: int) -> str:
    """Name of the Secret with the copy of a values source."""
    return f"{job}-values-{number:03}"


def login_secret(job: str) -> str:
    """Name of the Secret with the registry's credential, where that of ``spec.auth`` has more."""
    return f"{job}-login"


def kubeconfig_secret(job: str) -> str:
    """Name of the Secret with the copy of the kubeconfig of ``spec.kubeConfig``, and its salt."""
    return f"{job}-kubeconfig"


def seal_of(salt: str, content: bytes) -> str:
    """The salted hash of a file, as a Job's script computes it."""
    return hashlib.sha256(salt.encode() + content).hexdigest()


class SealKind(StrEnum):
    """The content of a Secret, and how long it is kept; features have kinds of their own."""

    VALUES = "values"
    """Copies of values and of a kubeconfig, the registry's credential: until the Job has ended."""
    RELEASE = "release"
    """What is of the release, not of a Job: until the Bundle is gone."""


_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class SealLabels:
    """The labels by which Secrets are found and deleted: their Job and their content."""

    bundle: str
    job: str
    kind: str
    """A ``SealKind``, or a feature's."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the Secrets."""
        return {
            names.LABEL_BUNDLE: self.bundle,
            names.LABEL_SEALED_FOR: _label_value(self.job),
            names.LABEL_SEAL: self.kind,
        }

    @property
    def selector(self) -> str:
        """The label selector for requests."""
        return ",".join(f"{name}={value}" for name, value in self.labels.items())


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


@dataclass(frozen=True, slots=True)
class SealedValues:
    """The copies of a Bundle's values for one Job."""

    job: str
    sources: int
    """How many Secrets with copies there are."""
    files: tuple[SealedFile, ...] = ()
    """Values files, in the order in which werf reads them."""
    secret_key: SealedFile | None = None
    """The copy of ``spec.secretKey``, in the last of these Secrets."""
    render_salt: SealedFile | None = None
    """The Bundle's salt of the hash of renders, for Jobs that compare renders."""

    @property
    def checked(self) -> tuple[SealedFile, ...]:
        """All files that a Job checks, beside the salt."""
        return (*self.files, self.secret_key) if self.secret_key else self.files


def sealed_value(source: int, number: int, key: str, seal: str) -> SealedFile:
    """A values file of a Job: the ``number``-th of all, from the source of this number."""
    return SealedFile(
        path=f"{VALUES_DIR}/{source:03}/{key}",
        salt=f"{SALT_DIR}/{SALT}",
        copy=f"{COPIES}/values-{number:04}",
        sha256=seal,
    )


def sealed_secret_key(source: int, key: str, seal: str) -> SealedFile:
    """The copy of ``spec.secretKey`` in the Secret of this number."""
    found = sealed_value(source, 0, key, seal)
    return replace(found, copy=f"{COPIES}/{SECRET_KEY}")


def sealed_render_salt(seal: str) -> SealedFile:
    """The file with the Bundle's salt of the hash of renders."""
    return mounted(SALT_DIR, RENDER_SALT, f"{COPIES}/render-salt", seal)


def sealed_kubeconfig(seal: str) -> SealedFile:
    """The file with the copy of the kubeconfig, which is copied to memory: it is on no disk."""
    return mounted(_KUBECONFIG_DIR, KUBECONFIG, f"{RENDER_DIR}/{KUBECONFIG}", seal)


def mounted(directory: str, key: str, copy: str, seal: str) -> SealedFile:
    """A file that is mounted beside its salt."""
    return SealedFile(f"{directory}/{key}", f"{directory}/{SALT}", copy, seal)


def kubeconfig_volume(job: str) -> dict[str, Any]:
    """The copy of the kubeconfig for a Job."""
    return {"name": _KUBECONFIG_VOLUME, "secret": {"secretName": kubeconfig_secret(job)}}


def kubeconfig_mount() -> dict[str, Any]:
    """Where it is mounted."""
    return {"name": _KUBECONFIG_VOLUME, "mountPath": _KUBECONFIG_DIR, "readOnly": True}


def volumes(sealed: SealedValues, added: str | None) -> list[dict[str, Any]]:
    """The volumes of a Job: values, their salt, and a feature's Secret."""
    secrets = {f"values-{i:03}": values_secret(sealed.job, i) for i in range(sealed.sources)}
    if sealed.sources or sealed.render_salt:
        secrets[_SEAL_VOLUME] = salt_secret(sealed.job)
    if added is not None:
        secrets[_ADDED_VOLUME] = added
    return [{"name": name, "secret": {"secretName": secret}} for name, secret in secrets.items()]


def mounts(sealed: SealedValues, added: str | None) -> list[dict[str, Any]]:
    """Where the volumes are mounted."""
    places = {f"values-{i:03}": f"{VALUES_DIR}/{i:03}" for i in range(sealed.sources)}
    if sealed.sources or sealed.render_salt:
        places[_SEAL_VOLUME] = SALT_DIR
    if added is not None:
        places[_ADDED_VOLUME] = ADDED_DIR
    return [{"name": name, "mountPath": place, "readOnly": True} for name, place in places.items()]


def render_volume() -> dict[str, Any]:
    """A directory in memory: what a chart renders, Secrets included, is on no disk."""
    return {"name": _RENDER_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": RENDER_SIZE}}


def render_mount() -> dict[str, Any]:
    """Where it is mounted."""
    return {"name": _RENDER_VOLUME, "mountPath": RENDER_DIR}


def variables(sealed: SealedValues) -> dict[str, str]:
    """Variables of werf for the checked copies; padded, as it sorts the names as text."""
    width = max(3, len(str(len(sealed.files))))
    return {f"WERF_VALUES_OPERATOR_{i:0{width}}": one.copy for i, one in enumerate(sealed.files)}


def secret(
    owner: Mapping[str, Any] | None,
    namespace: str,
    name: str,
    labels: SealLabels,
    data: Mapping[str, str],
) -> dict[str, Any]:
    """An immutable Secret of this name in the Bundle's namespace, with base64 by key."""
    owners = [dict(owner)] if owner is not None else []
    metadata = {"name": name, "namespace": namespace, "labels": labels.labels}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**metadata, "ownerReferences": owners},
        "immutable": True,
        "type": "Opaque",
        "data": dict(data),
    }
