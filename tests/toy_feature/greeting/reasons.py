"""Its reasons."""

from __future__ import annotations

from typing import Final

from copyrator.api.reasons import INFO, NOTHING, SUCCESS, WARNING, Reason


class GreetingReason(Reason):
    """Reasons of the gates, the condition and Events."""

    GREETED = ("Greeted", "greeting", SUCCESS, "the release greets its guests", NOTHING)
    SPEECHLESS = ("Speechless", "greeting", INFO, "nothing says how to greet", "write `words`")
    UNWELCOME = ("Unwelcome", "greeting", WARNING, "the tag is unwelcome", "push another one")
    CLOSED = ("Closed", "greeting", INFO, "nobody is let in", "remove the key `closed`")
    FAREWELL = ("Farewell", "greeting", INFO, "the Bundle is being deleted", NOTHING)


REASONS: Final = (GreetingReason,)
