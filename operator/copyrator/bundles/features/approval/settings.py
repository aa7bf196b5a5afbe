"""Settings of plans and approval. Pure."""

from __future__ import annotations

from typing import Final

import click

from copyrator.settings.options import (
    DNS_SUBDOMAIN,
    GLOBS,
    NAMESPACE_GLOB,
    Chart,
    Group,
    Pairs,
    Text,
    setting,
)


class ApprovalSettings(Group, place=40):
    """Plans and approval."""

    require_approval: tuple[tuple[str, str], ...] = setting(
        Pairs(
            "NAMESPACE-GLOB=OnRisk|Always",
            NAMESPACE_GLOB,
            "OnRisk|Always",
            "a namespace's name or glob with OnRisk or Always, such as prod-*=Always",
        ),
        (),
        "lowest `spec.approval.mode` of the Bundles in namespaces, and of those with their release "
        "there, of several that match the highest; those who write Bundles can't change it "
        "([who may approve](trust.md#who-may-approve)). There a username and password of "
        "`spec.auth` need their host in an annotation "
        "([credentials](trust.md#credentials-of-registries))",
        chart=Chart("bundles.requireApproval", note="as `<name or glob>: OnRisk` or `Always`"),
    )
    require_bound_plans: tuple[str, ...] = setting(
        GLOBS,
        (),
        "names or globs of Bundles' and their releases' namespaces where a plan isn't deployed "
        "unless it is enforced, and bound or exact "
        "([the words](approval.md#how-certain-a-plan-is))",
        chart=Chart("bundles.requireBoundPlans"),
    )
    max_plan_jobs: int = setting(
        click.IntRange(1, 100),
        4,
        "Jobs that may plan deploys at the same time; one namespace may have "
        "[half of them](security.md#what-one-tenant-can-cost)",
        chart=Chart("bundles.maxPlanJobs"),
    )
    guard_policy: str | None = setting(
        Text(DNS_SUBDOMAIN, "a policy's name (lower case, digits, '-', '.')"),
        None,
        "name of the ValidatingAdmissionPolicy, and of its binding, by which the API server "
        "refuses what isn't approved; its lists are ConfigMaps in the Lease's namespace",
        unset="none",
    )


SETTINGS: Final = (ApprovalSettings,)
