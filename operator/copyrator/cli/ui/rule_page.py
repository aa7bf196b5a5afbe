"""A rule's page: where its copies come from and go, what fails and why, and the copies. Pure.

And that of a copy: why it is as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from heapq import nsmallest
from itertools import islice, pairwise
from typing import Any, Final
from urllib.parse import urlencode

from copyrator.api import names
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import PUBLIC_CAS, RuleSpec
from copyrator.api.rule_status import shared_message
from copyrator.api.selectors import ANY_LABELS, is_wild
from copyrator.api.text import NAMED, Detail, count, format_time, printable, time_since, time_until
from copyrator.cli.core.faults import hint
from copyrator.cli.ui.parts import (
    INDENT,
    SIGNS,
    STATE_TONES,
    Arrow,
    Box,
    Drawing,
    certificate_tone,
    condition_rows,
    segment,
)
from copyrator.cli.view import rows
from copyrator.cli.view.copies import CopyFilter, CopyRow, RuleCopies
from copyrator.cli.view.lists import read_number
from copyrator.cli.view.overview import OverviewRow, Snapshot, rule_row
from copyrator.cli.view.rule import (
    CertificateRow,
    CopyGroup,
    RuleView,
    certificate_rows,
    describe_origin,
    describe_settings,
    group_failures,
    remedy_of,
    rollout_progress,
    rule_kind,
)
from copyrator.cli.view.why_copy import CopyAnswer, describe_writes

SOURCES: Final = 5
"""Sources that the drawing shows one by one."""
TIME_WIDTH: Final = 280
"""Pixels of a line of time."""
TICKS: Final = (("now", 0.0), ("30d", 30.0), ("90d", 90.0), ("1y", 365.0), ("5y", 1825.0))
"""Days from now that are marked on it."""
_MARGIN: Final = 8
_FARTHEST: Final = 20 * 365.0
_WIDTH: Final = 258
_GAP: Final = 14


@dataclass(frozen=True, slots=True)
class Look:
    """A state of copies as it is shown."""

    text: str
    tone: str
    sign: str


LOOKS: Final = {
    CopyGroup.FAILED: Look("Failed", "fault", "✕"),
    CopyGroup.CONFLICT: Look("In conflict", "fault", "✕"),
    CopyGroup.LATER: Look("Later in the rollout", "waiting", "…"),
    CopyGroup.PENDING: Look("Pending", "waiting", "…"),
    CopyGroup.SYNC: Look("In sync", "good", "✓"),
    CopyGroup.UNKNOWN: Look("Exists", "suspended", "·"),
}


def read_filter(query: Mapping[str, str]) -> CopyFilter:
    """The filter of an address; what isn't one of its words counts as absent."""
    group = query.get("state", "")
    return CopyFilter(
        query.get("in", "").strip()[:253],
        CopyGroup(group) if group in set(CopyGroup) else None,
        read_number(query.get("page")),
    )


def copies_address(place: str = "", group: CopyGroup | None = None, page: int = 1) -> str:
    """The part of an address that `read_filter` reads."""
    words = {"in": place, "state": group or "", "page": page if page > 1 else ""}
    return "?" + urlencode({key: word for key, word in words.items() if word})


