"""What is said of greetings. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from tests.toy_feature.greeting.fields import GreetingSpec, GreetingStatus
from tests.toy_feature.greeting.gates import GATES

from copyrator.api.bundle_spec import Part
from copyrator.api.text import Detail
from copyrator.bundles.words import Place, View, Words


class GreetingWords(Words):
    """Which digest greets."""

    gates: ClassVar[Mapping[str, type[Part]]] = {one.name: GreetingSpec for one in GATES}

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """It, below the versions."""
        digest = view.status.part(GreetingStatus).digest
        if place is Place.VERSIONS and digest is not None:
            yield Detail("Greets", digest[:19])


WORDS: Final = GreetingWords()
