"""The gate of all charts, and the order of gates, which commands and the controller share. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.features import load
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


def judge_chart(
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
    judge=judge_chart(_judge_vendored),
    is_permanent=False,
    judges_chart=True,
    unjudged="the chart isn't read here; the operator reads it by the digest",
)
"""What the chart of a gated Bundle names has to be in its ``charts/``.

What is missing there werf downloads at each run, so that no digest, signature, approval or soak
binds it. A chart that can't be judged passes here: the script of a gated Bundle's Job ends where
werf has downloaded something (docs/adr/0022).
"""


def load_gates() -> Gates:
    """The gates of all features, as commands know them."""
    return Gates.joined(one.GATES for one in load("gates"))


def all_gates(features: Gates) -> Gates:
    """All gates, in the order in which they are evaluated; ``features`` are those of features."""

    def gated(spec: BundleSpec) -> bool:
        return spec.is_gated or is_gated(spec, signed=features.vouch(spec))

    vendored = replace(VENDORED, concerns=gated)
    found = (vendored, *features.version)
    order = sorted(found, key=lambda one: 0 if one.precedes_charts else 2 - one.judges_chart)
    return Gates(version=tuple(order), moment=features.moment)