def copy_page(copy: CopyRow) -> str:
    """The address of a copy's page; empty where its name isn't known."""
    if not (copy.namespace and copy.name) or copy.kind == "-":
        return ""
    return f"/copies/{segment(copy.namespace)}/{segment(copy.kind)}/{segment(copy.name)}"


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures with the same reason and message."""

    reason: str
    message: str
    remedy: str
    copies: Sequence[CopyRow]

    @property
    def summary(self) -> str:
        """``7 namespaces: team-a, team-b, …``."""
        places = sorted({one.namespace for one in self.copies})
        return f"{count(len(places), 'namespace')}: {_some(places)}"


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """A step of a rollout."""

    text: str
    """How many targets have the new content after it, as in the spec."""
    state: str
    """``done``, ``now`` or ``next``."""


@dataclass(frozen=True, slots=True)
class RolloutParts:
    """A rollout that is in progress."""

    present: str
    """``step 2/4``."""
    steps: Sequence[RolloutStep]
    """Empty where the spec has none any more."""
    until: str
    """When the pause of the present step ends; empty while it is written, or stopped."""
    left: str
    """How long that is from now."""
    stopped: str
    """Which consumer stopped it, and why."""
    resume: str
    """The command that continues it then."""


@dataclass(frozen=True, slots=True)
class CertificateMark:
    """A certificate on a line of time."""

    row: CertificateRow
    start: float
    """Where its bar begins."""
    end: float

    @property
    def tone(self) -> str:
        """Of its validity."""
        return certificate_tone(self.row.validity)

    @property
    def sign(self) -> str:
        """Before its validity."""
        return SIGNS[self.tone]


@dataclass(frozen=True)
class RulePage:
    """A rule as its page, or (``static``) a report shows it."""

    view: RuleView
    seen: Snapshot
    filter: CopyFilter = field(default_factory=CopyFilter)
    static: bool = False
    name: str = "flow"
    """Part of identifiers."""

    @cached_property
    def row(self) -> OverviewRow:
        """Its row of the lists."""
        return rule_row(self.view)

    @cached_property
    def path(self) -> str:
        """The address of its page."""
        return rule_path(self.row.shown)

    @cached_property
    def kind(self) -> str:
        """The kind of its copies; a dash where it has none."""
        return printable(rule_kind(self.view.body))

    @cached_property
    def copies(self) -> RuleCopies:
        """Its copies."""
        return RuleCopies(self.view, self.seen)

    @property
    def sentence(self) -> str:
        """Its trouble, or how many copies are in sync."""
        if self.view.trouble:
            return printable(self.view.trouble)
        copies = count(self.view.counts.ready, "copy", "copies")
        targets = count(self.view.status.targets, "namespace")
        return f"{copies} in sync in {targets}."

    @property
    def failures(self) -> list[FailureGroup]:
        """Those that the status names, the same ones together."""
        return [
            FailureGroup(
                printable(group[0].reason),
                printable(shared_message(group[0].namespace, group[0].message)),
                remedy_of(group[0].reason),
                [self.copies.row_of(one) for one in group],
            )
            for group in group_failures(self.view.failures)
        ]

    @property
    def unnamed(self) -> int:
        """Failing copies that the status doesn't name."""
        counts = self.view.counts
        return max(counts.failed + counts.conflicts - len(self.view.failures), 0)

    @property
    def rollout(self) -> RolloutParts | None:
        """The rollout that is in progress."""
        spec, state = self.view.spec, self.view.rollout
        if state is None:
            return None
        texts = spec.rollout.steps if isinstance(spec, RuleSpec) and spec.rollout else ()
        steps = [
            RolloutStep(
                text if text.endswith("%") else count(int(text), "namespace"),
                "now" if number == state.step else "done" if number < state.step else "next",
            )
            for number, text in enumerate(texts, 1)
        ]
        until = format_time(state.next_at) if state.next_at and not state.stopped else ""
        stopped = ""
        if state.stopped is not None:
            who = state.stopped
            stopped = printable(f"{who.kind} {who.namespace}/{who.name}: {who.message}")
        resume = hint("rollout", "resume", "rule", self.row.shown)
        left = time_until(until, self.view.now)
        return RolloutParts(rollout_progress(self.view), steps, until, left, stopped, resume)

    @property
    def certificates(self) -> list[CertificateMark]:
        """Those in its copies on a line of time, the first to expire first."""
        return mark_certificates(certificate_rows(self.view), self.view.now)

    @property
    def why(self) -> str:
        """The page that says why a namespace has no copy; empty where none is chosen."""
        place = self.filter.place
        if not place or is_wild(place):
            return ""
        return copy_page(CopyRow(place, self.kind, self.copies.name, CopyGroup.UNKNOWN))

    @property
    def drawing(self) -> Drawing:
        """Its sources, itself, and its copies by state, from top to bottom."""
        return draw(self)

    @property
    def details(self) -> list[Detail]:
        """Its settings, and what of its sources isn't used."""
        view, metadata = self.view, self.view.body["metadata"]
        found = [Detail("Age", time_since(metadata.get("creationTimestamp"), view.now))]
        if "deletionTimestamp" in metadata:
            since = time_since(metadata["deletionTimestamp"], view.now)
            found.append(Detail("Deleted", f"{since} ago, not removed yet"))
        return [*found, *describe_settings(view), *describe_origin(view)]

    @property
    def conditions(self) -> list[dict[str, str]]:
        """Its conditions."""
        return condition_rows(self.view.body, self.view.now)


