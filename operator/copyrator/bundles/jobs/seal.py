"""Secrets with the input and operations of a plan, so that nothing changes before the deploy. Pure.

Each Job that plans, or deploys what was approved, mounts copies of the values that the operator
wrote, and the deploy's also the approved operations. The Job checks them by salted hashes in its
arguments: replacing a Secret only makes the Job end with PlanChanged.

Of each values file, of each top-level key of a ConfigMap's file, and of each variable a keyed hash
is recorded with the plan (``Inputs``). The hashes of two plans tell what changed, by name; no value
is recorded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import msgspec
import yaml

from copyrator.api import names
from copyrator.api.approval import MAX_CHANGED
from copyrator.api.syntax import shown
from copyrator.bundles.jobs.script import KUBECONFIG, SECRET_KEY, SealedFile
from copyrator.bundles.pod import RENDER_DIR, RENDER_SIZE

SALT: Final = "salt"
RENDER_SALT: Final = "render"
"""Key of the Bundle's salt, in the Secret with the salt of a Job's values."""
OPERATIONS: Final = "operations"
VALUES_DIR: Final = "/run/copyrator/values"
SALT_DIR: Final = "/run/copyrator/seal"
APPROVED_DIR: Final = "/run/copyrator/approved"
_SEAL_VOLUME: Final = "seal"
_APPROVED_VOLUME: Final = "approved"
_RENDER_VOLUME: Final = "render"
_KUBECONFIG_VOLUME: Final = "kubeconfig"
_KUBECONFIG_DIR: Final = "/run/copyrator/kubeconfig"
VOLUMES: Final = (_SEAL_VOLUME, _APPROVED_VOLUME, _KUBECONFIG_VOLUME)
"""Names of a Job's volumes with Secrets, beside those with values."""
_COPIES: Final = "/tmp"  # noqa: S108 - an emptyDir of the pod's own


def salt_secret(job: str) -> str:
    """Name of the Secret with the salt of a Job's values."""
    return f"{job}-salt"


def values_secret(job: str, number: int) -> str:
    """Name of the Secret with the copy of a values source."""
    return f"{job}-values-{number:03}"


def operations_secret(job: str) -> str:
    """Name of the Secret with the operations that a plan Job found, and their salt."""
    return f"{job}-operations"


def inputs_secret(job: str) -> str:
    """Name of the Secret with the hashes of what a plan was made of besides the chart."""
    return f"{job}-inputs"


def release_secret(bundle: str, slot: int) -> str:
    """Name of a Secret with what the approved plans of a Bundle's release had."""
    return f"{bundle}-release-objects-{slot}"


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
    """The content of a Secret, and how long it is kept."""

    VALUES = "values"
    """Copies of values and of a kubeconfig, the registry's credential: until the Job has ended."""
    OPERATIONS = "operations"
    """A plan: until another one replaces it."""
    INPUTS = "inputs"
    """Hashes of values and variables: likewise, and while its plan is the deployed one."""
    RELEASE = "release"
    """What the approved plans of the release had: until the Bundle is gone."""


_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class SealLabels:
    """The labels by which Secrets are found and deleted: their Job and their content."""

    bundle: str
    job: str
    kind: SealKind

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
        copy=f"{_COPIES}/values-{number:04}",
        sha256=seal,
    )


def sealed_secret_key(source: int, key: str, seal: str) -> SealedFile:
    """The copy of ``spec.secretKey`` in the Secret of this number."""
    found = sealed_value(source, 0, key, seal)
    return replace(found, copy=f"{_COPIES}/{SECRET_KEY}")


def sealed_render_salt(seal: str) -> SealedFile:
    """The file with the Bundle's salt of the hash of renders."""
    return _sealed(SALT_DIR, RENDER_SALT, f"{_COPIES}/render-salt", seal)


def approved_operations(seal: str) -> SealedFile:
    """The file with the operations that were approved."""
    return _sealed(APPROVED_DIR, OPERATIONS, f"{_COPIES}/approved", seal)


