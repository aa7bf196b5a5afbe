"""Whether the API server can hold a Job to what was approved, and why not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.context import Context
from copyrator.bundles.plan.operations import Operation

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Whether a plan can be enforced."""

    reason: str = ""
    """Why it can't be, as a sentence; empty where it can be."""

    @property
    def is_enforced(self) -> bool:
        """Whether it can be."""
        return not self.reason


class EnforcementReviewer:
    """Finds whether plans can be enforced.

    Args:
        context: the controller's.
        client: sends the requests; nothing else waits for it.
    """

    def __init__(self, context: Context, client: KubeClient) -> None:
        self._context = context
        self._client = client

    async def of(
        self,
        spec: BundleSpec,
        operations: Collection[Operation],  # noqa: ARG002
    ) -> Enforcement:
        """Whether a deploy with these operations can be held to them; at most ten minutes old.

        Raises:
            ApiError: it can't be asked now.
        """
        if self._context.settings.guard_policy is None:
            return Enforcement("the operator has no policy for it (bundles.guard of the chart)")
        if spec.kube_config is not None:
            return Enforcement("the release is in another cluster, which has no such policy")
        return Enforcement()
