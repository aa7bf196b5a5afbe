"""Selects a tag for a range from a stream of tags, in constant memory, with reasons.

A repository may have thousands of tags, most of them werf's own stages. Only the best match and
the highest rejected tags are kept, so that the status can list why these weren't chosen. Bundles
with equal criteria share a selection.

SemVer 2.0 decides which tags are versions. A tag such as ``2024.1`` or ``1.2.3.4`` isn't SemVer;
``packaging`` (PEP 440) parses it, but they are used only in a repository without any SemVer tag, so
the alias ``1.2`` beside ``1.2.9``, or a date, is never chosen. The highest tag that looks like a
version and isn't one is named with the rule that it breaks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import MAX_REJECTED, BundleStatus, Outcome, Rejected
from copyrator.api.reasons.bundles import Rejection
from copyrator.api.tagfilter import compile_filter
from copyrator.api.version_range import (
    TAG,
    ExactTag,
    Fit,
    Key,
    VersionRange,
    base_of,
    floor,
    is_prerelease,
    parse_version,
    read_semver,
    release,
)

_DOTTED: Final = re.compile(r"[vV]?[0-9]{1,9}\.[0-9]{1,9}(?:[.-]?[0-9A-Za-z]{1,16}){0,4}")
"""Two numbers at least. A date (``20240115``), a port or a hash isn't a version."""

_STAGE: Final = re.compile(r"[0-9a-f]{56}-")
"""A stage in one of werf's repositories (docs/facts/werf.md), the most of their tags."""
_LOOKALIKE: Final = re.compile(
    r"(?P<word>[^0-9]{0,32}+)"
    r"(?P<numbers>[0-9]++(?:(?:\.[0-9]++)++|(?:[-_][0-9]++){1,2}+\Z)?+)"
    r"(?P<rest>.*+)"
)
_TIME: Final = re.compile(r"[tTwW][0-9]")
"""Start of what follows a date, as in ``20250115T083000Z`` or ``2025w03``; no hash has it."""
_SEPARATOR: Final = re.compile(r"[._-]")
_PLAIN_WORDS: Final = frozenset({"", "v", "V"})
_BUILD_WORD: Final = re.compile(
    r"|b|bld|build|ci|job|nightly|no|number|pipeline|r|rel|release|rev|revision|run|snapshot|v|ver"
    r"|version"
)
"""What makes a single number a version or a build, as in ``build-77``."""
_WERF_WORDS: Final = frozenset(
    {"client-id", "custom-tag-meta", "import-metadata", "managed-image", "meta"}
)
"""Tags of werf's stages repositories begin with these (docs/facts/werf.md)."""
_RELEASE_WORDS: Final = frozenset({"final", "ga", "release", "stable"})
"""Suffixes that mean no pre-release."""


@dataclass(frozen=True, slots=True)
class VersionTag:
    """A tag that is a version."""

    tag: str
    key: Key
    """Its sort key among SemVer versions; ranges are evaluated on it."""
    is_semver: bool
    order: tuple[Any, ...]
    """Sorts candidates of the same kind, equal versions too: see ``_order``."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its numbers, without a pre-release."""
        return base_of(self.key) if self.is_semver else self.order[0].release


@dataclass(frozen=True, slots=True)
class Lookalike:
    """A tag that isn't a version, but looks like one."""

    tag: str
    numbers: tuple[int, ...]


def read_tag(tag: str) -> VersionTag | None:
    """A tag as a version; None where it isn't one, or isn't a valid tag."""
    if not TAG.fullmatch(tag):
        return None
    key = read_semver(tag)
    if key is not None:
        return VersionTag(tag, key, True, _order(tag, key))
    if not _DOTTED.fullmatch(tag):
        return None
    try:
        version = Version(tag)
    except InvalidVersion:
        return None
    where = floor if version.is_prerelease else release
    return VersionTag(tag, where(*version.release), False, _order(tag, version))


def read_any(tag: str) -> VersionTag | Lookalike | None:
    """A tag as a version, or as one that only looks like a version; None for any other."""
    if tag[56:57] == "-" and _STAGE.match(tag):
        return None
    if (version := read_tag(tag)) is not None:
        return version
    found = _LOOKALIKE.fullmatch(tag)
    if found is None or not TAG.fullmatch(tag):
        return None
    word, numbers = found["word"].rstrip("._-").lower(), found["numbers"]
    is_hash = found["rest"][:1].isalpha() and not _TIME.match(found["rest"])
    is_build = not is_hash and _BUILD_WORD.fullmatch(word)
    if not is_build and ("." not in numbers or word in _WERF_WORDS):
        return None
    return Lookalike(tag, tuple(map(int, _SEPARATOR.split(numbers))))


