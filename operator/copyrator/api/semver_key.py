"""SemVer 2.0 versions as keys that Python sorts in the specification's order (section 11).

``semver`` parses the text. It also compares, but in some twenty microseconds each; a key is made
once for each tag of a list of thousands, and tuples compare quickly. A test checks that both give
the same order.
"""

from __future__ import annotations

from typing import Final

import semver

Identifier = tuple[int, int, str]
Base = tuple[int, int, int]
Key = tuple[int, int, int, bool, tuple[Identifier, ...]]
"""Major, minor, patch, whether it is a release, the identifiers of a pre-release."""

LOWEST: Final[Key] = (0, 0, 0, False, ())


def read_semver(text: str) -> Key | None:
    """The key of a tag or version; None where it isn't SemVer.

    A leading ``v`` is accepted, and build metadata after ``_``, which tags have in place of ``+``.
    Build metadata doesn't order, so it isn't in the key.
    """
    if text[:1] in ("v", "V"):
        text = text[1:]
    if not text[:1].isdecimal():  # most tags that aren't versions end here
        return None
    try:
        version = semver.Version.parse(text.replace("_", "+", 1))
    except ValueError:
        return None
    pre = version.prerelease
    identifiers = tuple(map(_identifier, pre.split("."))) if pre else ()
    return version.major, version.minor, version.patch, not pre, identifiers


def release(*numbers: int) -> Key:
    """The key of a release; absent parts are 0."""
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch, True, ()


def floor(*numbers: int) -> Key:
    """A key just below all pre-releases of that version."""
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch, False, ()


def base_of(key: Key) -> Base:
    """Major, minor, patch."""
    return key[0], key[1], key[2]


def is_prerelease(key: Key) -> bool:
    """Whether the version is a pre-release."""
    return not key[3]


def _identifier(text: str) -> Identifier:
    """Numbers order as numbers, and below all words; words order by ASCII."""
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)
