"""Its reasons."""

from __future__ import annotations

from typing import Final

from copyrator.api.reasons import INFO, NOTHING, SUCCESS, Reason


class GreetingReason(Reason):
    """Reasons of the gates, the condition and Events."""

    GREETED = ("Greeted", "greeting", SUCCESS, "the release greets its guests", NOTHING)
    SPEECHLESS = ("Speechless", "greeting", INFO, "nothing says how to greet", "write `words`")
    FAREWELL = ("Farewell", "greeting", INFO, "the Bundle is being deleted", NOTHING)


REASONS: Final = (GreetingReason,)
