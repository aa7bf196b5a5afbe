"""The copy job against a fake API server: what is written, and above all what isn't."""

import time

from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    counts,
    make_rule,
    reason,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.copies.rules.summarize import summarize_rule
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.workqueue.queue import Priority, RequeueAfter

TARGETS = [f"team-{number}" for number in range(30)]


def teams(cluster, wanted=TARGETS):
    for name in wanted:
        cluster.namespace(name)


async def copied(cluster, name="app", plural="configmaps", wanted=TARGETS):
    await until(
        lambda: cluster.copies(plural, name) == sorted(wanted), f"{name} is in {len(wanted)}"
    )


async def test_a_first_fan_out_is_one_create_a_copy_and_one_read_of_the_source(cluster, operator):
    teams(cluster)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster)
    await until(lambda: counts(cluster, "rule").get("ready") == len(TARGETS))
    assert reason(cluster, "rule") == "Synced"
    assert [verb for verb, _ in cluster.writes("configmaps")] == ["create"] * len(TARGETS)
    gets = [s.path for s in cluster.of("get") if "/configmaps/" in s.path]
    assert gets == [path_of("configmaps", HOME, "app")]


async def test_a_settled_rule_is_never_written_again(cluster, operator):
    teams(cluster)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster)
    await operator.settled()
    before = len(cluster.seen)
    operator.requeue_rules()
    await operator.settled()
    assert [s for s in cluster.seen[before:] if s.verb not in ("list", "watch", "get")] == []


async def test_the_status_is_written_once_for_a_small_rule(cluster):
    teams(cluster, TARGETS[:3])
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    now = [time.monotonic()]  # on a busy machine three copies may take longer than is waited for
    operator = Operator(cluster, monotonic=lambda: now[0])
    await operator.start()
    await operator.sees(*TARGETS[:3])
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster, wanted=TARGETS[:3])
    await operator.idle()
    now[0] += 2 * DEFAULT_TIMING.settling
    await until(lambda: reason(cluster, "rule") == "Synced")
    await operator.settled()
    statuses = [path for _, path in cluster.writes("copyrators") if path.endswith("/status")]
    assert len(statuses) == 1


async def test_a_restart_over_right_copies_writes_nothing(cluster, operator):
    teams(cluster)
    cluster.object("secrets", HOME, "app", data={"key": "dmFsdWU="}, type="Opaque")
    make_rule(cluster, "rule", by_name("app", "Secret"))
    await copied(cluster, plural="secrets")
    await operator.settled()
    await operator.stop()
    before = len(cluster.seen)
    again = Operator(cluster)
    await again.start()
    await again.settled()
    assert {s.verb for s in cluster.seen[before:]} <= {"list", "watch", "get"}
    gets = [s.path for s in cluster.seen[before:] if s.verb == "get"]
    assert gets == [path_of("secrets", HOME, name) for name in ("copyrator-hash-key", "app")]
    assert again.recorder.told == []
    cluster.gone("secrets", TARGETS[0], "app")  # it does serve the rule
    await copied(cluster, plural="secrets")
    await again.stop()


