"""Plans as users ask for them and decide, with the operator that makes and deploys them."""

from collections.abc import Iterator

import pytest
from tests.e2e.cli.conftest import ROOT, Stage, plainly, staged
from tests.e2e.installation import BUNDLES
from tests.e2e.operator_process import until

from localcluster import Cluster
from localcluster.bundle import push


@pytest.fixture(scope="module")
def stage(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with staged(cluster, log, {}, {}) as found:
        yield found


def bundle(stage: Stage, name: str, **spec: object) -> str:
    repository = f"team/{stage.apps}-{name}"
    release(stage, name, "1.0.0")
    stage.apply(
        {
            "apiVersion": "operator.werf.dev/v1",
            "kind": "Bundle",
            "metadata": {"name": name, "namespace": stage.apps},
            "spec": {
                "registry": stage.cluster.registry,
                "repo": repository,
                "version": "1.*",
                "insecure": True,
                **spec,
            },
        }
    )
    return f"{stage.apps}/{name}"


def release(stage: Stage, name: str, tag: str) -> None:
    repository = f"team/{stage.apps}-{name}"
    push(ROOT / "examples" / "charts" / "hello", stage.cluster.registry, repository, tag)


def status(stage: Stage, name: str) -> dict:
    return stage.api.get(f"{BUNDLES.format(stage.apps)}/{name}").get("status") or {}


def test_a_plan_is_read_refreshed_rejected_and_approved(stage: Stage) -> None:
    shop = bundle(stage, "shop", approval={"mode": "Always"})
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "AwaitingApproval")
    said = plainly(stage.types(f"plan bundle {shop}", code=2))
    assert "Changes: 1 operation: 1 create\n" in said
    assert "create ConfigMap - shop\n" in said
    stage.types(f"approve bundle {shop} --yes")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")
    assert stage.types(f"history bundle {shop}").count("admin") == 1

    release(stage, "shop", "1.1.0")
    until(lambda: status(stage, "shop").get("plan", {}).get("version") == "1.1.0", "planned", 60)
    until(lambda: status(stage, "shop")["plan"]["outcome"] == "Planned", "planned", 60)
    stage.types(f"reject bundle {shop} --yes")
    said = stage.types(f"why {shop}")
    assert "approval: refused, PlanRejected: plan " in plainly(said)
    before = status(stage, "shop")["plan"]
    said = plainly(stage.types(f"plan bundle {shop} --refresh", code=2))
    assert "update ConfigMap - shop\n" in said
    assert '+ version: "1.1.0"\n' in said
    after = status(stage, "shop")["plan"]
    assert (after["number"], after["id"]) == (before["number"] + 1, before["id"])
    stage.types(f"approve bundle {shop} --yes")
    until(lambda: status(stage, "shop")["deploy"]["version"] == "1.1.0", "1.1.0 is deployed", 60)


def test_a_plan_of_a_bundle_without_approval_is_only_shown(stage: Stage) -> None:
    free = bundle(stage, "free")
    stage.wait_reason(BUNDLES.format(stage.apps), "free", "Deployed")
    said = plainly(stage.types(f"plan bundle {free} --refresh"))
    assert "No changes planned for release" in said
    stage.types(f"suspend bundle {free}")
    release(stage, "free", "1.1.0")
    until(lambda: status(stage, "free")["available"]["version"] == "1.1.0", "1.1.0 is seen", 60)
    said = plainly(stage.types(f"plan bundle {free} --refresh", code=2))
    assert "update ConfigMap - free\n" in said
    assert status(stage, "free")["deploy"]["version"] == "1.0.0"
