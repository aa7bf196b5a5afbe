"""Where a release is, and how a Job gets there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.kubeconfig import Kubeconfig


@dataclass(frozen=True, slots=True)
class TargetAccess:
    """A spec with the cluster that its release is in, and the access to that."""

    spec: BundleSpec
    kubeconfig: Kubeconfig | None = field(default=None, repr=False)
    """Only where it is asked for; None: the Job's account in the operator's own cluster."""
    ends: datetime | None = None
    """When its credential ends."""
