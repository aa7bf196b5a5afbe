"""``spec.version``: an exact tag, a wildcard or a range.

The syntax is that of Helm, Flux and npm. No library parses all of it, so its grammar is here
(docs/adr/0005-version-ranges.md); versions themselves are parsed by ``semver``. It is in the API
package because a malformed range is an InvalidSpec.

``semver`` also compares, but in some twenty microseconds each; a version's key, which Python sorts
in the specification's order (SemVer 2.0, section 11), is made once for each tag of a list of
thousands. A test checks that both give the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NoReturn

import semver

from copyrator.api.text import quoted

VERSION_LENGTH: Final = 256
"""Characters of ``spec.version``."""

VERSION_CONSTRAINTS: Final = 32
"""Constraints in a version range, on both sides of every ``||``: each is checked for every tag of a
list."""

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
    """The key of a release by its first three numbers; absent ones are 0."""
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


Cut = tuple[Key, bool]
"""A position between versions: just before a key (False) or just after it (True)."""


class Fit(Enum):
    """Whether a version is in a range."""

    IN_RANGE = auto()
    PRE_RELEASE = auto()
    """Between the bounds, but pre-releases aren't included."""
    OUT_OF_RANGE = auto()


@dataclass(frozen=True, slots=True)
class Span:
    """All versions between two cuts; without an ``end`` there is no highest."""

    start: Cut = (LOWEST, False)
    end: Cut | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no version can be in it."""
        return self.end is not None and self.end <= self.start

    def holds(self, key: Key) -> bool:
        """Whether a version is in it."""
        return self.start <= (key, False) and (self.end is None or (key, False) < self.end)

    def common(self, other: Span) -> Span:
        """The intersection."""
        ends = [end for end in (self.end, other.end) if end is not None]
        return Span(max(self.start, other.start), min(ends) if ends else None)


EVERYTHING: Final = Span()
NOTHING: Final = Span(end=EVERYTHING.start)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Constraints that must all hold: one side of ``||``."""

    span: Span = EVERYTHING
    holes: tuple[Span, ...] = ()
    """From ``!=``."""
    named: frozenset[Base] = frozenset()
    """Versions of which a pre-release is named."""
    any_prerelease: bool = False
    """It has a lower bound that ends in ``-0``."""

    @property
    def is_empty(self) -> bool:
        """Whether no version can be in it."""
        return self.span.is_empty

    def within(self, span: Span, named: frozenset[Base], *, any_prerelease: bool) -> Alternative:
        """The same with one more constraint."""
        return replace(
            self,
            span=self.span.common(span),
            named=self.named | named,
            any_prerelease=self.any_prerelease or any_prerelease,
        )

    def without(self, hole: Span) -> Alternative:
        """The same without those versions."""
        return replace(self, holes=(*self.holes, hole))

    def fit(self, key: Key, *, prerelease: bool) -> Fit:
        """Whether a version is in it.

        A pre-release is in range where all are included (``prerelease``), where the constraints
        name a pre-release of this same version (npm's rule: ``>=1.3.0-rc.1`` takes 1.3.0-rc.2 but
        not 1.4.0-alpha), or where a lower bound ends in ``-0`` (how Helm and Flux include all:
        ``>=1.2.0-0``).
        """
        if not self.span.holds(key) or any(hole.holds(key) for hole in self.holes):
            return Fit.OUT_OF_RANGE
        if not is_prerelease(key) or prerelease or self.any_prerelease:
            return Fit.IN_RANGE
        return Fit.IN_RANGE if base_of(key) in self.named else Fit.PRE_RELEASE


TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""A tag (OCI distribution specification, ``<reference>``)."""

_WILDCARD = re.compile(r"[vV]?(?:[0-9]+\.){1,2}[xX](?:\.[0-9xX]+)*(?:-0)?")
"""A wildcard that could also be a tag; no tag contains ``*``."""
_RANGE_SIGN = re.compile(r"[*<>=!~^|, ]|[0-9]\.[xX]")
_REGEX_SIGN = re.compile(r"\\|[\[({$?]|\.\+|(?:^|[A-Za-z_-])\.\*|\^[A-Za-z]{2}")
"""What no range contains: the original operator took spec.version for a regular expression."""
_NO_REGEX: Final = (
    "{0} is a regular expression, which spec.version doesn't accept; set version: '*' and "
    "tagFilter: {0}, which selects the highest version among the matching tags. Tags without a "
    "version, such as main-1a2b3c, have no order: for these set one tag that every build "
    "moves, such as main"
)
_TOKEN = re.compile(r"[<>=!~^]+|[^\s<>=!~^]+")
_PARTIAL = re.compile(
    r"[vV]?(?P<parts>(?:[0-9]+|[xX*])(?:\.(?:[0-9]+|[xX*])){0,2})"
    r"(?:-(?P<pre>[0-9A-Za-z.-]+))?(?:[+_][0-9A-Za-z.-]+)?"
)
_OPERATORS: Final = {"=>": ">=", "=<": "<=", "~>": "~", "==": "="}
_KNOWN: Final = ("", "=", "!=", ">", ">=", "<", "<=", "~", "^")
_FORMS: Final = "a tag, a wildcard such as 1.2.* or a range such as '>=1.2 <2'"


class VersionError(ValueError):
    """A version that is none of these; the text has the fault and the remedy."""


@dataclass(frozen=True, slots=True)
class ExactTag:
    """One tag, matched whole: ``1.2.3`` is not ``1.2.39``. One HEAD, no list."""

    tag: str


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A wildcard or range. Equal texts are equal ranges."""

    text: str
    alternatives: tuple[Alternative, ...] = field(compare=False, repr=False)

    def fit(self, key: Key, *, prerelease: bool = False) -> Fit:
        """Whether a version is in the range.

        A pre-release is only where ``prerelease`` is set (the Bundle takes all of them) or the
        range itself names one; see ``Alternative.fit``.
        """
        best = Fit.OUT_OF_RANGE
        for alternative in self.alternatives:
            found = alternative.fit(key, prerelease=prerelease)
            if found is Fit.IN_RANGE:
                return found
            if found is Fit.PRE_RELEASE:
                best = found
        return best


@dataclass(frozen=True, slots=True)
class _Partial:
    """A version whose last parts may be missing or wildcards: ``1``, ``1.2.x``, ``1.2.3-rc.1``."""

    numbers: tuple[int, ...]
    key: Key | None = None
    """Of a whole version."""
    any_prerelease: bool = False
    """It ends in ``-0``."""

    @property
    def start(self) -> Cut:
        """Just before the lowest version that it covers; a wildcard covers pre-releases."""
        return self.key or floor(*self.numbers), False

    @property
    def end(self) -> Cut | None:
        """Just after the highest."""
        return (self.key, True) if self.key else self.after(2)

    def after(self, part: int) -> Cut | None:
        """Just after all versions that share its numbers up to ``part`` (0: the major)."""
        if not self.numbers:
            return None
        part = min(part, len(self.numbers) - 1)
        return floor(*self.numbers[:part], self.numbers[part] + 1), False

    @property
    def names_prerelease(self) -> bool:
        """Whether it is a pre-release."""
        return self.key is not None and is_prerelease(self.key)


@lru_cache(maxsize=4096)
def parse_version(text: str) -> ExactTag | VersionRange:
    """Parse ``spec.version``.

    A version in SemVer's spelling with build metadata, ``1.2.3+5``, means the tag ``1.2.3_5``,
    because a tag can't contain ``+``.

    Raises:
        VersionError: with the fault.
    """
    if len(text) > VERSION_LENGTH:
        raise VersionError(f"must have at most {VERSION_LENGTH} characters")
    stripped = text.strip()
    if not stripped:
        raise VersionError(f"must be {_FORMS}")
    if TAG.fullmatch(stripped) and not _WILDCARD.fullmatch(stripped):
        return ExactTag(stripped)
    if "+" in stripped and (tag := stripped.replace("+", "_", 1)) and read_semver(tag):
        return ExactTag(tag)
    try:
        return _range(stripped)
    except VersionError:
        if not _REGEX_SIGN.search(stripped):
            raise
        raise VersionError(_NO_REGEX.format(quoted(text))) from None


def _range(text: str) -> VersionRange:
    if not text.isprintable() or not _RANGE_SIGN.search(text):
        raise VersionError(
            f"{quoted(text)} isn't a valid tag: a tag has at most 128 letters, digits, '_', '.' "
            f"and '-', and doesn't begin with '.' or '-'; write {_FORMS}"
        )
    return VersionRange(text, tuple(_alternatives(text)))


def _alternatives(text: str) -> Iterator[Alternative]:
    found = [_alternative(part, text) for part in text.split("||")]
    constraints = sum(1 + len(alternative.holes) for alternative in found)
    if constraints > VERSION_CONSTRAINTS:
        _fail(
            text,
            f"it has {constraints} alternatives and exceptions, at most {VERSION_CONSTRAINTS} are "
            "allowed; one expression in spec.tagFilter can replace many of them",
        )
    if all(alternative.is_empty for alternative in found):
        _fail(text, "no version matches it; check the bounds")
    yield from found


