"""Deploys begin only in windows."""

from __future__ import annotations

from copyrator.api.windows import WindowsSpec
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.features.windows.gates import GATES


class WindowsFeature(Feature):
    """A gate alone."""

    spec = WindowsSpec
    gates = GATES


FEATURE = WindowsFeature