@dataclass(frozen=True)
class CopyPage:
    """A copy, or what takes its place, and why; nothing is known of the rules without an answer."""

    answer: CopyAnswer
    now: datetime
    name: str = "copy"
    """Part of identifiers."""

    @property
    def source(self) -> str:
        """What it is made from."""
        metadata = self.answer.metadata or {}
        source = rows.annotation({"metadata": metadata}, names.ANN_SOURCE)
        return self.answer.made_of if source == "-" else printable(source)

    @property
    def rule(self) -> str:
        """The rule that made it, or would."""
        return self.answer.owner or (self.answer.first.rule if self.answer.first else "")

    @property
    def drawing(self) -> Drawing | None:
        """Its source, its rule and itself; None where it has no rule."""
        if not self.rule:
            return None
        group, kind = self.answer.verdict.group, printable(self.answer.kind)
        y, boxes = 0.0, []
        for text, x, texts, tone, href in (
            (self.source, INDENT, [f"{kind} {self.source}"], "", ""),
            (self.rule, 0, [f"Rule {printable(self.rule)}"], "", rule_path(self.rule)),
            (self.answer.name, INDENT, self._texts, LOOKS[group].tone if group else "", ""),
        ):
            if text:
                boxes.append(Box(x, y, _WIDTH + INDENT - x, texts, tone, href))
                y += boxes[-1].height + _GAP
        arrows = [Arrow(*pair, is_angled=True) for pair in pairwise(boxes)]
        return Drawing(self.name, f"Where {self.answer.shown} comes from", boxes, arrows)

    @property
    def _texts(self) -> list[str]:
        group, answer = self.answer.verdict.group, self.answer
        state = f"{LOOKS[group].sign} {LOOKS[group].text}" if group else ""
        missing = "" if answer.metadata is not None else "doesn't exist"
        texts = [f"{answer.kind} {answer.name}", f"in {answer.namespace}", missing, state]
        return [printable(text) for text in texts if text]

    @property
    def certificates(self) -> list[CertificateMark]:
        """Those in it on a line of time."""
        return mark_certificates(self.answer.certificates, self.now)

    @property
    def details(self) -> list[Detail]:
        """When it was written, and by whom else."""
        metadata = self.answer.metadata
        return list(describe_writes(metadata, self.now)) if metadata else []


def rule_path(shown: str) -> str:
    """The page of a rule (``namespace/name``)."""
    namespace, _, name = shown.partition("/")
    return f"/rules/{segment(namespace)}/{segment(name)}" if name else ""


def mark_certificates(found: Iterable[CertificateRow], now: datetime) -> list[CertificateMark]:
    """Certificates on a line of time."""

    def place(moment: datetime) -> float:
        return place_on_line((moment - now).total_seconds() / 86400)

    return [
        CertificateMark(row, place(row.certificate.not_before), place(row.certificate.not_after))
        for row in found
    ]


def place_on_line(days: float) -> float:
    """Where so many days from now are on a line of time: logarithmic, at most 20 years ahead.

    One that ends in 17 years leaves room for those of the next weeks.
    """
    days = min(max(days, 0.0), _FARTHEST)
    part = math.log1p(days / 10) / math.log1p(_FARTHEST / 10)
    return round(_MARGIN + (TIME_WIDTH - 2 * _MARGIN) * part, 1)


