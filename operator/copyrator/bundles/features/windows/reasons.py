"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import INFO, Reason

# fmt: off


class WindowsReason(Reason):
    """Reasons of its gate."""

    OUTSIDE_WINDOW = ("OutsideWindow", "gates", INFO, "by `spec.windows` no deploy may begin now", "nothing: the deploy begins when the next of `spec.windows` opens, which the message names; `copyrator reconcile bundle -n NAMESPACE NAME --force` ignores windows")


# fmt: on
REASONS: Final = (WindowsReason,)
