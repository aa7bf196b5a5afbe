"""What is said of health. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.conditions import ConditionType
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode, HealthSpec
from copyrator.api.reasons import BY_PERSON
from copyrator.api.reasons.bundles import HealthReason
from copyrator.api.text import Detail, said
from copyrator.api.times import time_since
from copyrator.bundles.engine.words import MESSAGE, Mark, Place, View, Words

_UNSEEN: Final = tuple(one for one in HealthReason if one.ends is BY_PERSON)
"""Reasons for which health isn't known until somebody does something."""


class HealthWords(Words):
    """Whether what is deployed is healthy."""

    def marks(self, view: View) -> Iterator[Mark]:
        """That it isn't, or isn't known until somebody does something."""
        found = view.summary.condition(ConditionType.HEALTHY)
        if found.is_false or found.reason in _UNSEEN:
            word = "Unhealthy" if found.is_false else ""
            yield Mark(3, word, found.message or "", is_flaw=found.is_false)

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """That, or that it is; nothing where it isn't watched."""
        if place is Place.OBJECTS:
            yield from _describe(view)


def _describe(view: View) -> Iterator[Detail]:
    """Whether its release is healthy; nothing where that isn't watched."""
    if isinstance(view.spec, InvalidSpec) or view.spec.part(HealthSpec).health is HealthMode.OFF:
        return
    found = view.status.condition(ConditionType.HEALTHY)
    if not found:
        yield Detail("Health", "not known yet")
        return
    text = f"{said(found.reason)}, for {time_since(found.last_transition_time, view.now)}"
    yield Detail("Health", text, [said(found.message, MESSAGE)])


WORDS: Final = HealthWords()
