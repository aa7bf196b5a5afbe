"""What is deployed is compared with the cluster, and corrected."""

from __future__ import annotations

from copyrator.api.drift import DriftSpec
from copyrator.bundles.engine.feature import Feature


class DriftFeature(Feature):
    """Checks for drift, and corrections."""

    spec = DriftSpec


FEATURE = DriftFeature