async def test_a_changed_source_is_one_update_a_copy(cluster, operator):
    teams(cluster)
    cluster.object("configmaps", HOME, "app", data={"key": "old"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster)
    await operator.settled()
    cluster.seen.clear()
    cluster.object("configmaps", HOME, "app", data={"key": "new"})
    await until(
        lambda: all(
            cluster.found("configmaps", team, "app")["data"] == {"key": "new"} for team in TARGETS
        )
    )
    await operator.settled()
    assert [verb for verb, _ in cluster.writes("configmaps")] == ["update"] * len(TARGETS)
    assert [s.path for s in cluster.of("get")] == []


async def test_a_new_namespace_gets_one_write_for_each_source(cluster, operator):
    for number in range(10):
        cluster.object(
            "configmaps", HOME, f"app-{number}", metadata={"labels": {"app": "x"}}, data={}
        )
    make_rule(
        cluster,
        "rule",
        {"source": {"kind": "ConfigMap", "selector": {"matchLabels": {"app": "x"}}}},
    )
    await until(lambda: counts(cluster, "rule").get("desired") == 0)
    cluster.seen.clear()
    cluster.namespace("late")
    await until(lambda: len([v for v, _ in cluster.writes("configmaps")]) == 10)
    await until(lambda: counts(cluster, "rule") | {"ready": 10} == counts(cluster, "rule"))
    assert {verb for verb, _ in cluster.writes("configmaps")} == {"create"}


async def test_an_edited_copy_is_healed_with_one_write(cluster, operator):
    teams(cluster, ["team"])
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster, wanted=["team"])
    await operator.settled()
    cluster.seen.clear()
    copy = cluster.found("configmaps", "team", "app")
    cluster.write(
        "/api/v1/namespaces/team/configmaps/app", {**copy, "data": {"key": "edited"}}, "kubectl"
    )
    await until(lambda: cluster.found("configmaps", "team", "app")["data"] == {"key": "value"})
    await operator.settled()
    assert [verb for verb, _ in cluster.writes("configmaps")] == ["update"]


async def test_a_rule_whose_survey_takes_long_is_surveyed_seldom(cluster, operator, monkeypatch):
    """A hundred thousand copies take half a second to walk over, and some of them always change."""
    starts = []

    async def long_summary(context, rule):
        starts.append(time.monotonic())
        time.sleep(0.05)  # processor time is played here
        return await summarize_rule(context, rule)

    teams(cluster, ["team"])
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster, wanted=["team"])
    await operator.settled()
    monkeypatch.setattr("copyrator.copies.rules.reconciler.summarize_rule", long_summary)
    edits = 0
    while len(starts) < 2 or time.monotonic() < starts[0] + 3.2:
        edits += 1
        copy = cluster.found("configmaps", "team", "app")
        edited = {**copy, "data": {"key": f"edit {edits}"}}
        cluster.write("/api/v1/namespaces/team/configmaps/app", edited, "kubectl")
        await until(lambda: cluster.found("configmaps", "team", "app")["data"] == {"key": "value"})
    lasted = time.monotonic() - starts[0]
    assert edits > len(starts)
    assert len(starts) <= 1 + lasted / 1.05  # twenty times as long as it takes, and itself


async def test_a_copy_that_others_label_is_left_alone(cluster, operator):
    teams(cluster, ["team"])
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster, wanted=["team"])
    await operator.settled()
    cluster.seen.clear()
    copy = cluster.found("configmaps", "team", "app")
    labels = {**copy["metadata"]["labels"], "theirs": "yes"}
    changed = {**copy, "metadata": {**copy["metadata"], "labels": labels}}
    cluster.write("/api/v1/namespaces/team/configmaps/app", changed, "kubectl")
    await operator.settled()
    assert cluster.writes("configmaps") == []


async def test_a_deleted_rule_deletes_its_copies_and_only_then_goes(cluster, operator):
    teams(cluster)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster)
    rule = cluster.found("copyrators", HOME, "rule")
    assert rule["metadata"]["finalizers"] == [names.FINALIZER_RULE]
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    assert cluster.found("configmaps", HOME, "app") is not None


async def test_deletes_carry_uid_and_resource_version(cluster, operator):
    teams(cluster, ["team"])
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await copied(cluster, wanted=["team"])
    copy = cluster.found("configmaps", "team", "app")["metadata"]
    cluster.gone("configmaps", HOME, "app")
    await until(lambda: cluster.copies("configmaps", "app") == [])
    (delete,) = cluster.of("delete")
    assert delete.body["preconditions"] == {
        "uid": copy["uid"],
        "resourceVersion": copy["resourceVersion"],
    }


