"""A window, and clocks that are ahead of it or in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

MONDAY = datetime(2026, 11, 30, 9, tzinfo=UTC)
OFFICE_HOURS = [{"days": ["Mon"], "from": "09:00", "to": "10:00"}]


def ahead_of(moment: datetime) -> timedelta:
    """How far ahead a clock is by which this moment is now."""
    return moment - datetime.now(UTC)
