"""``spec.health``: whether the objects of a release are as their controllers want them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Self

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import BundleCondition, BundleStatus
from copyrator.api.conditions import ConditionStatus
from copyrator.api.schema import STORED, InvalidSpec, Rule, fail
from copyrator.bundles.features.health.reasons import HealthReason

HEALTHY: Final = "Healthy"


class HealthMode(StrEnum):
    """Whether the release's objects are watched."""

    OFF = "Off"
    WATCH = "Watch"
    """The condition Healthy reports whether they are as their controllers want them."""


class HealthSpec(Part):
    """Whether the release's objects are watched."""

    health: Annotated[HealthMode, STORED] = HealthMode.OFF
    """Off, or Watch: the condition Healthy says whether the Deployments, StatefulSets, DaemonSets
    and Jobs of the release in project_namespace are as their controllers want them. It needs the
    chart's bundles.health.enabled, and deploys nothing."""

    RULES = (
        Rule(
            "!has(self.kubeConfig) || !has(self.health) || self.health != 'Watch'",
            "health isn't watched in the cluster of kubeConfig, where the operator has no access: "
            "remove health",
        ),
    )

    @property
    def required(self) -> str | None:
        """Healthy, where it is watched."""
        return None if self.health is HealthMode.OFF else HEALTHY

    def fit(self, spec: BundleSpec) -> Self:
        """Refuse it where the release is in another cluster."""
        if self.health is not HealthMode.OFF and spec.is_remote:
            fail(
                "health",
                "isn't watched in the cluster of spec.kubeConfig, where the operator has no "
                "access: remove spec.health",
            )
        return self


def watched_health(spec: BundleSpec | InvalidSpec, status: BundleStatus) -> str:
    """The status of Healthy, if it is a valid one, and the spec has ``health``; else empty."""
    if isinstance(spec, InvalidSpec) or spec.part(HealthSpec).health is HealthMode.OFF:
        return ""
    found = status.condition(HEALTHY).status
    return next((one for one in ConditionStatus if one == found), "")


SPEC: Final = (HealthSpec,)
CONDITIONS: Final = (
    BundleCondition(
        *(HEALTHY, 6, "objects are as their controllers want them", HealthReason),
        withdraws=(ConditionStatus.FALSE, "the release wasn't healthy"),
    ),
)
