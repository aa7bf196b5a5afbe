"""Bounds on a Bundle's size: checked before it is parsed, so that parsing is a short step.

The CRD has most of these bounds; a Bundle may have been stored under an older one. It has no bounds
for the status, and anybody who may write it may store whatever the API server accepts: lists and
texts of a status larger than any of ours are truncated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from copyrator.api.fields import Fields, SpecError
from copyrator.api.names import RELEASE_METADATA_PREFIXES
from copyrator.settings import limits

_LISTS: Final = {("valuesFrom",): limits.BUNDLE_LIST, ("job", "tolerations"): limits.BUNDLE_LIST}
_MAPS: Final = {
    ("env",): limits.BUNDLE_ENV_NAMES,
    ("job", "nodeSelector"): limits.BUNDLE_LIST,
    ("job", "podLabels"): limits.BUNDLE_LIST,
    ("job", "podAnnotations"): limits.BUNDLE_LIST,
}
_RAW: Final = ("resources", "securityContext", "tolerations")
"""Fields that a Job takes unchanged."""


_NAME: Final = 64
"""Characters of a status's field: none of the operator's is longer."""


def check_sizes(metadata: Fields, spec: Fields) -> None:
    """Raise SpecError where a part of a Bundle is too large to be parsed."""
    for path, most in (_LISTS | _MAPS).items():
        owner = spec if len(path) == 1 else spec.sub(path[0])
        found = owner.get(path[-1])
        if isinstance(found, (list, Mapping)) and len(found) > most:
            owner.fail(path[-1], f"has {len(found)} entries; at most {most} are allowed")
    _check_texts(spec, "env", limits.BUNDLE_ENV_BYTES, limits.BUNDLE_ENV_VALUE)
    job = spec.sub("job")
    most = limits.BUNDLE_POD_ANNOTATIONS
    _check_texts(job, "podAnnotations", most, most)
    for name in _RAW:
        if job.has(name) and len(msgspec.json.encode(job.get(name))) > limits.BUNDLE_JOB_FIELD:
            job.fail(name, f"must have at most {limits.BUNDLE_JOB_FIELD:,} bytes")
    for name in ("labels", "annotations"):
        keys = metadata.sub(name).raw
        if len(keys) <= limits.BUNDLE_METADATA:
            continue
        count = sum(key.startswith(RELEASE_METADATA_PREFIXES) for key in keys)
        if count > limits.BUNDLE_METADATA:
            metadata.fail(
                name,
                f"{count} of them are copied to the release's objects; at most "
                f"{limits.BUNDLE_METADATA:,} "
                "may begin with " + ", ".join(RELEASE_METADATA_PREFIXES),
            )


def _check_texts(owner: Fields, name: str, most: int, most_each: int) -> None:
    found = owner.get(name)
    if not isinstance(found, Mapping):
        return
    size = 0
    for key, value in found.items():
        own = len(key) + _bytes(value)
        size += own
        if own > most_each:
            path = f"{owner.at(name)}[{key[:80]}]"
            raise SpecError(path, f"has {own:,} bytes with its name, at most {most_each:,}")
        if size > most:
            owner.fail(name, f"must have at most {most:,} bytes in total, with the names")


def _bytes(value: Any) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 8


def bound_status(raw: Any) -> dict[str, Any]:
    """A status, truncated to what is read of it; an empty one where it is no map."""
    if not isinstance(raw, dict):
        return {}
    packed = msgspec.json.encode(raw)
    values = sum(map(packed.count, (b",", b"{", b"[")))  # or more, as texts have them, too
    if len(packed) <= limits.BUNDLE_STATUS_BYTES and values <= limits.BUNDLE_STATUS_VALUES:
        return raw
    return _Cut().map(raw, 0)


class _Cut:
    """Truncates a status; what is beyond the totals is left out, that in lists first."""

    def __init__(self) -> None:
        self._texts = limits.BUNDLE_STATUS_TEXTS
        self._values = limits.BUNDLE_STATUS_VALUES

    def map(self, found: Mapping[str, Any], depth: int) -> dict[str, Any]:
        known = list(found.items())[: limits.BUNDLE_STATUS_FIELDS]
        known.sort(key=lambda one: isinstance(one[1], list))
        return {
            self._name(name): self._part(value, depth + 1)
            for name, value in known
            if self._takes_another()
        }

    def _part(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, (list, dict)):
            return value
        if depth >= limits.BUNDLE_STATUS_DEPTH:
            return None
        if isinstance(value, dict):
            return self.map(value, depth)
        items = value[: limits.BUNDLE_STATUS_ITEMS]
        return [self._part(one, depth + 1) for one in items if self._takes_another()]

    def _name(self, name: str) -> str:
        return name if len(name) <= _NAME else self._text(name)

    def _text(self, text: str) -> str:
        text = text[: min(limits.BUNDLE_STATUS_TEXT, self._texts)]
        self._texts -= len(text)
        return text

    def _takes_another(self) -> bool:
        self._values -= 1
        return self._values >= 0
