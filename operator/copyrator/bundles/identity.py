"""What makes one deploy different from another: hashes of inputs, names of Jobs.

Equal inputs give equal hashes in every process and after every restart; that is how an edit that
changes nothing deploys nothing, and how two operators that both believe they lead make one Job.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api.bundle_spec import ValuesKind
from copyrator.api.names import RELEASE_METADATA_PREFIXES

_RELEASE_FIELDS: Final = (
    "registry",
    "repo",
    "project_namespace",
    "values",
    "valuesFrom",
    "env",
    "serviceAccountName",
    "autoRollback",
    "releasesHistoryMax",
    "werf",
)
"""Fields of a spec that change what werf does. How often we poll, retry or keep Jobs doesn't."""

_HASH_LENGTH: Final = 32
_NAME_LENGTH: Final = 63
"""A Job's name becomes a label of its pods."""


@dataclass(frozen=True, slots=True)
class ValuesFiles:
    """A values source as it was read: files by key. ``content`` may be secret."""

    kind: ValuesKind
    name: str
    content: Mapping[str, bytes] = field(repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """File names in the order in which werf reads them: a later one wins."""
        return tuple(sorted(self.content))


def release_metadata(found: Mapping[str, str] | None) -> dict[str, str]:
    """The labels or annotations of a Bundle that reach the release, in stable order."""
    return {
        key: value
        for key, value in sorted((found or {}).items())
        if key.startswith(RELEASE_METADATA_PREFIXES)
    }


def spec_hash(
    spec: Mapping[str, Any], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str:
    """Hash of what a Bundle itself says about its release.

    Takes the spec as written, so that a new default of the operator deploys nothing anew.
    """
    relevant = {name: spec[name] for name in _RELEASE_FIELDS if spec.get(name) is not None}
    return _digest(_canonical([relevant, release_metadata(labels), release_metadata(annotations)]))


def values_hash(
    files: Sequence[ValuesFiles], uid: str, hasher: Callable[[bytes], str]
) -> str | None:
    """Hash of all values, None where a Bundle has none.

    With a Secret among them it is keyed by ``hasher`` and salted with the Bundle's uid, because it
    stands in the status, where more people read: nobody can try passwords against it. ConfigMaps
    alone are hashed without the key, so losing the key doesn't deploy every Bundle again.
    """
    if not files:
        return None
    content = _canonical(
        [
            [
                source.kind.value,
                source.name,
                {key: base64.b64encode(text).decode() for key, text in source.content.items()},
            ]
            for source in files
        ]
    )
    if all(source.kind is ValuesKind.CONFIG_MAP for source in files):
        return _digest(content)
    return "keyed:" + hasher(uid.encode() + b"\0" + content)[:_HASH_LENGTH]


def job_name(bundle: str, kind: str, *parts: object) -> str:
    """A name that says what the Job is for, and is the same whoever computes it from ``parts``."""
    suffix = f"-{kind}-{_digest(_canonical([str(part) for part in (bundle, *parts)]))[:10]}"
    stem = bundle.replace(".", "-")[: _NAME_LENGTH - len(suffix)].rstrip("-")
    return stem + suffix


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_HASH_LENGTH]
