"""Deploys are planned first, and wait for somebody's approval."""

from __future__ import annotations

from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.features.approval.gates import GATES


class ApprovalFeature(Feature):
    """Plans, their approval, and what holds a deploy to its plan."""

    gates = GATES


FEATURE = ApprovalFeature