def sealed_kubeconfig(seal: str) -> SealedFile:
    """The file with the copy of the kubeconfig, which is copied to memory: it is on no disk."""
    return _sealed(_KUBECONFIG_DIR, KUBECONFIG, f"{RENDER_DIR}/{KUBECONFIG}", seal)


def _sealed(directory: str, key: str, copy: str, seal: str) -> SealedFile:
    """A file that is mounted beside its salt."""
    return SealedFile(f"{directory}/{key}", f"{directory}/{SALT}", copy, seal)


def kubeconfig_volume(job: str) -> dict[str, Any]:
    """The copy of the kubeconfig for a Job."""
    return {"name": _KUBECONFIG_VOLUME, "secret": {"secretName": kubeconfig_secret(job)}}


def kubeconfig_mount() -> dict[str, Any]:
    """Where it is mounted."""
    return {"name": _KUBECONFIG_VOLUME, "mountPath": _KUBECONFIG_DIR, "readOnly": True}


def volumes(sealed: SealedValues, operations: str | None) -> list[dict[str, Any]]:
    """The volumes of a Job: values, their salt, and the Secret with the approved operations."""
    secrets = {f"values-{i:03}": values_secret(sealed.job, i) for i in range(sealed.sources)}
    if sealed.sources or sealed.render_salt:
        secrets[_SEAL_VOLUME] = salt_secret(sealed.job)
    if operations is not None:
        secrets[_APPROVED_VOLUME] = operations
    return [{"name": name, "secret": {"secretName": secret}} for name, secret in secrets.items()]


def mounts(sealed: SealedValues, operations: str | None) -> list[dict[str, Any]]:
    """Where the volumes are mounted."""
    places = {f"values-{i:03}": f"{VALUES_DIR}/{i:03}" for i in range(sealed.sources)}
    if sealed.sources or sealed.render_salt:
        places[_SEAL_VOLUME] = SALT_DIR
    if operations is not None:
        places[_APPROVED_VOLUME] = APPROVED_DIR
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


PLAN_INPUT_FILE_KEYS: Final = 100
"""Top-level keys of one values file whose changes are named, else only the file is named."""

Hashes = Mapping[str, str]
"""Keyed hashes by name."""

MORE: Final = "and {} more"
_KEY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,62}")
"""A top-level key as charts have them; in a file with others no keys are named."""
_PLAIN: Final = re.compile(r"[!-~]{1,253}")
_NAMED: Final = 20
"""Keys of a file that are named."""
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileHash(msgspec.Struct, frozen=True, array_like=True):
    """The hash of a values file, and those of its top-level keys; None where they aren't known."""

    whole: str
    keys: Hashes | None = None


class SourceHash(msgspec.Struct, frozen=True, array_like=True):
    """A values source, such as ``ConfigMap shop-values``, and its files; None: too many."""

    name: str
    whole: str
    files: Mapping[str, FileHash] | None = None


class Inputs(msgspec.Struct, frozen=True):
    """The values sources in their order, and the variables."""

    sources: tuple[SourceHash, ...] = ()
    env: Hashes = {}

    def to_text(self) -> str:
        """The record, as ``read_inputs`` reads it."""
        return msgspec.json.encode(self, order="deterministic").decode()


def read_inputs(text: str) -> Inputs:
    """Parse ``Inputs.to_text``; only records with a valid signature are parsed."""
    return msgspec.json.decode(text, type=Inputs)


def keyed_hash(key: bytes, *parts: bytes) -> str:
    """The hash of some parts that only who has the key can compute: 32 hexadecimal digits."""
    found = hashlib.blake2b(key=key, digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8) + part)
    return found.hexdigest()