def draw(page: RulePage) -> Drawing:
    """Sources, the rule, and its copies by state, from top to bottom: fits a narrow screen."""
    y, boxes = 0.0, []
    is_missing = page.row.reason == RuleReason.SOURCE_NOT_FOUND
    for texts in _sources(page):
        boxes.append(Box(INDENT, y, _WIDTH, texts, "fault" if is_missing else ""))
        y += boxes[-1].height + _GAP
    rule = Box(0, y, _WIDTH + INDENT, _rule_texts(page), STATE_TONES[page.row.state])
    arrows = [Arrow(box, rule, is_angled=True) for box in boxes]
    boxes.append(rule)
    y += rule.height + _GAP
    for group, texts in _groups(page):
        href = "" if page.static else f"{page.path}{copies_address(group=group)}#copies"
        box = Box(INDENT, y, _WIDTH, texts, LOOKS[group].tone, href)
        boxes.append(box)
        arrows.append(Arrow(rule, box, is_angled=True))
        y += box.height + _GAP
    if boxes[-1] is rule:
        boxes.append(Box(INDENT, y, _WIDTH, ["No copies"]))
        arrows.append(Arrow(rule, boxes[-1], is_angled=True))
    title = f"Sources and copies of the rule {page.row.shown}"
    return Drawing(page.name, title, boxes, arrows)


def _rule_texts(page: RulePage) -> list[str]:
    spec = page.view.spec
    makes = "renders" if isinstance(spec, RuleSpec) and spec.template else "copies"
    return [f"Rule {page.row.name}", *([f"{makes} {page.kind}"] if page.kind != "-" else [])]


def _sources(page: RulePage) -> Iterator[list[str]]:
    """The texts of a box for each source; beyond SOURCES the others are one."""
    spec = page.view.spec
    found = list(_source_texts(page, spec)) if isinstance(spec, RuleSpec) else []
    most = SOURCES if len(found) <= SOURCES else SOURCES - 1
    yield from found[:most]
    if rest := found[most:]:
        yield [f"{len(rest)} more sources", _some([texts[0] for texts in rest])]


def _source_texts(page: RulePage, spec: RuleSpec) -> Iterator[list[str]]:
    yield from ([f"{alias}: {PUBLIC_CAS}"] for alias in spec.default_cas)
    for one in spec.composed_sources:
        optional = ", optional" if one.optional else ""
        which = f" {one.name}" if one.name else ""
        where = f"in {one.namespace}{one.cluster}{optional}"
        texts = [where] if one.name else [_labels(one.selector), where]
        yield [f"{one.alias}: {one.kind}{which}", *texts]
    if spec.source is None:
        if not spec.sources:
            yield ["Template", "without sources"]
    elif spec.source.name:
        for place in spec.source.namespaces:
            yield [f"{spec.kind} {spec.source.name}", f"in {place}{spec.source.cluster}"]
    else:
        labels = _labels(spec.source.selector)
        where = f"in {_some(spec.source.namespaces)}{spec.source.cluster}"
        number = page.view.status.sources
        if known := _names_of_sources(page, spec, number):
            for name in known:
                yield [f"{spec.kind} {name}", f"{labels} {where}"]
        else:
            yield [count(number, spec.kind), labels, where]


def _names_of_sources(page: RulePage, spec: RuleSpec, number: int) -> list[str]:
    """The names of so many sources, where those of the copies tell all of them; else none."""
    if spec.transform.name or number > SOURCES:
        return []
    some = islice(page.copies.found.values(), 100)
    found = {name for place in some for _, name in islice(place, 100)}
    return sorted(found) if len(found) == number else []


def _groups(page: RulePage) -> Iterator[tuple[CopyGroup, list[str]]]:
    """The states that copies are in, with their numbers and examples of namespaces."""
    satisfied = page.view.counts.satisfied
    for group, number in page.copies.numbers.items():
        if not number:
            continue
        look = LOOKS[group]
        texts = [f"{look.sign} {number} {look.text[0].lower()}{look.text[1:]}"]
        if places := page.copies.namespaces(group):
            first = nsmallest(NAMED + 1, places)
            texts.append(_some([printable(place) for place in first]))
        if group is CopyGroup.SYNC and satisfied:
            texts.append(f"{satisfied} not created by the operator")
        yield group, texts


def _some(members: Sequence[str]) -> str:
    """``team-a, team-b, …``."""
    return ", ".join([*members[:NAMED], *(["…"] if len(members) > NAMED else [])])


def _labels(selector: Any) -> str:
    return f"with {(selector or ANY_LABELS).to_string() or 'any labels'}"
