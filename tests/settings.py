"""The operator's settings for tests, by their names."""

from __future__ import annotations

from typing import Any

from tests.without import TAKEN_OUT

from copyrator.runtime.flags import from_options, parameters
from copyrator.settings.config import Settings


def settings_of(**given: Any) -> Settings:
    """Settings of any group; those of a feature that is taken out are ignored."""
    names = {option.name for option in parameters()}
    assert TAKEN_OUT or given.keys() <= names, given.keys() - names
    return from_options(given)


def values_of(settings: Settings) -> dict[str, Any]:
    """All settings, of whichever group, by their names."""
    found = dict(item for group in (settings, *settings.features) for item in vars(group).items())
    del found["features"]
    return found