def key_hashes(key: bytes, content: bytes) -> Hashes | None:
    """The hashes of a YAML file's top-level keys; None where it isn't one map with plain keys.

    They are of the parsed content, so that comments and layout don't matter. An alias counts as its
    name: what it refers to is part of the key in which it stands.

    Args:
        key: of the hashes.
        content: hostile; its caller bounds it, and the time.
    """
    keys: dict[str, hashlib.blake2b] = {}
    try:
        for name, event in _entries(content.decode()):
            if name not in keys and len(keys) >= PLAN_INPUT_FILE_KEYS:
                return None
            part = keys.setdefault(name, hashlib.blake2b(key=key, digest_size=16))
            part.update(_content_of(event))
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    return {name: one.hexdigest() for name, one in keys.items()}


def _entries(text: str) -> Iterator[tuple[str, yaml.Event]]:
    """The events of each top-level key's value, with the key.

    Raises:
        ValueError: it isn't one map with plain keys.
    """
    depth, documents = 0, 0
    key: str | None = None
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            continue
        if depth == 0:
            if documents > 1 or not isinstance(event, yaml.MappingStartEvent):
                raise ValueError("it isn't one map")
            depth = 1
        elif key is not None:
            yield key, event
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            key = key if depth > 1 else None
        elif isinstance(event, yaml.MappingEndEvent):
            depth = 0
        else:
            key = event.value if isinstance(event, yaml.ScalarEvent) else ""
            if not _KEY.fullmatch(key):
                raise ValueError("a key isn't plain")


def _content_of(event: yaml.Event) -> bytes:
    """What of an event belongs to the content, unambiguously."""
    value = [getattr(event, name, None) for name in ("anchor", "tag", "implicit", "value")]
    return f"{type(event).__name__}{value!r}\n".encode("utf-8", "backslashreplace")


def key_hashes_of(key: bytes, files: Mapping[str, bytes]) -> dict[str, Hashes | None]:
    """As ``key_hashes`` of some files, for one call in a child process."""
    return {name: key_hashes(key, content) for name, content in files.items()}


def find_changes(before: Inputs, now: Inputs) -> tuple[str, ...]:
    """What differs, by name: ``ConfigMap shop-values values.yaml: image, replicas``.

    Returns:
        At most MAX_CHANGED texts; the last one says how many more there are.
    """
    found = [*_compare_sources(before.sources, now.sources)]
    found += (f"spec.env.{one}" for one in _compare_hashes(before.env, now.env))
    if len(found) > MAX_CHANGED:
        found[MAX_CHANGED - 1 :] = [MORE.format(len(found) - MAX_CHANGED + 1)]
    return tuple(found)


def _compare_sources(before: Sequence[SourceHash], now: Sequence[SourceHash]) -> Iterator[str]:
    old, new = ({one.name: one for one in some} for some in (before, now))
    for name, source in new.items():
        if name not in old:
            yield f"{name} (added)"
        elif source.whole != old[name].whole:
            yield from _compare_files(old[name], source)
    yield from (f"{name} (removed)" for name in old if name not in new)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield "the order of the values' sources"


def _compare_files(before: SourceHash, now: SourceHash) -> Iterator[str]:
    if before.files is None or now.files is None:
        yield now.name
        return
    for name in sorted(before.files.keys() | now.files.keys()):
        old, new = before.files.get(name), now.files.get(name)
        place = f"{now.name} {_quote_name(name)}"
        if old is None or new is None:
            yield f"{place} ({'added' if old is None else 'removed'})"
        elif old.whole != new.whole:
            keys = [] if None in (old.keys, new.keys) else list(_compare_hashes(old.keys, new.keys))
            if len(keys) > _NAMED:
                keys[_NAMED:] = [MORE.format(len(keys) - _NAMED)]
            yield f"{place}: {', '.join(keys)}" if keys else place


def _compare_hashes(before: Hashes | None, now: Hashes | None) -> Iterator[str]:
    """The names whose hashes differ, each with what happened to it."""
    old, new = before or {}, now or {}
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            yield f"{_quote_name(name)} ({'added' if name not in old else 'removed'})"
        elif old[name] != new[name]:
            yield _quote_name(name)


def _quote_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else shown(name)
