"""``spec.promoteFrom``, its Bundles' annotations, and lists of Bundles in specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from copyrator.api import names, syntax
from copyrator.api.fields import Fields
from copyrator.api.globs import Globs, is_wild
from copyrator.api.keys import BundleKey
from copyrator.api.text import one_line
from copyrator.settings import limits


def read_bundles(fields: Fields, name: str, own: BundleKey, *, most: int) -> tuple[BundleKey, ...]:
    """The Bundles of a list, each once; a namespace that is left out is that of ``own``.

    Raises:
        SpecError: it isn't valid, or names ``own``.
    """
    items = fields.items(name)
    if len(items) > most:
        fields.fail(name, f"has {len(items)} items; at most {most} are allowed")
    found: dict[BundleKey, None] = {}
    for i, item in enumerate(items):
        one = Fields(item, f"{fields.at(name)}[{i}]")
        namespace = one.text("namespace", syntax.namespace) or own.namespace
        key = BundleKey(namespace, one.required_text("name", syntax.object_name))
        if key == own:
            one.fail("name", "is this Bundle itself; remove the item")
        found[key] = None
    return tuple(found)


DEFAULT_SOAK: Final = 24 * 3600.0
MAX_SOURCES: Final = 20
"""Bundles that ``spec.promoteFrom.bundles`` may name."""
MAX_HOLD_TEXT: Final = 200
"""Characters of the annotation hold that are shown."""
_MAX_WILD: Final = 64
"""Patterns with a wildcard in one annotation promote-to."""
NO_REASON: Final = "no reason is given"


@dataclass(frozen=True, slots=True)
class PromoteFrom:
    """Where a version must have been deployed before it is deployed."""

    bundles: tuple[BundleKey, ...] = ()
    soak: float = DEFAULT_SOAK
    """Seconds without a break."""

    def __bool__(self) -> bool:
        return bool(self.bundles)


NO_PROMOTION: Final = PromoteFrom()
"""Shared by all Bundles without ``spec.promoteFrom``."""


def read_promote_from(fields: Fields, own: BundleKey) -> PromoteFrom:
    """``spec.promoteFrom`` of the Bundle ``own``.

    Raises:
        SpecError: it isn't valid.
    """
    soak = fields.duration("soak", DEFAULT_SOAK)
    if not fields.items("bundles"):
        fields.fail("bundles", "is required: name at least one Bundle")
    return PromoteFrom(read_bundles(fields, "bundles", own, most=MAX_SOURCES), soak)


def allows_promotion(annotations: Mapping[str, str], own: str, namespace: str) -> bool:
    """Whether Bundles of a namespace may be promoted from one in the namespace ``own``."""
    if own == namespace:
        return True
    text = annotations.get(names.ANN_PROMOTE_TO)
    return text is not None and _globs(text).matches(namespace)


@lru_cache(maxsize=256)
def _globs(text: str) -> Globs:
    """Those of an annotation; none where it is longer than what is kept of an annotation."""
    if len(text) >= limits.BUNDLE_REQUEST:
        return Globs()
    parts = sorted({part.strip() for part in text.split(",")} - {""})
    return Globs(tuple(parts)) if sum(map(is_wild, parts)) <= _MAX_WILD else Globs()


def hold_text(annotations: Mapping[str, str]) -> str | None:
    """Why what a Bundle runs isn't promoted, for messages; None where it isn't held."""
    text = annotations.get(names.ANN_HOLD)
    return None if text is None else shown_hold(text)


def shown_hold(text: str) -> str:
    """A reason as messages show it: one line, without control characters, bounded."""
    return one_line(text, MAX_HOLD_TEXT) or NO_REASON
