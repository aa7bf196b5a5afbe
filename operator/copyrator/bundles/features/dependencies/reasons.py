"""Its reasons, beside those of the engine."""

# ruff: noqa: E501 - a table: a row is one line

from typing import Final

from copyrator.api.reasons import INFO, Reason

# fmt: off


class DependenciesReason(Reason):
    """Reasons of its gate."""

    DEPENDENCY_NOT_READY = ("DependencyNotReady", "gates", INFO, "a Bundle of `spec.dependsOn` isn't Ready", "nothing: it continues when the Bundles that the message names are Ready; fix the cause that it names, or resume the Bundle")


# fmt: on
REASONS: Final = (DependenciesReason,)
