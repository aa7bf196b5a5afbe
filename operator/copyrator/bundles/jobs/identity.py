"""The identity of a deploy: hashes of its inputs, names of its Jobs.

Equal inputs give equal hashes in every process and after every restart; so an edit without a change
deploys nothing, and two operators that both act as leader create one Job.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.names import RELEASE_METADATA_PREFIXES
from copyrator.api.object_refs import ValuesKind

_RELEASE_FIELDS: Final = (
    "registry",
    "repo",
    "project_namespace",
    "values",
    "valuesFrom",
    "env",
    "secretKey",
    "serviceAccountName",
    "autoRollback",
    "releasesHistoryMax",
    "werf",
)
"""Fields of a spec that change what werf deploys; those for polls, retries and Jobs don't."""

_HASH_LENGTH: Final = 32
NAME_LENGTH: Final = 63
"""A Job's name becomes a label of its pods."""


_CHUNK: Final = 3 * 64 * 1024
"""Bytes that are hashed in one step, about a millisecond; a multiple of 3, for base64."""


class Hash(Protocol):
    """A hash that is updated piece by piece, such as ``hashlib``'s."""

    def update(self, data: bytes, /) -> None:
        """Add more content."""
        ...

    def hexdigest(self) -> str:
        """The hash of all content so far, as hexadecimal digits."""
        ...


@dataclass(frozen=True, slots=True)
class ValuesFiles:
    """A values source as it was read: its files, without their content."""

    kind: ValuesKind
    name: str
    keys: tuple[str, ...]
    """File names in the order in which werf reads them: a later one wins."""


class ValuesHash:
    """Hash of all values of a Bundle, computed source by source; no values are kept.

    With a Secret among them it is keyed and salted with the Bundle's uid: the status, which more
    people may read, has the hash, and passwords must not be guessed by it. ConfigMaps alone are
    hashed without the key, so losing the key doesn't deploy every Bundle again.

    What is hashed is compact JSON, ``[["Kind","name",{"key":"base64",…}],…]`` with sorted keys: as
    long as that form is the same, an upgrade of the operator deploys nothing.

    Args:
        uid: the Bundle's.
        keyed: begins a keyed hash; None where the Bundle names no Secret.
    """

    def __init__(self, uid: str, keyed: Callable[[], Hash] | None) -> None:
        self._hashes: list[Hash] = [hashlib.sha256()]
        if keyed is not None:
            salted = keyed()
            salted.update(uid.encode() + b"\0")
            self._hashes.append(salted)
        self._begun = False
        self._has_secret = False

    def add(self, kind: ValuesKind, name: str, content: Mapping[str, bytes]) -> Iterator[None]:
        """Add the next source in steps; between two of them other tasks may run."""
        self._feed(b"," if self._begun else b"[")
        self._begun = True
        self._has_secret |= kind is ValuesKind.SECRET
        self._feed(_canonical([kind.value, name])[:-1] + b",{")
        for number, key in enumerate(sorted(content)):
            self._feed((b"," if number else b"") + _canonical(key) + b':"')
            text = content[key]
            for start in range(0, len(text), _CHUNK):
                self._feed(base64.b64encode(text[start : start + _CHUNK]))
                yield
            self._feed(b'"')
            yield
        self._feed(b"}]")

    def result(self) -> str | None:
        """The hash; None where there was no source."""
        if not self._begun:
            return None
        self._feed(b"]")
        if not self._has_secret:
            return self._hashes[0].hexdigest()[:_HASH_LENGTH]
        return "keyed:" + self._hashes[1].hexdigest()[:_HASH_LENGTH]

    def _feed(self, data: bytes) -> None:
        for one in self._hashes:
            one.update(data)


def release_metadata(found: Mapping[str, str] | None) -> dict[str, str]:
    """The labels or annotations of a Bundle that are passed on to the release, in stable order."""
    return {
        key: value
        for key, value in sorted((found or {}).items())
        if key.startswith(RELEASE_METADATA_PREFIXES)
    }


def spec_hash(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str:
    """Hash of the fields of a Bundle that change its release.

    Of the spec as written, without defaults, so that a new default of the operator deploys nothing.
    """
    relevant = {name: spec[name] for name in _RELEASE_FIELDS if spec.get(name) is not None}
    return hash_of(relevant, release_metadata(labels), release_metadata(annotations))


def selection_hash(spec: BundleSpec) -> str:
    """Hash of the fields of a Bundle by which a version is chosen."""
    return hash_of(spec.version, spec.tag_filter, spec.prerelease, spec.registry, spec.repo)


def job_name(bundle: str, kind: str, *parts: object, length: int = NAME_LENGTH) -> str:
    """The name of a Job, with its purpose; the same for the same ``parts`` in every process.

    ``length``: characters that it may have.
    """
    suffix = f"-{kind}-{hash_of(*(str(part) for part in (bundle, *parts)))[:10]}"
    stem = bundle.replace(".", "-")[: length - len(suffix)].rstrip("-")
    return stem + suffix


def hash_of(*parts: Any) -> str:
    """Hash of JSON values, the same in every process: 32 hexadecimal digits."""
    return hashlib.sha256(_canonical(parts)).hexdigest()[:_HASH_LENGTH]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def release_of(metadata: Mapping[str, Any]) -> str:
    """The release of its namespace that an object belongs to; empty where it belongs to none."""
    annotations = metadata.get("annotations")
    if not isinstance(annotations, Mapping) or names.ANN_HOOK in annotations:
        return ""
    namespace = metadata.get("namespace")
    release = annotations.get(names.ANN_RELEASE)
    if annotations.get(names.ANN_RELEASE_NAMESPACE, namespace) != namespace:
        return ""
    if not isinstance(release, str) or len(release) > names.MAX_RELEASE_NAME:
        return ""
    return release


_ADDED_LABEL: Final = "WERF_ADD_LABEL"


def other_manager(labels: Mapping[str, str], env: Mapping[str, str]) -> str | None:
    """The value of Helm's label that a Bundle sets on its objects; None where it is Helm's."""
    found = labels.get(names.LABEL_MANAGED_BY)
    for name, value in env.items():
        label, equals, added = value.partition("=")
        if name.startswith(_ADDED_LABEL) and equals and label == names.LABEL_MANAGED_BY:
            found = added
    return None if found == names.HELM else found
