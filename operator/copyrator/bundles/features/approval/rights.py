"""What a plan tells of the permissions of its deploy. Pure.

Kinds and permissions are those of ``jobs/rights.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from copyrator.api import structs
from copyrator.api.approval import PlanStatus
from copyrator.api.bundle_status import BundleStatus, MissingPermission, Outcome
from copyrator.bundles.features.approval.operations import Operation
from copyrator.bundles.jobs.rights import (
    PERMISSION_KINDS,
    KindIn,
    RequiredPermission,
    is_uninstalled,
    is_valid,
    list_missing,
)


@dataclass(frozen=True, slots=True)
class PermissionFindings:
    """The result of the access reviews of a plan."""

    missing: tuple[RequiredPermission, ...] = ()
    """With the verbs that were denied."""
    unreviewed: int = 0
    """Kinds, counted in each namespace, that weren't reviewed."""


def kinds_of(operations: Iterable[Operation]) -> tuple[tuple[KindIn, ...], int]:
    """The kinds of a plan's objects in each namespace, and how many more there are than reviewed.

    Those in the release's own namespace come first.
    """
    found = {KindIn(one.namespace, one.group, one.kind) for one in operations}
    kinds = sorted(found)
    return tuple(kinds[:PERMISSION_KINDS]), max(len(kinds) - PERMISSION_KINDS, 0)


def record_findings(plan: PlanStatus, findings: PermissionFindings) -> PlanStatus:
    """The plan's record with the result of its access reviews."""
    return structs.replace(
        plan,
        missing=list_missing(findings.missing),
        missing_permissions=sum(len(one.verbs) for one in findings.missing),
        unreviewed=findings.unreviewed or None,
    )


def missing_of(status: BundleStatus) -> tuple[MissingPermission, ...]:
    """The permissions that the next deploy lacks, by its plan and by the last deploy if it failed.

    A plan that was reviewed after that deploy names all. Of a Bundle whose release is being
    uninstalled, those that the last uninstall lacked. Empty once a deploy of the plan has
    succeeded. Entries in another form than the operator's are left out.
    """
    plan, attempted = status.part(PlanStatus), status.attempted
    is_spent = plan.job is not None and plan.job == attempted.plan_job
    if is_uninstalled(status):
        return tuple(filter(is_valid, attempted.missing))
    found = plan.missing
    if is_spent or plan.missing_permissions is None:
        found = (*found, *attempted.missing)
    if is_spent and attempted.outcome == Outcome.SUCCEEDED:
        found = ()
    return tuple(dict.fromkeys(one for one in found if is_valid(one)))
