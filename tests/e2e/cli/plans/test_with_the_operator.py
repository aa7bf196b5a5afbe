"""Plans as users ask for them and decide, with the operator that makes and deploys them."""

import shutil
from pathlib import Path

from tests.builders.encoding import b64
from tests.e2e.cli.conftest import ROOT, SENTINEL, Stage, plainly
from tests.e2e.installation import BUNDLES
from tests.e2e.operator_process import until

from localcluster.bundle import push


def bundle(stage: Stage, name: str, **spec: object) -> str:
    release(stage, name, "1.0.0")
    stage.apply(stage.bundle(name, f"team/{stage.apps}-{name}", **spec))
    return f"{stage.apps}/{name}"


HELLO = ROOT / "examples" / "charts" / "hello"


def release(stage: Stage, name: str, tag: str, chart: Path = HELLO) -> None:
    push(chart, stage.cluster.registry, f"team/{stage.apps}-{name}", tag)


def test_a_plan_is_read_refreshed_rejected_and_approved(stage: Stage) -> None:
    shop = bundle(stage, "shop", approval={"mode": "Always"})
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "AwaitingApproval")
    said = plainly(stage.types(f"plan bundle {shop}", code=2))
    assert "Changes: 1 operation: 1 create\n" in said
    assert "create ConfigMap - shop\n" in said
    stage.types(f"approve bundle {shop} --yes")
    stage.wait_reason(BUNDLES.format(stage.apps), "shop", "Deployed")
    said = stage.types(f"history bundle {shop}")  # no policy proves the name in approved-by
    assert "by field manager copyrator-approve\n" in said
    assert "admin" not in said

    release(stage, "shop", "1.1.0")
    until(lambda: stage.status("shop").get("plan", {}).get("version") == "1.1.0", "planned")
    until(lambda: stage.status("shop")["plan"]["outcome"] == "Planned", "planned")
    stage.types(f"reject bundle {shop} --yes --reason unsafe")
    said = plainly(stage.types(f"why {shop}"))
    assert "approval: refused, PlanRejected: plan " in said
    assert " was rejected by admin: unsafe." in said
    for command, code in ((f"plan bundle {shop}", 2), (f"describe bundle {shop}", 0)):
        said = plainly(stage.types(command, code=code))
        assert "State: rejected by admin, AGE ago: unsafe" in said
    before = stage.status("shop")["plan"]
    said = plainly(stage.types(f"plan bundle {shop} --refresh", code=2))
    assert "update ConfigMap - shop\n" in said
    assert "+ version: 1.1.0\n" in said
    after = stage.status("shop")["plan"]
    assert after["number"] == before["number"] + 1
    assert after["id"] != before["id"], "a rejected plan's ID doesn't return"
    stage.types(f"reject bundle {shop} --yes")
    # Approved after all: both decisions are removed first.
    stage.types(f"approve bundle {shop} --yes")
    until(lambda: stage.status("shop")["deploy"]["version"] == "1.1.0", "1.1.0 is deployed")


def test_any_version_can_be_planned_and_isnt_deployed(stage: Stage, tmp_path: Path) -> None:
    name = bundle(stage, "any", version="1.1.*", suspend=True)
    release(stage, "any", "1.1.0")
    stage.wait_reason(BUNDLES.format(stage.apps), "any", "Suspended")
    said = plainly(stage.types(f"plan bundle {name} --version <1.1", code=2))
    assert "Version: 1.0.0 " in said
    assert ", for <1.1\n" in said
    assert "Changes: 1 operation: 1 create\n" in said
    assert "create ConfigMap - any\n" in said
    assert "create ConfigMap/any\n + apiVersion: v1\n" in said
    assert "It is only shown: " in said
    # Its chart makes werf print the values of a Secret.
    shutil.copytree(HELLO, tmp_path / "chart")
    (tmp_path / "chart" / "templates" / "secret.yaml").write_text(
        "{apiVersion: v1, kind: Secret, metadata: {name: any, annotations: "
        f'{{werf.io/sensitive: "false"}}}}, stringData: {{password: {SENTINEL}}}}}'
    )
    release(stage, "any", "1.2.0", tmp_path / "chart")
    for command in ("plan {} --version 1.2.0", "plan {} --version 1.2.0 -o json", "logs --plan {}"):
        said = stage.types(command.format(f"bundle {name}"), code=None)
        assert " password: <hidden>" in said
        assert b64(SENTINEL) not in said
    stage.types(f"plan bundle {name} --version <1.1", code=2)
    said = plainly(stage.types(f"describe bundle {name}"))
    assert "Preview: 1.0.0, made AGE ago: 1 operation: 1 create\n" in said
    assert "isn't a valid version range" in stage.types(f"plan bundle {name} --version ><", code=1)
    said = " ".join(stage.types(f"plan bundle {name} --version 7.7.7", code=1).split())
    assert "7.7.7 isn't planned: TagNotFound: " in said
    assert "has no plan" in stage.types(f"approve bundle {name} --yes", code=1)
    configmaps = stage.api.get(f"/api/v1/namespaces/{stage.apps}/configmaps")["items"]
    assert "any" not in [one["metadata"]["name"] for one in configmaps]
    found = stage.status("any")
    assert "plan" not in found or "outcome" not in found["plan"]
    assert "deployed" not in found
