"""Settings of ``spec.approval``. Pure."""

from __future__ import annotations

from typing import Final

from copyrator.settings.options import GLOBS, NAMESPACE_GLOB, Chart, Group, Pairs, setting


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


SETTINGS: Final = (ApprovalSettings,)
