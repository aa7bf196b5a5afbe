"""Times and durations in the formats of Kubernetes and HTTP. Reads no clock."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:[.][0-9]+)?)(ms|[hms])")
_WHOLE = re.compile(r"(?:[0-9]+(?:[.][0-9]+)?(?:ms|[hms]))+")


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as ``metav1.Time``: ``2026-01-31T12:00:00Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """The same with microseconds, as ``metav1.MicroTime``: ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: object) -> datetime | None:
    """The time of an RFC 3339 string, or None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def time_since(stamp: object, now: datetime) -> str:
    """How long ago, in kubectl's format: 45s, 12m, 5h, 3d."""
    moment = parse_time(stamp)
    if moment is None:
        return "-"
    seconds = max(int((now - moment).total_seconds()), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def time_until(stamp: object, now: datetime) -> str:
    """How long until then: ``in 45s``; ``now`` where it is past."""
    moment = parse_time(stamp)
    if moment is None:
        return "-"
    seconds = int((moment - now).total_seconds())
    if seconds <= 0:
        return "now"
    if seconds < 120:
        return f"in {seconds}s"
    return f"in {seconds // 60}m" if seconds < 7200 else f"in {seconds // 3600}h"


def parse_duration(text: str) -> float | None:
    """Seconds in ``30s``, ``5m``, ``1h30m`` or ``1.5h``; None when it isn't a duration."""
    if len(text) > 32 or not _WHOLE.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds: float) -> str:
    """The shortest form: ``1h30m``, ``5m``, ``30s``, ``1.5s``, ``0s``."""
    whole, rest = divmod(max(seconds, 0.0), 60.0)
    hours, minutes = divmod(int(whole), 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest or not any(parts):
        parts.append(f"{round(rest, 3):g}s")
    return "".join(parts)


def parse_retry_after(value: object, headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After (RFC 9110): a number, or a date, counted from the answer's own.

    None when it is neither; the result may be negative or infinite, but is a number.
    """
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        try:
            until = parsedate_to_datetime(str(value))
            seconds = (until - parsedate_to_datetime(headers["Date"])).total_seconds()
        except (KeyError, OverflowError, TypeError, ValueError):
            return None
    return None if math.isnan(seconds) else seconds