def explain_lookalike(tag: str) -> str:
    """The rule that a tag breaks, so that it isn't a version, and what to do.

    Source: SemVer 2.0, items 2, 9 and 10.
    """
    found = _LOOKALIKE.fullmatch(tag)
    if found is None:
        return ""
    word, numbers, rest = found["word"], _SEPARATOR.split(found["numbers"]), found["rest"]
    if word not in _PLAIN_WORDS:
        fault = f"it begins with {word}, and a version begins with a number or v"
    elif len(numbers) != 3:
        count = "one number" if len(numbers) == 1 else f"{len(numbers)} numbers"
        fault = f"it has {count}, and a version has three"
    elif "." not in found["numbers"]:
        fault = "no points separate its numbers"
    elif zeros := next(filter(_has_leading_zero, numbers), None):
        fault = f"its number {zeros} has a leading zero"
    else:
        fault = _fault_of_suffix(rest)
    instead = _nearest_version(word, numbers, rest)
    remedies = [f"publish it as {instead}"] if instead else []
    if isinstance(parse_version(tag), ExactTag):
        remedies.append("set spec.version to this tag")
    return f"{fault}; {' or '.join(remedies)}" if remedies else fault


def _has_leading_zero(text: str) -> bool:
    return len(text) > 1 and text[0] == "0" and text.isdecimal()


def _fault_of_suffix(rest: str) -> str:
    """What is wrong behind the three numbers."""
    pre, _, build = rest.partition("_")
    if pre[:1] not in ("", "-") and rest.strip("._-"):
        return f"{rest} follows its numbers, and a pre-release follows a hyphen"
    if "_" in build:
        return "it has a second _, and only one begins the build metadata"
    if zeros := next(filter(_has_leading_zero, pre[1:].split(".")), None):
        return f"the number {zeros} of its pre-release has a leading zero"
    return f"a part of {rest} is empty"


def _nearest_version(word: str, numbers: list[str], rest: str) -> str | None:
    """The version that a tag may mean; None where none is near."""
    major, minor, patch = (*(int(one) for one in numbers), 0, 0)[:3]
    patch += len(numbers) > 3
    pre, _, build = rest.partition("_")
    parts = [one for one in pre.strip(".-").split(".") if one]
    pre = ".".join(one.lstrip("0") or "0" if one.isdecimal() else one for one in parts)
    pre = "" if pre.lower() in _RELEASE_WORDS else pre
    build = build.strip("._-").replace("_", "-")
    if len(numbers) == 1:  # of a build, no pre-release
        pre, build = "", "-".join(one for one in (pre, build) if one)
    text = f"{word if word in _PLAIN_WORDS else ''}{major}.{minor}.{patch}"
    text += (f"-{pre}" if pre else "") + (f"_{build}" if build else "")
    return text if TAG.fullmatch(text) and read_semver(text) is not None else None


def _order(tag: str, version: Any) -> tuple[Any, ...]:
    """Higher versions last. Of equal ones the plain tag is last, then the one without build.

    Build metadata and a ``v`` have no precedence, but the choice among tags that differ in nothing
    else must not depend on the order in which a registry lists them.
    """
    return version, "_" not in tag, tag[0] not in "vV", tag


def is_lower(one: VersionTag, other: VersionTag) -> bool:
    """Whether ``one`` is a lower version; equal versions aren't, whatever their build."""
    if one.is_semver == other.is_semver:
        return bool(one.order[0] < other.order[0])
    return one.key < other.key


