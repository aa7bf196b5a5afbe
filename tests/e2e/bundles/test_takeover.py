"""Moving from the original werf operator, with Bundles and releases as it left them."""

import json
import shlex

from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.documents import commands
from tests.e2e.operator_process import until
from tests.long import long_form

from localcluster.bundle import build, push

KOPF = {
    "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
    "annotations": {"kopf.zalando.org/last-handled-configuration": '{"spec": {}}'},
}


def left_by_the_original(team: Team, name: str) -> str:
    """A release, and its Bundle that knows the config's digest; returns the manifest's."""
    repo, chart = f"{team.namespace}/{name}", team.chart("first")
    digest = push(chart, team.cluster.registry, repo, "1.0.0")
    team.cluster.helm("install", name, str(chart), "--namespace", team.namespace)
    config = json.loads(build(chart, "1.0.0").manifest)["config"]["digest"]
    found = {"digest": config, "version": "1.0.0"}
    status = {"ready": 1, "forceUpdate": 0, "target": found, "deploy": found}
    team.bundle(name, repo=repo, metadata=KOPF)
    team.api.patch(f"{team.path('bundles', name)}/status", {"status": status})
    return digest


@long_form("tests/e2e/upgrade/test_moving.py::test_the_move_from_both_originals_step_by_step")
def test_releases_are_taken_over_as_they_stand(team: Team, operator: Operator) -> None:
    operator.stop()  # the original served these until now
    digest = left_by_the_original(team, "shop")
    left_by_the_original(team, "deleted-since")
    team.delete("bundles", "deleted-since")
    operator.start()

    status = team.wait_deployed("shop", digest)
    assert team.jobs("shop") == []
    assert status["deployed"]["verified"] is False
    assert status["deployed"]["namespace"] == team.namespace
    metadata = team.get("bundles", "shop")["metadata"]
    assert metadata["finalizers"] == ["operator.werf.dev/uninstall"]
    assert not metadata.get("annotations")
    team.wait_gone("bundles", "deleted-since")
    assert team.release("deleted-since") is None

    (ask,) = (one for one in commands("docs/adoption.md") if "requestedAt" in one)
    team.cluster.kubectl(*shlex.split(ask.replace("apps", team.namespace))[1:])
    until(lambda: team.status("shop")["deployed"]["verified"], "it is sure now")

    second = team.publish("1.0.0", "second", repo=f"{team.namespace}/shop")
    status = team.wait_deployed("shop", second)
    assert status["deployed"]["revision"] > 1  # of the original's own release
    assert team.release("shop")["text"] == "second"
