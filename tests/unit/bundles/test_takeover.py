"""Bundles as the original werf operator left them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, DeployRef, VersionRef
from copyrator.bundles.engine.deciding import (
    Decision,
    DeployAction,
    DeployReason,
    DesiredDeploy,
    decide,
)
from copyrator.bundles.engine.poll import DesiredVersion, config_digest, take_over

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
SPEC = BundleSpec(
    namespace="apps", name="shop", registry="r", repo="app", project_namespace="production"
)
LEFT = BundleStatus(
    ready=1,
    target=VersionRef(digest="sha256:config", version="1.0.0"),
    deploy=DeployRef(digest="sha256:config", version="1.0.0"),
)
PRESENT = DesiredVersion(3, "spec", "values", "", "")
WANTED = DesiredDeploy(
    version="1.0.0", digest="sha256:manifest", values_hash="values", spec_hash="spec", generation=3
)


@pytest.mark.parametrize(
    ("status", "inherited"),
    [
        (LEFT, True),
        (replace(LEFT, observed_generation=1), True),  # we asked, and had no answer yet
        (BundleStatus(), False),
        (replace(LEFT, deploy=DeployRef(digest="sha256:config")), False),
        (replace(LEFT, deploy=DeployRef(version="1.0.0")), False),
        (replace(LEFT, deployed=Deployed(version="1.0.0")), False),
        (replace(LEFT, attempted=Attempted(attempt=1)), False),
    ],
)
def test_is_known_by_a_deploy_that_none_of_our_fields_tells_of(
    status: BundleStatus, inherited: bool
) -> None:
    assert status.is_inherited is inherited


def test_what_was_deployed_is_the_baseline_and_nothing_is_deployed() -> None:
    found = take_over(LEFT, SPEC, PRESENT, "sha256:manifest", NOW)

    assert not found.is_inherited
    assert found.deploy == DeployRef(digest="sha256:manifest", version="1.0.0")
    assert found.target == VersionRef(digest="sha256:manifest", version="1.0.0")
    assert found.deployed == Deployed(
        version="1.0.0",
        digest="sha256:manifest",
        reference="r/app",
        namespace="production",
        values_hash="values",
        spec_hash="spec",
        generation=3,
        verified=False,
        time="2026-01-01T12:00:00Z",
    )
    assert decide(found, WANTED, SPEC.retry, NOW) == Decision(DeployAction.NOTHING)


@pytest.mark.parametrize(
    ("news", "need"),
    [
        ({"digest": "sha256:new"}, DeployReason.VERSION),
        ({"values_hash": "new"}, DeployReason.VALUES),
        ({"spec_hash": "new"}, DeployReason.SPEC),
    ],
)
def test_what_changes_later_is_deployed(news: dict[str, Any], need: DeployReason) -> None:
    found = take_over(LEFT, SPEC, PRESENT, "sha256:manifest", NOW)

    assert decide(found, replace(WANTED, **news), SPEC.retry, NOW).need is need


def test_unknown_content_is_deployed_and_its_version_is_known() -> None:
    found = take_over(LEFT, SPEC, PRESENT, "", NOW)

    assert not found.is_inherited
    assert found.deployed.version == "1.0.0"
    decision = decide(found, WANTED, SPEC.retry, NOW)
    assert (decision.action, decision.need) == (DeployAction.DEPLOY, DeployReason.VERSION)


@pytest.mark.parametrize(
    ("manifest", "digest"),
    [
        ({"config": {"digest": "sha256:a"}}, "sha256:a"),
        ({"manifests": []}, None),
        ({"config": None}, None),
        ({"config": {"digest": 7}}, None),
    ],
)
def test_reads_the_config_digest_that_a_manifest_has(
    manifest: dict[str, Any], digest: str | None
) -> None:
    assert config_digest(manifest) == digest
