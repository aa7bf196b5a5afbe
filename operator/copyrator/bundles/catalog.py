"""The list of gates, which the controller and the command line share, and the short gates. Pure.

A gate of more than a few lines has a module of its own beside this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from copyrator.api.approval import ApprovalSpec
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import first_of
from copyrator.bundles.gates.gate import (
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
from copyrator.bundles.gates.restrictions import is_gated

if TYPE_CHECKING:
    from copyrator.bundles.chart.facts import ChartFacts

_NAMED_DEPENDENCIES: Final = 5


def _judge_chart(
    judge: Callable[[str, ChartFacts], Verdict],
) -> Callable[[BundleSpec, Candidate, Facts, datetime], Verdict]:
    """A gate's judgement of a chart, which waits until that is read."""

    def judge_candidate(
        _spec: BundleSpec, candidate: Candidate, facts: Facts, _now: datetime
    ) -> Verdict:
        if facts.chart is None:
            text = f"the chart of {candidate.digest} hasn't been read yet"
            return Waiting(BundleReason.REGISTRY_UNREACHABLE, text)
        if isinstance(facts.chart, Waiting):
            return facts.chart
        return judge(candidate.digest, facts.chart)

    return judge_candidate


def _judge_vendored(digest: str, chart: ChartFacts) -> Verdict:
    if chart.unreadable is not None:
        return Passed(
            f"the chart of {digest} can't be judged: {chart.unreadable}; its Job checks it instead"
        )
    if not chart.unvendored:
        return PASSED
    more = len(chart.unvendored) - _NAMED_DEPENDENCIES
    missing = ", ".join(chart.unvendored[:_NAMED_DEPENDENCIES])
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
    text = first_of(chart.unplain, _NAMED_DEPENDENCIES)
    return Refused(
        BundleReason.CHART_NOT_PLAIN,
        f"the chart of {digest} may be read in several ways, so nobody can approve it: {text}; "
        "then publish it again",
    )


PLAIN: Final = Gate(
    name="plain",
    concerns=lambda spec: spec.uses(ApprovalSpec),
    occasions=frozenset(Occasion),
    judge=_judge_chart(_judge_plain),
    is_permanent=False,
    unjudged=VENDORED.unjudged,
)
"""The chart of a Bundle with an approval has to read the same for everybody (docs/adr/0064)."""

OF_CHARTS: Final = frozenset((VENDORED.name, PLAIN.name))
"""The gates that judge the chart; VENDORED is asked of each Bundle of which any is."""


def all_gates(features: Gates) -> Gates:
    """All gates, in the order in which they are evaluated; ``features`` are those of features."""

    def gated(spec: BundleSpec) -> bool:
        return spec.is_gated or is_gated(spec, signed=features.vouch(spec))

    return Gates(
        version=(
            *(one for one in features.version if one.precedes_charts),
            replace(VENDORED, concerns=gated),
            PLAIN,
            *(one for one in features.version if not one.precedes_charts),
        ),
        moment=features.moment,
    )