def _alternative(text: str, whole: str) -> Alternative:
    if "|" in text:
        _fail(whole, "write '||' between alternatives")
    alternative = Alternative()
    for group in text.split(","):
        tokens = _TOKEN.findall(group)
        if not tokens:
            _fail(whole, "a constraint is missing next to ',' or '||'; for any version write *")
        for operator, first, last in _terms(tokens, whole):
            alternative = _narrowed(alternative, operator, first, last)
    return alternative


def _terms(tokens: list[str], whole: str) -> Iterator[tuple[str, _Partial, _Partial | None]]:
    """Operator, version and, of ``a - b``, the second version."""
    at = 0
    while at < len(tokens):
        operator = ""
        if tokens[at][0] in "<>=!~^":
            operator = _OPERATORS.get(tokens[at], tokens[at])
            if operator not in _KNOWN:
                _fail(
                    whole,
                    f"{quoted(operator)} isn't an operator; use one of {' '.join(_KNOWN[1:])}",
                )
            at += 1
            if at == len(tokens) or tokens[at][0] in "<>=!~^-":
                _fail(whole, f"a version is missing after {quoted(operator)}")
        first = _partial(tokens[at], whole)
        at += 1
        last = None
        if at < len(tokens) and tokens[at] == "-":
            if operator or at + 1 == len(tokens):
                _fail(whole, "write a range with a hyphen as 1.2 - 1.4, without operators")
            last = _partial(tokens[at + 1], whole)
            at += 2
        yield operator, first, last


def _partial(text: str, whole: str) -> _Partial:
    match = _PARTIAL.fullmatch(text)
    if match is None:
        _fail(whole, f"{quoted(text)} isn't a valid version; write it as 1.2.3, 1.2 or 1.2.*")
    parts, pre = match["parts"].split("."), match["pre"]
    known = parts
    for i, part in enumerate(parts):
        if part in "xX*":
            known = parts[:i]
            break
    if any(part not in "xX*" for part in parts[len(known) :]):
        _fail(whole, f"{quoted(text)} has a number after its wildcard")
    if any(len(part) > 1 and part[0] == "0" for part in known):
        _fail(whole, f"{quoted(text)} has a number with a leading zero; remove the zero")
    numbers = tuple(int(part) for part in known)
    if len(numbers) == 3:
        key = read_semver(".".join(known) + (f"-{pre}" if pre else ""))
        if key is None:
            _fail(whole, f"{quoted(text)} has a pre-release that isn't valid SemVer")
        return _Partial(numbers, key, any_prerelease=pre == "0")
    if pre not in (None, "0"):
        _fail(whole, f"{quoted(text)}: only a whole version such as 1.2.3-rc.1 has a pre-release")
    return _Partial(numbers, any_prerelease=pre == "0")


def _narrowed(
    alternative: Alternative, operator: str, first: _Partial, last: _Partial | None
) -> Alternative:
    """The alternative with one more constraint, in npm's and Helm's meaning."""
    if operator == "!=":
        return alternative.without(Span(first.start, first.end))
    span = Span(first.start, last.end) if last else _span(operator, first)
    named = [one.numbers for one in (first, last) if one and one.names_prerelease]
    return alternative.within(
        span,
        frozenset((major, minor, patch) for major, minor, patch in named),
        any_prerelease=first.any_prerelease and operator not in ("<", "<="),
    )


def _span(operator: str, version: _Partial) -> Span:
    start, end = version.start, version.end
    if operator == "~":
        end = version.after(1)
    elif operator == "^":
        leading = next((i for i, number in enumerate(version.numbers) if number), 2)
        end = version.after(leading)
    elif operator == ">=":
        end = None
    elif operator == ">":
        return Span(end) if end else NOTHING
    elif operator == "<=":
        start = EVERYTHING.start
    elif operator == "<":
        # ``<2.0.0`` excludes 2.0.0-rc.1, though SemVer orders it below: an upper bound that is a
        # release excludes its pre-releases (PEP 440 has the same rule).
        below = start if version.names_prerelease else (floor(*version.numbers), False)
        start, end = EVERYTHING.start, below
    return Span(start, end)


def _fail(whole: str, problem: str) -> NoReturn:
    raise VersionError(f"{quoted(whole)} isn't a valid version range: {problem}")
