"""Settings of all plans. Pure."""

from __future__ import annotations

import click

from copyrator.settings.options import DNS_SUBDOMAIN, Chart, Group, Text, setting


class PlanSettings(Group, place=40):
    """Plans and approval."""

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
    approval_policy: bool = setting(
        None,
        False,
        "whether the chart's ValidatingAdmissionPolicy proves who approves "
        "([who may approve](trust.md#who-may-approve)); else `status.history` names no approver "
        "in `by`",
    )
