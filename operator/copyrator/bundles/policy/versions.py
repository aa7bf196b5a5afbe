"""Tags as versions: which tags are versions, and their order.

SemVer 2.0 decides. A tag such as ``2024.1`` or ``1.2.3.4`` isn't SemVer; ``packaging`` (PEP 440)
parses it, but they are used only in a repository without any SemVer tag (candidates.py), so the
alias ``1.2`` beside ``1.2.9``, or a date, is never chosen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from copyrator.api.semver_key import Key, floor, read_semver, release
from copyrator.api.version_range import TAG

_DOTTED: Final = re.compile(r"[vV]?[0-9]{1,9}\.[0-9]{1,9}(?:[.-]?[0-9A-Za-z]{1,16}){0,4}")
"""Two numbers at least. A date (``20240115``), a port or a hash isn't a version."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tag that is a version."""

    tag: str
    key: Key
    """Its sort key among SemVer versions; ranges are evaluated on it."""
    is_semver: bool
    order: tuple[Any, ...]
    """Sorts candidates of the same kind, equal versions too: see ``_order``."""


def read_tag(tag: str) -> Candidate | None:
    """A tag as a version; None where it isn't one, or isn't a valid tag."""
    if not TAG.fullmatch(tag):
        return None
    key = read_semver(tag)
    if key is not None:
        return Candidate(tag, key, True, _order(tag, key))
    if not _DOTTED.fullmatch(tag):
        return None
    try:
        version = Version(tag)
    except InvalidVersion:
        return None
    where = floor if version.is_prerelease else release
    return Candidate(tag, where(*version.release[:3]), False, _order(tag, version))


def _order(tag: str, version: Any) -> tuple[Any, ...]:
    """Higher versions last. Of equal ones the plain tag is last, then the one without build.

    Build metadata and a ``v`` have no precedence, but the choice among tags that differ in nothing
    else must not depend on the order in which a registry lists them.
    """
    return version, "_" not in tag, tag[0] not in "vV", tag


def is_lower(one: Candidate, other: Candidate) -> bool:
    """Whether ``one`` is a lower version; equal versions aren't, whatever their build."""
    if one.is_semver == other.is_semver:
        return bool(one.order[0] < other.order[0])
    return one.key < other.key
