"""Deploys begin only in windows."""

from __future__ import annotations

from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.features.windows.fields import WindowsSpec
from copyrator.bundles.features.windows.gates import GATES


class WindowsFeature(Feature):
    """A gate alone."""

    spec = WindowsSpec
    gates = GATES


FEATURE = WindowsFeature
