"""The gate of vendored dependencies: what a chart names has to be in its ``charts/``.

What is missing there werf downloads at each run, so that no digest, signature, approval or soak
binds it. Asked of gated Bundles. A chart that can't be judged passes: the script of a gated
Bundle's Job ends where werf has downloaded something (docs/adr/0030).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.bundles.chart.facts import ChartFacts
from copyrator.bundles.deploy.restrictions import is_gated
from copyrator.bundles.gates.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Occasion,
    Passed,
    Refused,
    Verdict,
    Waiting,
)

NAME: Final = "vendored"
_NAMED: Final = 5
"""Dependencies that a message names."""


def gate(signed: Callable[[BundleSpec], bool]) -> Gate:
    """The gate; ``signed`` returns whether signatures are required of a Bundle."""

    def concerns(spec: BundleSpec) -> bool:
        return spec.is_gated or is_gated(spec, signed=signed(spec))

    return Gate(NAME, concerns, frozenset(Occasion), _judge, is_permanent=False)


def _judge(_spec: BundleSpec, candidate: Candidate, facts: Facts, _now: datetime) -> Verdict:
    if facts.vendored is None:
        text = f"the chart of {candidate.digest} hasn't been read yet"
        return Waiting(BundleReason.REGISTRY_UNREACHABLE, text)
    return facts.vendored


def verdict(digest: str, chart: ChartFacts) -> Verdict:
    """The verdict on a digest whose chart was read."""
    if chart.unreadable is not None:
        return Passed(
            f"the chart of {digest} can't be judged: {chart.unreadable}; its Job checks it instead"
        )
    if not chart.unvendored:
        return PASSED
    named, more = chart.unvendored[:_NAMED], len(chart.unvendored) - _NAMED
    missing = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return Refused(
        BundleReason.DEPENDENCIES_NOT_VENDORED,
        f"the chart of {digest} lacks {missing} in charts/: werf would download that at each run, "
        "whatever was signed or approved; vendor it: run `werf helm dependency build` (or `helm "
        "dependency update`) in the chart's directory, commit its charts/ and publish again",
    )


def unavailable(message: str) -> Waiting:
    """The verdict where the chart can't be read now."""
    return Waiting(BundleReason.REGISTRY_UNREACHABLE, f"{message}; it is tried again")
