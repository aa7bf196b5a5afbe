"""Versions wait until they have been known for some time."""

from __future__ import annotations

from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.features.age.fields import AgeSpec
from copyrator.bundles.features.age.gates import GATES


class AgeFeature(Feature):
    """A gate alone: the engine remembers the versions (``Gate.remembers``)."""

    spec = AgeSpec
    gates = GATES


FEATURE = AgeFeature
