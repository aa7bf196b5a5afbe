"""The gates that judge the chart of a version. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import first_of
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Passed,
    Refused,
    Verdict,
    Waiting,
)
from copyrator.bundles.jobs.restrictions import is_gated

if TYPE_CHECKING:  # commands need the gates alone
    from copyrator.bundles.features.charts.facts import ChartFacts

_NAMED: Final = 5
"""Dependencies, and lines, that a sentence names."""


@dataclass(frozen=True, slots=True)
class FoundChart:
    """What the chart of a version is, or why it isn't read."""

    facts: ChartFacts | Waiting


def _judge_chart(
    judge: Callable[[str, ChartFacts], Verdict],
) -> Callable[[BundleSpec, Candidate, Facts, datetime], Verdict]:
    """A gate's judgement of a chart, which waits until that is read."""

    def judge_candidate(
        _spec: BundleSpec, candidate: Candidate, facts: Facts, _now: datetime
    ) -> Verdict:
        if (found := facts.findings.of(FoundChart)) is None:
            text = f"the chart of {candidate.digest} hasn't been read yet"
            return Waiting(BundleReason.REGISTRY_UNREACHABLE, text)
        if isinstance(found.facts, Waiting):
            return found.facts
        return judge(candidate.digest, found.facts)

    return judge_candidate


def _judge_vendored(digest: str, chart: ChartFacts) -> Verdict:
    if chart.unreadable is not None:
        return Passed(
            f"the chart of {digest} can't be judged: {chart.unreadable}; its Job checks it instead"
        )
    if not chart.unvendored:
        return PASSED
    more = len(chart.unvendored) - _NAMED
    missing = ", ".join(chart.unvendored[:_NAMED])
    missing += f" and {more} more" if more > 0 else ""
    return Refused(
        BundleReason.DEPENDENCIES_NOT_VENDORED,
        f"the chart of {digest} lacks {missing} in charts/: werf would download that at each run, "
        "whatever was signed or approved; vendor it: run `werf helm dependency build` (or `helm "
        "dependency update`) in the chart's directory, commit its charts/ and publish again",
    )


VENDORED: Final = Gate(
    name="vendored",
    concerns=lambda spec: spec.is_gated or is_gated(spec, signed=False),
    occasions=frozenset(Occasion),
    judge=_judge_chart(_judge_vendored),
    is_permanent=False,
    judges_awaited=True,
    judges_chart=True,
    unjudged="the chart isn't read here; the operator reads it by the digest",
)
"""What the chart of a gated Bundle names has to be in its ``charts/``.

What is missing there werf downloads at each run, so that no digest, signature, approval or soak
binds it. A chart that can't be judged passes here: the script of a gated Bundle's Job ends where
werf has downloaded something (docs/adr/0022).
"""


def _judge_plain(digest: str, chart: ChartFacts) -> Verdict:
    if chart.unreadable is not None:
        return Refused(
            BundleReason.CHART_NOT_PLAIN,
            f"the chart of {digest} can't be judged, so nobody can approve it: {chart.unreadable}; "
            "publish it with `werf bundle publish`, without files that it doesn't need",
        )
    if not chart.unplain:
        return PASSED
    text = first_of(chart.unplain, _NAMED)
    return Refused(
        BundleReason.CHART_NOT_PLAIN,
        f"the chart of {digest} may be read in several ways, so nobody can approve it: {text}; "
        "then publish it again",
    )


PLAIN: Final = Gate(
    name="plain",
    concerns=attrgetter("needs_plain_chart"),
    occasions=frozenset(Occasion),
    judge=_judge_chart(_judge_plain),
    is_permanent=False,
    judges_awaited=True,
    judges_chart=True,
    unjudged=VENDORED.unjudged,
)
"""The chart of a Bundle with an approval has to read the same for everybody (docs/adr/0064)."""

GATES: Final = Gates(version=(VENDORED, PLAIN))
