"""A rule that matches no namespace is Ready, and says that it matches none."""

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    make_rule,
    ready_of,
    reason,
)
from tests.component.kube.fake_api import until

from copyrator.api import names


async def test_a_pattern_that_matches_nothing_is_said_until_a_namespace_matches(cluster, operator):
    cluster.namespace("team-a")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    targets = {
        "namespaces": ["tem-*"],
        "exclude": ["tem-x"],
        "selector": {"matchLabels": {"a": "b"}},
    }
    make_rule(cluster, "rule", by_name("app", targets=targets))
    await until(lambda: reason(cluster) == "NoTargets")
    assert ready_of(cluster)["status"] == "True"
    assert ready_of(cluster)["message"] == (
        "the rule matches no namespace: its targets are tem-* except tem-x with labels a=b"
    )
    assert counts(cluster)["desired"] == 0
    cluster.namespace("tem-1", a="b")
    await until(lambda: reason(cluster) == "Synced")
    assert cluster.copies("configmaps", "app") == ["tem-1"]


async def test_the_sources_own_namespace_is_no_target(cluster, operator):
    copy_app(cluster, targets={"namespaces": [HOME]})
    await until(lambda: reason(cluster) == "NoTargets")
    assert "1 namespace, but requires no copy there" in ready_of(cluster)["message"]


async def test_a_source_that_may_go_nowhere_is_said(cluster, operator):
    cluster.namespace("team-a")
    metadata = {"annotations": {names.ANN_ALLOW_TO: "other-*"}}
    cluster.object("configmaps", HOME, "app", metadata=metadata, data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster) == "NoTargets")
    assert names.ANN_ALLOW_TO in ready_of(cluster)["message"]


MISTAKES = [
    pytest.param(None, id="target: {namespaces: [team-a]}"),
    pytest.param({}, id="targets: {namespace: [team-a]}"),
    pytest.param({"selector": {}}, id="selector: {matchLable: {team: a}}"),
    pytest.param({"exclude": ["team-b"]}, id="exclude alone"),
]
"""What the API server stores of a mistake; the ids are what was written."""
CURES = (
    'spec.targets: must say which namespaces get a copy: set namespaces (["*"] for all), or '
    "selector with at least one label under matchLabels or matchExpressions"
)


@pytest.mark.parametrize("targets", MISTAKES)
async def test_a_stored_rule_without_targets_keeps_its_copies_until_it_is_deleted(
    cluster, operator, timing, targets
):
    """As an upgrade finds it: earlier versions took its targets for every namespace."""
    copy_app(cluster, "team-a", "team-b")
    await until(lambda: cluster.copies("configmaps", "app") == ["team-a", "team-b"])
    await until(lambda: reason(cluster) == "Synced")
    await operator.stop()
    path = f"/apis/flant.com/v1/namespaces/{HOME}/copyrators/rule"
    found = cluster.found("copyrators", HOME, "rule")
    cluster.write(path, {**found, "spec": by_name("app", targets=targets)})

    again = Operator(cluster, timing=timing)
    await again.start()
    try:
        await until(lambda: reason(cluster) == "InvalidSpec")
        cluster.namespace("team-c")
        cluster.object("configmaps", HOME, "app", data={"key": "newer"})
        await again.settled()
        assert ready_of(cluster)["message"] == CURES
        assert cluster.copies("configmaps", "app") == ["team-a", "team-b"]
        assert cluster.found("configmaps", "team-a", "app")["data"] == {"key": "value"}
        cluster.drop(path)
        await until(lambda: cluster.found("copyrators", HOME, "rule") is None, "it is let go")
        assert cluster.copies("configmaps", "app") == []
    finally:
        await again.stop()


async def test_a_missing_source_is_a_failure_whatever_the_targets(cluster, operator):
    make_rule(cluster, "rule", by_name("app", targets={"namespaces": ["tem-*"]}))
    await until(lambda: reason(cluster) == "SourceNotFound")
