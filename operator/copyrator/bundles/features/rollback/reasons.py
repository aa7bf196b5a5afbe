"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import INFO, NOTHING, Reason

# fmt: off


class RollbackReason(Reason):
    """Reasons of its gate."""

    SKIPPED = ("Skipped", "gates", INFO, "the version has a digest that the annotation operator.werf.dev/skip-digests names", "push another version, or remove the digest that the message names from the annotation")


class RollbackEvent(Reason):
    """Reasons of Events that no condition has."""

    UNPINNED = ("Unpinned", "rollback", INFO, "a version isn't pinned any more", NOTHING)


# fmt: on
REASONS: Final = (RollbackReason,)
EVENTS: Final = (RollbackEvent,)
