"""A rule that matches no namespace is Ready, and says that it matches none."""

from tests.component.copies.conftest import HOME, by_name, counts, make_rule, reason
from tests.component.kube.fake_api import until

from copyrator.api import names


def ready(cluster, name="rule"):
    rule = cluster.found("copyrators", HOME, name) or {}
    return rule.get("status", {}).get("conditions", [{}])[0]


async def test_a_pattern_that_matches_nothing_is_said_until_a_namespace_matches(cluster, operator):
    cluster.namespace("team-a")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    targets = {
        "namespaces": ["tem-*"],
        "exclude": ["tem-x"],
        "selector": {"matchLabels": {"a": "b"}},
    }
    make_rule(cluster, "rule", by_name("app", targets=targets))
    await until(lambda: reason(cluster, "rule") == "NoTargets")
    assert ready(cluster)["status"] == "True"
    assert ready(cluster)["message"] == (
        "the rule matches no namespace: its targets are tem-* except tem-x with labels a=b"
    )
    assert counts(cluster, "rule")["desired"] == 0
    cluster.namespace("tem-1", a="b")
    await until(lambda: reason(cluster, "rule") == "Synced")
    assert cluster.copies("configmaps", "app") == ["tem-1"]


async def test_the_sources_own_namespace_is_no_target(cluster, operator):
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app", targets={"namespaces": [HOME]}))
    await until(lambda: reason(cluster, "rule") == "NoTargets")
    assert "1 namespace, but requires no copy there" in ready(cluster)["message"]


async def test_a_source_that_may_go_nowhere_is_said(cluster, operator):
    cluster.namespace("team-a")
    metadata = {"annotations": {names.ANN_ALLOW_TO: "other-*"}}
    cluster.object("configmaps", HOME, "app", metadata=metadata, data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster, "rule") == "NoTargets")
    assert names.ANN_ALLOW_TO in ready(cluster)["message"]


async def test_a_missing_source_is_a_failure_whatever_the_targets(cluster, operator):
    make_rule(cluster, "rule", by_name("app", targets={"namespaces": ["tem-*"]}))
    await until(lambda: reason(cluster, "rule") == "SourceNotFound")