class Selection(StrEnum):
    """The result of a selection."""

    CHOSEN = "Chosen"
    NO_MATCH = "NoMatch"
    WOULD_DOWNGRADE = "WouldDowngrade"
    """The best match is below what is deployed: a deleted tag, or an incomplete list."""
    QUARANTINED = "Quarantined"
    """The best match failed too often. Its digest is still resolved: a push of the tag ends the
    quarantine. A lower version is never chosen instead.
    """


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome of a complete list."""

    verdict: Selection
    tag: str | None = None
    """The tag to resolve; None for NO_MATCH and WOULD_DOWNGRADE."""
    best: str | None = None
    """The best match, whatever the verdict."""
    rejected: tuple[Rejected, ...] = ()
    """The highest tags that were rejected, highest first."""
    counts: Mapping[Rejection, int] = field(default_factory=dict)
    """How many tags were rejected, by reason."""
    keeps: bool = False
    """The deployed tag fits the spec, whether or not it is still in the list."""
    fitting: tuple[str, ...] = ()
    """Tags that fit and aren't below the deployed one, highest first; at most ``depth``."""


@dataclass(slots=True)
class _Ranking:
    """Candidates of one kind: the best match, and the highest that were rejected."""

    matched: int = 0
    """How many matched the tag filter."""
    best: VersionTag | None = None
    rejected: list[tuple[VersionTag, Rejection]] = field(default_factory=list)
    """Highest first; at most MAX_REJECTED."""
    counts: Counter[Rejection] = field(default_factory=Counter)
    fitting: list[tuple[tuple[Any, ...], VersionTag]] = field(default_factory=list)
    """The best matches with their order, highest first."""

    def admit(self, order: tuple[Any, ...], candidate: VersionTag, depth: int) -> None:
        """Keep the candidate if it is among the ``depth`` highest."""
        kept = self.fitting
        if len(kept) >= depth and (not kept or order <= kept[-1][0]):
            return
        if any(one.tag == candidate.tag for _, one in kept):  # pages may overlap
            return
        kept.append((order, candidate))
        kept.sort(key=lambda one: one[0], reverse=True)
        del kept[depth:]

    def reject(self, candidate: VersionTag, reason: Rejection) -> None:
        self.counts[reason] += 1
        kept = self.rejected
        if len(kept) == MAX_REJECTED and candidate.order <= kept[-1][0].order:
            return
        if any(one.tag == candidate.tag for one, _ in kept):  # pages may overlap
            return
        kept.append((candidate, reason))
        kept.sort(key=lambda one: one[0].order, reverse=True)
        del kept[MAX_REJECTED:]

    def above(self, best: VersionTag | None) -> list[tuple[VersionTag, Rejection]]:
        """The rejected tags that are higher than the best match: a user might expect those."""
        return [one for one in self.rejected if best is None or is_lower(best, one[0])]


