"""What the metrics and a status say of rules and copies, bounded at any size."""

from tests.component.copies.conftest import (
    HOME,
    by_name,
    copy_app,
    counts,
    make_rule,
    reason,
    status_of,
    synced,
)
from tests.component.kube.fake_api import until

from copyrator.api.rule_status import MAX_FAILURES


def sample(operator, name, **labels):
    return operator.metrics.registry.get_sample_value(f"copyrator_{name}", labels) or 0


async def test_gauges_tell_rules_by_reason_and_copies_by_state(cluster, operator):
    for name in ("one", "two", "three"):
        cluster.namespace(name)
    cluster.object("configmaps", "three", "app", data={"key": "theirs"})
    copy_app(cluster)
    make_rule(cluster, "none", by_name("missing"))
    await until(lambda: reason(cluster) == "PartialFailure")
    await until(lambda: reason(cluster, "none") == "SourceNotFound")
    await until(lambda: sample(operator, "copies", state="ready") == 2)
    assert sample(operator, "copies", state="desired") == 3
    assert sample(operator, "copies", state="conflicts") == 1
    assert sample(operator, "rules", reason="PartialFailure") == 1
    assert sample(operator, "rules", reason="SourceNotFound") == 1
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    await until(lambda: sample(operator, "copies", state="desired") == 0)
    assert sample(operator, "rules", reason="PartialFailure") == 0
    assert sample(operator, "copy_writes_total", action="create", resource="configmaps") == 2
    assert sample(operator, "copy_writes_total", action="delete", resource="configmaps") == 2


async def test_the_lag_is_measured_once_for_each_change_of_a_source(cluster, operator):
    await synced(cluster, "one", "two", "three")
    assert sample(operator, "copy_lag_seconds_count") == 0
    cluster.object("configmaps", HOME, "app", data={"key": "changed"})
    await until(lambda: sample(operator, "copy_lag_seconds_count") == 1)
    assert 0 < sample(operator, "copy_lag_seconds_sum") < 60
    cluster.object("configmaps", HOME, "other", data={"key": "changed"})
    await operator.settled()
    assert sample(operator, "copy_lag_seconds_count") == 1


async def test_a_status_holds_twenty_failures_however_many_there_are(cluster, operator):
    for number in range(MAX_FAILURES + 10):
        cluster.namespace(f"team-{number:02}")
        cluster.object("configmaps", f"team-{number:02}", "app", data={"key": "theirs"})
    copy_app(cluster)
    await until(lambda: counts(cluster).get("conflicts") == MAX_FAILURES + 10)
    failures = status_of(cluster)["failures"]
    assert len(failures) == MAX_FAILURES
    assert {failure["reason"] for failure in failures} == {"Conflict"}
    assert all(failure["message"] for failure in failures)
    assert failures == sorted(failures, key=lambda one: one["namespace"])
