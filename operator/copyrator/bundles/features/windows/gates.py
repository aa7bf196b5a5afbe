"""The gate of ``spec.windows``. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Verdict,
    Waiting,
    uses,
)
from copyrator.bundles.features.windows.fields import DAYS, WindowsSpec, is_open, next_opening
from copyrator.bundles.features.windows.reasons import WindowsReason


def _judge_windows(
    spec: BundleSpec, _candidate: Candidate, _facts: Facts, now: datetime
) -> Verdict:
    if is_open(spec.part(WindowsSpec).windows, now):
        return PASSED
    found = next_opening(spec.part(WindowsSpec).windows, now)
    if found is None:
        text = "deploys begin only in spec.windows, of which none opens within two weeks"
        # The next midnight in UTC: a daily check changes the status once a day at most.
        tomorrow = now.astimezone(UTC).date() + timedelta(days=1)
        return Waiting(WindowsReason.OUTSIDE_WINDOW, text, datetime.combine(tomorrow, time(), UTC))
    opening, window = found
    local = opening.astimezone(ZoneInfo(window.zone))
    shown = f"{DAYS[local.weekday()]} {local:%Y-%m-%d %H:%M} {window.zone}"
    text = f"deploys begin only in spec.windows; the next one opens on {shown}"
    return Waiting(WindowsReason.OUTSIDE_WINDOW, text, opening)


GATE: Final = Gate(
    name="window",
    concerns=uses(WindowsSpec),
    occasions=frozenset(Occasion) - {Occasion.FORCE, Occasion.INTERRUPTED},
    judge=_judge_windows,
    ends=lambda _: "a window opens",
    delays_retries=True,
)
"""A deploy begins only inside a window; one that runs when it closes continues."""

GATES: Final = Gates(moment=(GATE,))
