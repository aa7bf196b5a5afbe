"""What is said of ages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from copyrator.api.age import AgeSpec
from copyrator.api.bundle_spec import Part
from copyrator.bundles.engine.words import Words


class AgeWords(Words):
    """Versions that wait to be old enough."""

    gates: ClassVar[Mapping[str, type[Part]]] = {"age": AgeSpec}


WORDS: Final = AgeWords()