@dataclass(slots=True)
class TagSelection:
    """One selection from a tag list: add every tag, then take the result.

    The result is valid only for a complete list: drop the selection after an error.
    """

    range: VersionRange
    matches: Callable[[str], bool] | None = None
    """``TagFilter.matches`` of ``spec.tagFilter``."""
    prerelease: bool = False
    """``spec.prerelease``."""
    quarantined: Collection[str] = ()
    """Tags that failed too often."""
    deployed: str | None = None
    """The deployed tag: the lower bound, as long as it fits the spec; a spec that it doesn't fit
    requests another version, which may be lower. None where the spec now names another repository.
    """
    depth: int = 0
    """How many tags that fit are named in the choice, for gates to judge."""
    _semver: _Ranking = field(default_factory=_Ranking)
    _dotted: _Ranking = field(default_factory=_Ranking)
    _junk: int = 0
    _lookalikes: dict[tuple[bool, int, bool], tuple[tuple[Any, ...], VersionTag | Lookalike]] = (
        field(default_factory=dict)
    )
    """The highest of each kind, with its order: whether it would be in the range, how many numbers
    it has, whether it is a version where no tag is SemVer.
    """

    def add(self, tag: str) -> None:
        """Process the next tag of the list."""
        self.consider(read_any(tag))

    def consider(self, candidate: VersionTag | Lookalike | None) -> None:
        """The same for a tag that ``read_any`` has read: many selections can share one list."""
        if candidate is None:
            self._junk += 1
            return
        if isinstance(candidate, Lookalike):
            self._junk += 1
            if self.matches is None or self.matches(candidate.tag):
                near = self.range.fit(release(*candidate.numbers))
                self._keep_lookalike(candidate, fits=near is Fit.IN_RANGE)
            return
        ranking = self._semver if candidate.is_semver else self._dotted
        reason = self._objection(candidate)
        ranking.matched += reason is not Rejection.FILTERED
        if not candidate.is_semver and reason is not Rejection.FILTERED:
            self._keep_lookalike(candidate, fits=reason is None)
        if reason is not None:
            ranking.reject(candidate, reason)
            return
        order = self._order(candidate)
        ranking.admit(order, candidate, self.depth)
        if ranking.best is None or order > self._order(ranking.best):
            ranking.best = candidate

    def result(self) -> Choice:
        """The choice among all that were added."""
        floor = self._floor()
        ranking, other = self._semver, self._dotted
        if not ranking.matched and other.matched and not (floor and floor.is_semver):
            ranking, other = other, ranking
        counts = ranking.counts + Counter(
            {
                Rejection.FILTERED: other.counts[Rejection.FILTERED],
                Rejection.NOT_A_VERSION: self._junk + other.matched,
            }
        )
        best = ranking.best
        verdict = self._verdict(best, floor)
        lookalike = self._expected(ranking)
        reason = _BEST_REJECTED.get(verdict) if best else None
        room = MAX_REJECTED - (lookalike is not None) - (reason is not None)
        rejected: list[tuple[VersionTag | Lookalike, Rejection]] = [*ranking.above(best)[:room]]
        if lookalike is not None:
            at = sum(one.numbers > lookalike.numbers for one, _ in rejected)
            rejected.insert(at, (lookalike, Rejection.NOT_A_VERSION))
        if best is not None and reason is not None:
            counts[reason] += 1
            rejected.append((best, reason))
        usable = verdict in (Selection.CHOSEN, Selection.QUARANTINED)
        return Choice(
            verdict=verdict,
            tag=best.tag if best and usable else None,
            best=best.tag if best else None,
            rejected=tuple(_rejected(one.tag, why) for one, why in rejected),
            counts=dict(counts),
            keeps=floor is not None,
            fitting=tuple(
                one.tag
                for _, one in ranking.fitting
                if usable and (floor is None or not is_lower(one, floor))
            ),
        )

    def _keep_lookalike(self, candidate: VersionTag | Lookalike, *, fits: bool) -> None:
        """Keep a tag that isn't SemVer, if it is the highest of its kind."""
        numbers, tag = candidate.numbers, candidate.tag
        kind = fits, min(len(numbers), 3), isinstance(candidate, VersionTag)
        order = *kind[:2], numbers, -len(tag), tag
        kept = self._lookalikes.get(kind)
        if kept is None or order > kept[0]:
            self._lookalikes[kind] = order, candidate

    def _expected(self, ranking: _Ranking) -> VersionTag | Lookalike | None:
        """The tag that isn't a version here, and that a user might expect instead of the best.

        That is the highest of those in the range, and of all where none of these is higher than the
        best; of those with three numbers rather than with two or one. An alias (``2`` or ``2.1``
        beside ``2.1.3``) isn't expected.
        """
        best, known = ranking.best, [one for one, _ in ranking.rejected]
        for _, one in sorted(self._lookalikes.values(), reverse=True, key=lambda kept: kept[0]):
            size = len(one.numbers)
            if isinstance(one, VersionTag) and ranking is self._dotted:
                continue
            if size < 3 and any(other.numbers[:size] == one.numbers for other in known):
                continue
            if best is None or one.numbers > best.numbers:
                return one
            if one.numbers == best.numbers and best.is_semver and is_prerelease(best.key):
                return one
        return None

    def _objection(self, candidate: VersionTag) -> Rejection | None:
        if self.matches is not None and not self.matches(candidate.tag):
            return Rejection.FILTERED
        return _UNFIT[self.range.fit(candidate.key, prerelease=self.prerelease)]

    def _order(self, candidate: VersionTag) -> tuple[Any, ...]:
        """The sort key. Of equal versions the deployed one is highest: a new build isn't chosen."""
        version, *rest = candidate.order
        return version, candidate.tag == self.deployed, *rest

    def _floor(self) -> VersionTag | None:
        deployed = read_tag(self.deployed) if self.deployed else None
        return deployed if deployed and self._objection(deployed) is None else None

    def _verdict(self, best: VersionTag | None, floor: VersionTag | None) -> Selection:
        if best is None:
            return Selection.NO_MATCH
        if floor is not None and is_lower(best, floor):
            return Selection.WOULD_DOWNGRADE
        return Selection.QUARANTINED if best.tag in self.quarantined else Selection.CHOSEN


