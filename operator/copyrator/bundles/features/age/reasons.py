"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import INFO, Reason

# fmt: off


class AgeReason(Reason):
    """Reasons of its gate."""

    TOO_YOUNG = ("TooYoung", "gates", INFO, "the version was first seen too recently", "nothing: the version is deployed when `spec.minAge` has passed since the operator found it; `copyrator reconcile bundle -n NAMESPACE NAME --force` deploys it now")


# fmt: on
REASONS: Final = (AgeReason,)
