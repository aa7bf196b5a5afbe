"""What is said of ``spec.dependsOn``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.words import Words


class DependenciesWords(Words):
    """Its gate."""

    gates: ClassVar[Mapping[str, type[Part]]] = {"dependsOn": DependenciesSpec}


WORDS: Final = DependenciesWords()
