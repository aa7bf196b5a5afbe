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


def pack_status(raw: Any) -> bytes:
    """A status as JSON, truncated to what is read of it."""
    packed = msgspec.json.encode(raw)
    if len(packed) <= limits.BUNDLE_STATUS_BYTES:
        return packed
    return msgspec.json.encode(_Cut().part(raw))


class _Cut:
    """Truncates a status; texts beyond the total are left out, those in lists first."""

    def __init__(self) -> None:
        self._left = limits.BUNDLE_STATUS_TEXTS

    def part(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            text = value[: min(limits.BUNDLE_STATUS_TEXT, self._left)]
            self._left -= len(text)
            return text
        if isinstance(value, list) and depth < limits.BUNDLE_STATUS_DEPTH:
            return [self.part(one, depth + 1) for one in value[: limits.BUNDLE_STATUS_ITEMS]]
        if isinstance(value, dict) and depth < limits.BUNDLE_STATUS_DEPTH:
            known = list(value.items())[: limits.BUNDLE_STATUS_FIELDS]
            known.sort(key=lambda one: isinstance(one[1], list))
            return {
                name[: limits.BUNDLE_STATUS_TEXT]: self.part(one, depth + 1) for name, one in known
            }
        return None if isinstance(value, (list, dict)) else value
