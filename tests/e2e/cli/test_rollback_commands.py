"""`rollback`, `unpin`, `skip` and `unskip` on a cluster where the operator runs."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from tests.e2e.cli.conftest import ROOT, plainly
from tests.e2e.installation import BUNDLES
from tests.e2e.operator_process import until

from localcluster.bundle import push

PIN = "operator.werf.dev/pin"
SKIPPED = "operator.werf.dev/skip-digests"


def test_a_bad_version_is_left_skipped_and_not_deployed_again(stage):
    bundles, repo = BUNDLES.format(stage.apps), f"team/back-{stage.apps}"
    shown = f"bundle {stage.apps}/web"

    def put(tag):
        return push(ROOT / "examples" / "charts" / "hello", stage.cluster.registry, repo, tag)

    def body():
        return stage.api.get(f"{bundles}/web")

    def runs(digest):
        def look():
            status = body().get("status", {})
            return status.get("deployed", {}).get("digest") == digest and (
                stage.ready(bundles, "web").get("reason") == "Deployed"
            )

        until(look, lambda: f"{digest}: {body()}")

    first = put("1.0.0")
    stage.apply(stage.bundle("web", repo))
    runs(first)
    said = stage.types(f"rollback {shown}", code=1)
    assert "has no earlier successful deploy in its history" in " ".join(said.split())
    second = put("1.1.0")
    runs(second)

    said = " ".join(stage.types(f"skip {shown} 1.1.0", code=1).split())
    assert f"1.1.0 ({second}) is what {shown} runs" in said
    assert f"copyrator rollback {shown}" in said
    assert SKIPPED not in body()["metadata"].get("annotations", {})

    said = " ".join(stage.types(f"rollback {shown}").split())
    assert f"Rolling back {shown} from 1.1.0 ({second[:19]}) to 1.0.0 ({first[:19]})" in said
    assert "with today's values and spec" in said
    assert f"{shown} runs 1.0.0 ({first[:19]})" in said
    assert said.endswith(f"until: copyrator unpin {shown}")
    assert body()["status"]["deployed"]["digest"] == first
    assert body()["metadata"]["annotations"][PIN] == f"1.0.0@{first}"
    said = plainly(stage.types(f"history {shown}"))
    assert "Succeeded Rollback Deployed by field manager copyrator-cli\n" in said
    assert said.count("Rollback") == 1
    assert "web Waiting Pinned AGE 1.0.0 1.1.0" in plainly(
        stage.types(f"get bundles -n {stage.apps}")
    )
    assert f"copyrator unpin {shown}" in plainly(stage.types(f"describe {shown}"))
    assert "pin: passed: only 1.0.0 (DIGEST)" in plainly(stage.types(f"why {stage.apps}/web"))
    assert re.search(r"Normal Pinned\b", plainly(stage.types(f"describe {shown}")))

    said = " ".join(stage.types(f"skip {shown} 1.1.0").split())
    assert f"{shown} skips {second}, the newest of 1.1.0 that the operator has seen" in said
    assert body()["metadata"]["annotations"][SKIPPED] == second
    said = " ".join(stage.types(f"unpin {shown}").split())
    assert f"{shown} isn't pinned to 1.0.0 ({first[:19]}) any more" in said
    assert stage.types(f"unpin {shown}") == f"{shown} isn't pinned.\n"
    until(lambda: "Skipped" in json.dumps(body()["status"].get("available", {})), body)
    assert body()["status"]["deployed"]["digest"] == first
    third = put("1.1.1")
    runs(third)

    said = " ".join(stage.types(f"rollback {shown} --to 1.1.0", code=1).split())
    assert "Skipped" in said, "a gate refuses it, and what runs stays"
    assert body()["status"]["deployed"]["digest"] == third
    said = " ".join(stage.types(f"unskip {shown} 1.1.0").split())
    assert said == f"{shown} doesn't skip {second} any more."
    runs(second)
    said = " ".join(stage.types(f"unpin {shown} --wait").split())
    assert f"; status Deployed: 1.1.1 ({third[:19]}) is deployed" in said
    assert body()["status"]["deployed"]["digest"] == third
    said = " ".join(stage.types(f"rollback {shown} --to 1.1.0").split())
    assert f"runs 1.1.0 ({second[:19]})" in said, "the same value counts again"

    stage.cluster.kubectl(
        "annotate", "--overwrite", "bundle", "web", "-n", stage.apps, f"{PIN}=9.9.9@{third}"
    )
    until(lambda: "refused" in body()["status"]["pin"], body)
    assert "was deployed as 1.1.1, not as 9.9.9" in stage.types(f"describe {shown}").replace(
        "\n", " "
    ).replace("  ", "")
    assert body()["status"]["deployed"]["digest"] == second

    day = (datetime.now(UTC) + timedelta(days=3)).strftime("%a")
    window = {"days": [day], "from": "09:00", "to": "10:00", "timeZone": "UTC"}
    stage.api.patch(f"{bundles}/web", {"spec": {"windows": [window]}})
    said = " ".join(stage.types(f"rollback {shown} --to 1.0.0", code=1).split())
    assert f"is pinned to 1.0.0 ({first[:19]}) and waits: OutsideWindow: " in said
    assert said.endswith(f"To end that: copyrator unpin {shown}")
    assert body()["status"]["deployed"]["digest"] == second
    stage.types(f"suspend {shown}")
    said = " ".join(stage.types(f"rollback {shown} --to 1.1.1").split())
    assert f"is pinned to 1.1.1 ({third[:19]}), which is deployed when it is resumed" in said


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("rollback bundle no-such", "no-such"),
        ("rollback rule x", "isn't one of bundles"),
        ("skip bundle shop 9.9.9", "9.9.9"),
        ("skip bundle shop", "Missing argument"),
        ("unskip bundle shop 9.9.9", "doesn't skip 9.9.9; it skips: none"),
        ("rollback bundle shop --to 9.9.9", "which has: 1.0.0"),
    ],
)
def test_what_can_t_be_done_is_said_and_changes_nothing(stage, shop, command, text):
    before = stage.api.get(f"{BUNDLES.format(stage.apps)}/shop")["metadata"].get("annotations")
    said = stage.result(f"{command} -n {stage.apps}")
    assert said.exit_code in (1, 2), said.output
    assert text in " ".join(said.output.split())
    after = stage.api.get(f"{BUNDLES.format(stage.apps)}/shop")["metadata"].get("annotations")
    assert after == before
