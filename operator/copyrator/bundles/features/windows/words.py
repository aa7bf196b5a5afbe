"""What is said of windows. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Final
from zoneinfo import ZoneInfo

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.bundles.features.windows.fields import WindowsSpec, is_open, next_opening
from copyrator.bundles.words import Opening, Place, View, Words

GATE: Final = "window"


class WindowsWords(Words):
    """When a deploy may begin."""

    gates: ClassVar[Mapping[str, type[Part]]] = {GATE: WindowsSpec}

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """The next window."""
        if place is Place.RETRY and GATE in view.summary.open_gates:
            yield "a window opens"

    def opens(self, spec: BundleSpec, moment: datetime) -> Opening | None:
        """The next window."""
        windows = spec.part(WindowsSpec).windows
        if not windows or is_open(windows, moment):
            return None
        found = next_opening(windows, moment)
        return Opening(None) if found is None else Opening(found[0], ZoneInfo(found[1].zone), GATE)


WORDS: Final = WindowsWords()