_UNFIT: Final = {
    Fit.IN_RANGE: None,
    Fit.PRE_RELEASE: Rejection.PRE_RELEASE,
    Fit.OUT_OF_RANGE: Rejection.OUT_OF_RANGE,
}
_BEST_REJECTED: Final = {
    Selection.WOULD_DOWNGRADE: Rejection.LOWER_THAN_DEPLOYED,
    Selection.QUARANTINED: Rejection.QUARANTINED,
}


def _rejected(tag: str, reason: Rejection) -> Rejected:
    is_junk = reason is Rejection.NOT_A_VERSION
    return Rejected(version=tag, reason=reason, message=explain_lookalike(tag) if is_junk else None)


def explain(choice: Choice, version: str, deployed: str | None = None) -> str:
    """Why nothing was chosen, as a sentence for the condition.

    Names tags and no counts: those change with every push of a tag that isn't a version.
    """
    if choice.verdict is Selection.WOULD_DOWNGRADE:
        return (
            f"The best match of {version} is {choice.best}, which is lower than the deployed "
            f"{deployed}; its tag may have been deleted. To downgrade, set spec.version to the "
            "desired version"
        )
    over = [
        f"{one.version} ({one.reason}{': ' * bool(one.message)}{one.message or ''})"
        for one in choice.rejected
    ]
    text = f"No tag matches {version}"
    is_expected = any(one.reason == Rejection.NOT_A_VERSION for one in choice.rejected)
    if is_expected and set(choice.counts) <= {Rejection.NOT_A_VERSION, Rejection.FILTERED}:
        where = " that spec.tagFilter admits" if Rejection.FILTERED in choice.counts else ""
        text += f", as no tag{where} is a version"
    if over:
        text += "; rejected: " + ", ".join(over)
    semver = (read_semver(one.version or "") for one in choice.rejected)
    if over and not is_expected and not any(semver):
        text += "; no tag is SemVer, so numbers and points count as versions"
    if any(one.reason == Rejection.PRE_RELEASE for one in choice.rejected):
        text += "; spec.prerelease: true admits pre-releases"
    return text


@dataclass(frozen=True, slots=True)
class Criteria:
    """A range with everything that restricts it."""

    range: VersionRange
    tag_filter: str | None = None
    prerelease: bool = False
    quarantined: str | None = None
    """A tag that failed too often."""
    deployed: str | None = None
    """The deployed tag, of the same repository."""
    depth: int = 0
    """How many tags that fit are named in the choice."""

    def selection(self) -> TagSelection:
        """A new selection with these criteria; every tag of a list has to be added to it."""
        return TagSelection(
            self.range,
            matches=compile_filter(self.tag_filter).matches if self.tag_filter else None,
            prerelease=self.prerelease,
            quarantined=() if self.quarantined is None else (self.quarantined,),
            deployed=self.deployed,
            depth=self.depth,
        )


def criteria_of(
    spec: BundleSpec, wanted: VersionRange, status: BundleStatus, depth: int = 0
) -> Criteria:
    """The Bundle's present criteria."""
    return Criteria(
        range=wanted,
        tag_filter=spec.tag_filter,
        prerelease=spec.prerelease,
        quarantined=_quarantined(status, spec.retry),
        deployed=deployed_tag(status, spec.reference),
        depth=depth,
    )


def deployed_tag(status: BundleStatus, reference: str) -> str | None:
    """The deployed tag, if it came from this repository: tags of another one don't compare.

    Deploys without a recorded repository (the original operator's) count as from this one: else a
    lower version could be deployed automatically.
    """
    there = status.deployed
    return there.version if there.reference in (None, reference) else None


def _quarantined(status: BundleStatus, retry: Retry) -> str | None:
    attempted = status.attempted
    failed = attempted.outcome == Outcome.FAILED and (attempted.failures or 0) > retry.limit
    return attempted.version if failed else None


def admits(spec: BundleSpec, tag: str) -> bool:
    """Whether the spec names this tag, or its range, filter and pre-releases admit it."""
    version = parse_version(spec.version)
    if isinstance(version, ExactTag):
        return version.tag == tag
    selection = criteria_of(spec, version, BundleStatus()).selection()
    selection.add(tag)
    return selection.result().verdict is Selection.CHOSEN


def is_below(tag: str, other: str) -> bool:
    """Whether both are versions, and the first is the lower one."""
    one, two = read_tag(tag), read_tag(other)
    return one is not None and two is not None and is_lower(one, two)
