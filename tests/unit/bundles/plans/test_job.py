"""Jobs that plan, and those that are held to plans, as golden files; see ``../test_job.py``."""

from pathlib import Path

import pytest
from tests.replacing import replace
from tests.unit.bundles.job_samples import (
    ELSEWHERE,
    SPEC,
    UNINSTALL,
    check_golden,
    order,
)

from copyrator.api.bundle_spec import SecretKey
from copyrator.bundles.jobs.checks import checked_deploy
from copyrator.bundles.jobs.job import DeployOrder, build_deploy_job, build_uninstall_job
from copyrator.bundles.jobs.pod import Login
from copyrator.bundles.jobs.restrictions import restrict_spec
from copyrator.bundles.plans.guard.listing import GUARDED_NAME_LENGTH
from copyrator.bundles.plans.orders import (
    Proof,
    SealedValues,
    build_plan_job,
    planned_order,
    sealed_render_salt,
    sealed_secret_key,
    sealed_value,
)
from copyrator.bundles.plans.script import require_guard

GOLDEN = Path(__file__).parent / "golden"
SEALED = SealedValues(
    "shop-plan-1",
    2,
    (
        sealed_value(0, 0, "a.yaml", "1" * 64),
        sealed_value(0, 1, "b.yaml", "2" * 64),
        sealed_value(1, 2, "secret.yaml", "3" * 64),
    ),
    render_salt=sealed_render_salt("5" * 64),
)
WITH_KEY = SealedValues(
    "shop-plan-1",
    2,
    (sealed_value(0, 0, "a.yaml", "1" * 64), sealed_secret_key(1, "k", "2" * 64)),
    sealed_render_salt("5" * 64),
)
NO_VALUES = SealedValues("shop-plan-2", 0, render_salt=sealed_render_salt("5" * 64))
APPROVED = Proof(secret="shop-plan-1-operations", seal="4" * 64)
PLANS = {
    "values": (SEALED, order(ca_secret="ca", env={"A": "b", "WERF_SET_A": "a=1"})),
    "secret-key": (WITH_KEY, order(secret_key=SecretKey("keys", "k"))),
    "login": (NO_VALUES, order(auth="creds", login=Login.PASSWORD)),
    "docker-config": (NO_VALUES, order(auth="creds", login=Login.DOCKER_CONFIG)),
    "selected-login": (NO_VALUES, order(auth="creds", login=Login.SELECTED)),
    "kubeconfig": (NO_VALUES, order(**ELSEWHERE)),
}
APPROVALS = {
    "values": (replace(SEALED, job="shop-deploy-1"), order()),
    "rollback": (NO_VALUES, order(auto_rollback=True, timeout=60.0)),
    "image": (NO_VALUES, order(image="registry.werf.io/werf/werf@sha256:" + "6" * 64)),
    "guarded": (NO_VALUES, order(auto_rollback=True, name_length=GUARDED_NAME_LENGTH)),
}


PROOFS = {
    "guarded": replace(APPROVED, guard="shop.guard", nonce="f" * 32, deployed_revision=4),
}


def gated(order: DeployOrder) -> DeployOrder:
    """As the operator makes it of a gated Bundle."""
    return replace(order, spec=restrict_spec(order.spec, signed=True))


def approved(name: str) -> DeployOrder:
    values, made = APPROVALS[name]
    return planned_order(gated(made), values, PROOFS.get(name, APPROVED))


@pytest.mark.parametrize("name", PLANS)
def test_the_job_that_plans(name: str) -> None:
    values, made = PLANS[name]
    found = build_plan_job(gated(made), values, "shop-plan-1", "f" * 32)
    check_golden(GOLDEN, f"plan-{name}", found)


def test_a_deploy_whose_baseline_is_made_of_the_same_has_copies_of_values() -> None:
    made = replace(SEALED, render_salt=None).add_to(order(command=checked_deploy))
    check_golden(GOLDEN, "checked-sealed", build_deploy_job(made))


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
