"""What is said of health. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus
from copyrator.api.reasons import BY_PERSON
from copyrator.api.reasons.notices import About
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import Detail, said, time_since
from copyrator.bundles.features.health.fields import HEALTHY, HealthMode, HealthSpec
from copyrator.bundles.features.health.reasons import HealthReason
from copyrator.bundles.words import MESSAGE, Mark, Notice, Place, Told, View, Words

_UNSEEN: Final = tuple(one for one in HealthReason if one.ends is BY_PERSON)
"""Reasons for which health isn't known until somebody does something."""


_TEXT: Final = 2000
"""Characters of a message that a page shows."""


class HealthWords(Words):
    """Whether what is deployed is healthy."""

    def marks(self, view: View) -> Iterator[Mark]:
        """That it isn't, or isn't known until somebody does something."""
        found = view.summary.condition(HEALTHY)
        if found.is_false or found.reason in _UNSEEN:
            word = "Unhealthy" if found.is_false else ""
            yield Mark(3, word, found.message or "", is_flaw=found.is_false)

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """That, or that it is; nothing where it isn't watched."""
        if place is Place.OBJECTS:
            yield from _describe(view)

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """The same."""
        if place is Place.OBJECTS:
            yield _of_objects(view)

    def notices(self, told: Told) -> Iterator[Notice]:
        """That it isn't healthy."""
        found = told.status.condition(HEALTHY)
        if found.is_false:
            since, message = found.last_transition_time or "", found.message or ""
            what = "isn't healthy"
            yield Notice(2, About.UNHEALTHY, what, since, since, message, told.why)

    def unknown(self, status: BundleStatus) -> Iterator[About]:
        """Whether it is."""
        if status.condition(HEALTHY).status == ConditionStatus.UNKNOWN:
            yield About.UNHEALTHY


def _describe(view: View) -> Iterator[Detail]:
    """Whether its release is healthy; nothing where that isn't watched."""
    if isinstance(view.spec, InvalidSpec) or view.spec.part(HealthSpec).health is HealthMode.OFF:
        return
    found = view.status.condition(HEALTHY)
    if not found:
        yield Detail("Health", "not known yet")
        return
    text = f"{said(found.reason)}, for {time_since(found.since, view.now)}"
    yield Detail("Health", text, [said(found.message, MESSAGE)])


def _of_objects(view: View) -> str:
    """Whether the release is healthy; the message where the page's first sentence isn't that."""
    if isinstance(view.spec, InvalidSpec) or view.spec.part(HealthSpec).health is HealthMode.OFF:
        return ""
    found = view.status.condition(HEALTHY)
    if not found:
        return "Whether they are healthy isn't known yet."
    since = time_since(found.since, view.now)
    text = f"{said(found.reason)} for {since}"
    message = found.message
    return text if not message or message in view.trouble else f"{text}: {said(message, _TEXT)}"


WORDS: Final = HealthWords()