async def test_an_orphaning_rule_takes_its_marks_off_and_keeps_the_objects(cluster, operator):
    teams(cluster, ["team"])
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app", deletionPolicy="Orphan"))
    await copied(cluster, wanted=["team"])
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    left = cluster.found("configmaps", "team", "app")
    assert left["data"] == {"key": "value"}
    assert left["metadata"]["labels"] == {}
    assert left["metadata"]["annotations"] == {}


async def test_an_unmanaged_object_is_left_alone_and_not_asked_about_again_and_again(
    cluster, operator
):
    teams(cluster, ["team"])
    cluster.object("configmaps", "team", "app", data={"key": "theirs"})
    cluster.object("configmaps", HOME, "app", data={"key": "ours"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster, "rule").get("conflicts") == 1)
    place = path_of("configmaps", "team", "app")
    reads = [seen for seen in cluster.of("get") if seen.path == place]
    assert ["as=Partial" in seen.headers["Accept"] for seen in reads[:2]] == [True, False]
    assert all("as=Partial" in seen.headers["Accept"] for seen in reads[2:]), "after 10 s"
    assert cluster.writes("configmaps") == [("create", path_of("configmaps", "team", "")[:-1])]
    key = CopyKey("configmaps", "team", "app")
    await until(
        lambda: any(one.synced for one in operator.pool.statuses() if one.spec.namespace == "team"),
        "it is watched",
    )
    cluster.seen.clear()
    for _ in range(3):  # as if its time had come
        assert await operator.controller.reconcile(key) == RequeueAfter(
            DEFAULT_TIMING.longest_reread, Priority.RESYNC
        )
    operator.requeue_rules()
    await operator.settled()
    assert [seen for seen in cluster.seen if seen.path.startswith(place)] == []
    assert cluster.writes("configmaps") == []
    assert cluster.found("configmaps", "team", "app")["data"] == {"key": "theirs"}


async def test_of_two_rules_the_older_wins_and_the_other_takes_over_when_it_goes(cluster, operator):
    teams(cluster, ["team"])
    cluster.namespace("other")
    cluster.object("configmaps", HOME, "app", data={"key": "first"})
    cluster.object("configmaps", "other", "app", data={"key": "second"})
    only = {"targets": {"namespaces": ["team"]}}
    make_rule(cluster, "first", by_name("app", **only))
    await copied(cluster, wanted=["team"])
    second = {"source": {"kind": "ConfigMap", "name": "app", "namespace": "other"}, **only}
    make_rule(cluster, "second", second)
    await until(lambda: counts(cluster, "second").get("conflicts") == 1)
    await operator.settled()
    assert cluster.found("configmaps", "team", "app")["data"] == {"key": "first"}
    cluster.gone("copyrators", HOME, "first")
    await until(lambda: cluster.found("copyrators", HOME, "first") is None)
    await until(lambda: cluster.found("configmaps", "team", "app")["data"] == {"key": "second"})
    await until(lambda: reason(cluster, "second") == "Synced")
    assert cluster.of("delete") == []


async def test_the_end_of_a_rule_that_another_operator_serves_is_that_ones_to_finish(
    cluster, operator
):
    teams(cluster, ["team"])
    cluster.namespace("elsewhere")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app", targets={"namespaces": ["team"]}))
    await copied(cluster, wanted=["team"])
    key = cluster.found("secrets", HOME, "copyrator-hash-key")
    cluster.object("secrets", "elsewhere", "copyrator-hash-key", data=key["data"])
    other = Operator(cluster, namespace="elsewhere")
    await other.start()
    await operator.stop()
    cluster.gone("copyrators", HOME, "rule")
    await other.settled()
    assert cluster.copies("configmaps", "app") == ["team"]
    await other.stop()
    # Nobody comes: the finalizer stands there from other settings.
    other = Operator(cluster, timing=CopyTiming(takeover=0.0), namespace="elsewhere")
    await other.start()
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    await other.stop()
