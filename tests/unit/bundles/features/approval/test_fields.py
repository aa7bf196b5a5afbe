"""``spec.approval``: what settings require, whatever a Bundle asks for."""

from __future__ import annotations

import pytest
from tests.builders.bundles import bundle, parsed

from copyrator.api.selectors import Globs
from copyrator.bundles.features.approval.defaults import ApprovalPolicy
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec


@pytest.mark.parametrize(
    ("asked", "namespace", "release", "mode"),
    [
        (None, "prod", None, ApprovalMode.ALWAYS),
        ("OnRisk", "prod", None, ApprovalMode.ALWAYS),
        ("Always", "test-1", None, ApprovalMode.ALWAYS),
        ("Never", "test-1", None, ApprovalMode.ON_RISK),
        ("OnRisk", "dev", None, ApprovalMode.ON_RISK),
        (None, "dev", None, ApprovalMode.NEVER),
        ("Never", "dev", "prod", ApprovalMode.ALWAYS),
        ("Never", "test-1", "prod", ApprovalMode.ALWAYS),
        ("Never", "prod", "dev", ApprovalMode.ALWAYS),
        ("Never", "dev", "dev-2", ApprovalMode.NEVER),
    ],
)
def test_no_bundle_goes_below_what_the_settings_require_for_its_namespace_and_its_releases(
    asked: str | None, namespace: str, release: str | None, mode: ApprovalMode
) -> None:
    floors = (
        (Globs(("p*", "test-*")), ApprovalMode.ON_RISK),
        (Globs(("prod",)), ApprovalMode.ALWAYS),
    )
    approval = {"mode": asked} if asked else None
    body = bundle(namespace=namespace, project_namespace=release, approval=approval)
    spec = parsed(body, BundleDefaults(policies=(ApprovalPolicy(floors),)))
    is_required = {namespace, release} & {"prod", "test-1"} != set()
    assert spec.part(ApprovalSpec) == ApprovalSpec(
        mode=mode, expires=86400.0, is_required=is_required
    )
