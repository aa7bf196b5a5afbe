"""What is said of a credential that ends. Pure."""

from __future__ import annotations

from datetime import datetime

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus, ConditionType, FurtherCondition
from copyrator.api.reasons.rules import CertificateReason
from copyrator.api.text import format_time
from copyrator.bundles.features.cluster.fields import ClusterSpec


def credential_ends(
    ref: ClusterSpec | None, ends: datetime | None, now: datetime, warning: float
) -> FurtherCondition | None:
    """The condition CertificateExpiring of ``spec.kubeConfig``; None: nothing is to be done yet.

    Args:
        ref: the kubeconfig.
        ends: when its token or certificate ends; None: not known, or it can't be used.
        now: with a time zone.
        warning: seconds before the end.
    """
    if ref is None or ends is None or (ends - now).total_seconds() > warning:
        return None
    text = (
        f"the token or certificate of spec.kubeConfig ({ref}) expires at {format_time(ends)}; "
        "write a kubeconfig with a new one into the Secret"
    )
    return FurtherCondition(ConditionStatus.TRUE, CertificateReason.EXPIRING, text)


def kept_credential_ends(status: BundleStatus) -> FurtherCondition | None:
    """That condition as it is in a status."""
    found = status.condition(ConditionType.CERTIFICATE_EXPIRING)
    if not found.is_true:
        return None
    reason, message = CertificateReason.read(found.reason or ""), found.message or ""
    return FurtherCondition(ConditionStatus.TRUE, reason, message)
