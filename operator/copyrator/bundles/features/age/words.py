"""What is said of ages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import AgeStatus
from copyrator.bundles.features.age.fields import AgeSpec
from copyrator.bundles.words import View, Words


class AgeWords(Words):
    """Versions that wait to be old enough."""

    gates: ClassVar[Mapping[str, type[Part]]] = {"age": AgeSpec}

    def versions(self, view: View) -> Mapping[str | None, str | None]:
        """Those that wait."""
        return {one.digest: one.version for one in view.status.part(AgeStatus).candidates}


WORDS: Final = AgeWords()
