"""Jobs that plan, and those that are held to plans, as golden files; see ``../../test_job.py``."""

from pathlib import Path

import pytest
from tests.replacing import replace
from tests.unit.bundles.job_samples import (
    ELSEWHERE,
    SEALED,
    SPEC,
    UNINSTALL,
    check_golden,
    order,
)

from copyrator.api.bundle_spec import SecretKey
from copyrator.bundles.engine.restrictions import restrict_spec
from copyrator.bundles.features.approval.guard.listing import GUARDED_NAME_LENGTH
from copyrator.bundles.features.approval.orders import Proof, build_plan_job, planned_order
from copyrator.bundles.features.approval.script import require_guard
from copyrator.bundles.jobs.job import DeployOrder, build_deploy_job, build_uninstall_job
from copyrator.bundles.jobs.pod import Login
from copyrator.bundles.jobs.seal import (
    SealedValues,
    sealed_render_salt,
    sealed_secret_key,
    sealed_value,
)

GOLDEN = Path(__file__).parent / "golden"
WITH_KEY = SealedValues(
    "shop-plan-1",
    2,
    (sealed_value(0, 0, "a.yaml", "1" * 64),),
    sealed_secret_key(1, "k", "2" * 64),
    sealed_render_salt("5" * 64),
)
NO_VALUES = SealedValues("shop-plan-2", 0, render_salt=sealed_render_salt("5" * 64))
APPROVED = Proof(secret="shop-plan-1-operations", seal="4" * 64)
PLANS = {
    "values": order(sealed=SEALED, ca_secret="ca", env={"A": "b", "WERF_SET_A": "a=1"}),
    "secret-key": order(sealed=WITH_KEY, secret_key=SecretKey("keys", "k")),
    "login": order(sealed=NO_VALUES, auth="creds", login=Login.PASSWORD),
    "docker-config": order(sealed=NO_VALUES, auth="creds", login=Login.DOCKER_CONFIG),
    "selected-login": order(sealed=NO_VALUES, auth="creds", login=Login.SELECTED),
    "kubeconfig": order(sealed=NO_VALUES, **ELSEWHERE),
}
APPROVALS = {
    "values": order(sealed=replace(SEALED, job="shop-deploy-1")),
    "rollback": order(sealed=NO_VALUES, auto_rollback=True, timeout=60.0),
    "image": order(sealed=NO_VALUES, image="registry.werf.io/werf/werf@sha256:" + "6" * 64),
    "guarded": order(sealed=NO_VALUES, auto_rollback=True, name_length=GUARDED_NAME_LENGTH),
}


PROOFS = {
    "guarded": replace(APPROVED, guard="shop.guard", nonce="f" * 32, deployed_revision=4),
}


def gated(order: DeployOrder) -> DeployOrder:
    """As the operator makes it of a gated Bundle."""
    return replace(order, spec=restrict_spec(order.spec, is_preview=True))


def approved(name: str) -> DeployOrder:
    return planned_order(gated(APPROVALS[name]), PROOFS.get(name, APPROVED))


@pytest.mark.parametrize("name", PLANS)
def test_the_job_that_plans(name: str) -> None:
    check_golden(
        GOLDEN, f"plan-{name}", build_plan_job(gated(PLANS[name]), "shop-plan-1", "f" * 32)
    )


@pytest.mark.parametrize("name", APPROVALS)
def test_the_job_that_deploys_what_was_approved(name: str) -> None:
    check_golden(GOLDEN, f"approved-{name}", build_deploy_job(approved(name)))


GUARDED_UNINSTALL = replace(
    UNINSTALL, before=require_guard("shop.guard"), name_length=GUARDED_NAME_LENGTH
)


def test_guarded_uninstall_job_is_the_golden_one() -> None:
    check_golden(GOLDEN, "uninstall-guarded", build_uninstall_job(GUARDED_UNINSTALL))


def test_no_container_of_a_planned_deploy_runs_the_image_by_its_tag() -> None:
    made = replace(approved("image"), spec=replace(SPEC, auth="creds"), login=Login.PASSWORD)
    pod = build_deploy_job(made)["spec"]["template"]["spec"]

    images = {one["name"]: one["image"] for one in (*pod["initContainers"], *pod["containers"])}
    assert images == dict.fromkeys(("login", "werf"), made.image)


@pytest.mark.parametrize("name", ["a", "x" * 53, "a.b.c"])
def test_a_guarded_jobs_name_begins_the_names_of_its_pods_whole(name: str) -> None:
    """The Job controller takes 58 characters of it."""
    guarded = replace(approved("guarded"), spec=replace(SPEC, name=name))
    uninstall = replace(GUARDED_UNINSTALL, spec=replace(SPEC, name=name))

    for manifest in (build_deploy_job(guarded), build_uninstall_job(uninstall)):
        assert len(manifest["metadata"]["name"]) <= 57
    recorded = build_deploy_job(replace(guarded, recorded_name="as-recorded"))
    assert recorded["metadata"]["name"] == "as-recorded"
    if len(name) < 30:
        assert guarded.job == replace(guarded, name_length=63).job
