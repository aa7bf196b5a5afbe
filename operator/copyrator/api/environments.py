"""Names of environments, which attestations are made for and promotions ask for."""

from __future__ import annotations

from typing import Final

from copyrator.api import syntax
from copyrator.api.schema import text


def _environment(value: str) -> str | None:
    if syntax.namespace(value) is None:
        return None
    hint = "use at most 63 lower-case letters, digits and '-'"
    return f"{syntax.shown(value)} isn't the name of an environment; {hint}"


ENVIRONMENT: Final = text(_environment, most=63, pattern=syntax.LABEL)
"""A DNS label."""
