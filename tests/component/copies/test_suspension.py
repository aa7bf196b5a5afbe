"""A rule that is suspended stays Ready, or not, as it was, whatever happens meanwhile."""

from tests.component.copies.conftest import HOME, Operator, by_name, make_rule, reason
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until


def ready(cluster):
    rule = cluster.found("copyrators", HOME, "rule") or {}
    conditions = rule.get("status", {}).get("conditions") or [{}, {}, {}]
    return *(one.get("status") for one in conditions[:3]), conditions[0].get("message")


def sources(cluster):
    return cluster.found("copyrators", HOME, "rule")["status"]["sources"]


def edit(cluster, **spec):
    rule = cluster.found("copyrators", HOME, "rule")
    cluster.write(path_of("copyrators", HOME, "rule"), {**rule, "spec": rule["spec"] | spec})


async def test_ready_keeps_its_status_over_edits_and_restarts(cluster, operator):
    cluster.namespace("team-a")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster, "rule") == "Synced")
    before = "suspended; before: Synced: 1 copy is up to date"

    edit(cluster, suspend=True)
    await until(lambda: reason(cluster, "rule") == "Suspended")
    assert ready(cluster) == ("True", "False", "False", before)

    edit(cluster, limit="x")
    await until(lambda: reason(cluster, "rule") == "InvalidSpec")
    assert ready(cluster)[:3] == ("False", "False", "True")
    edit(cluster, limit=10)
    await until(lambda: reason(cluster, "rule") == "Suspended")
    edited = ("True", "False", "False", f"{before}; edited while suspended")
    assert ready(cluster) == edited

    await operator.stop()
    cluster.gone("configmaps", HOME, "app")
    second = Operator(cluster)
    await second.start()
    await until(lambda: sources(cluster) == 0, "it has seen that the source is gone")
    assert ready(cluster) == edited

    edit(cluster, suspend=False)
    await until(lambda: reason(cluster, "rule") == "SourceNotFound")
    assert "suspension" not in cluster.found("copyrators", HOME, "rule")["status"]

    edit(cluster, suspend=True)
    await until(lambda: reason(cluster, "rule") == "Suspended")
    assert ready(cluster)[:3] == ("False", "False", "False")
    assert ready(cluster)[3].startswith("suspended; before: SourceNotFound: ")
    await second.stop()


async def test_a_rule_that_is_created_suspended_is_unknown(cluster, operator):
    cluster.namespace("team-a")
    make_rule(cluster, "rule", by_name("app", suspend=True))
    await until(lambda: reason(cluster, "rule") == "Suspended")
    never = ("Unknown", "False", "False", "suspended; never reconciled")
    assert ready(cluster) == never
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    await operator.settled()
    assert ready(cluster) == never
    assert cluster.copies("configmaps", "app") == []
