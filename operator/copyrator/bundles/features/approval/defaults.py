"""What the operator's settings require of a Bundle's approval: its mode, and bound plans. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.selectors import NO_GLOBS, Globs
from copyrator.api.structs import replace
from copyrator.bundles.features.approval.settings import ApprovalSettings
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec

if TYPE_CHECKING:
    from copyrator.settings.config import Settings

_MODES = list(ApprovalMode)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """A ``fields.Policy``."""

    floors: tuple[tuple[Globs, ApprovalMode], ...] = ()
    """Namespaces of Bundles, and the lowest mode that they may have; the highest that matches."""
    bound: Globs = NO_GLOBS
    """Namespaces where a plan isn't deployed unless it is enforced, and bound or exact."""

    def apply(self, spec: BundleSpec) -> BundleSpec:
        """With what is required in the namespace of the Bundle or of its release."""
        asked, namespaces = spec.part(ApprovalSpec), (spec.namespace, spec.project_namespace)
        lowest = max(
            (mode for globs, mode in self.floors if any(map(globs.matches, namespaces))),
            key=_MODES.index,
            default=ApprovalMode.NEVER,
        )
        raised = replace(
            asked,
            mode=max(asked.mode, lowest, key=_MODES.index),
            must_be_bound=any(map(self.bound.matches, namespaces)),
            is_required=lowest is not ApprovalMode.NEVER,
        )
        return spec.with_part(raised)


def make_policy(settings: Settings) -> ApprovalPolicy | None:
    """That of the settings; None: they require nothing."""
    own = settings.of(ApprovalSettings)
    return _make(own.require_approval, own.require_bound_plans)


@lru_cache(maxsize=4)
def _make(floors: tuple[tuple[str, str], ...], bound: tuple[str, ...]) -> ApprovalPolicy | None:
    if not (floors or bound):
        return None
    modes = ((Globs((glob,)), ApprovalMode(mode)) for glob, mode in floors)
    return ApprovalPolicy(tuple(modes), Globs(bound))
