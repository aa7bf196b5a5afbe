"""The copy job against a fake API server: what is written, and above all what isn't."""

import time

from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    edit_rule,
    make_rule,
    reason,
    synced,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.copies.rules.summarize import summarize_rule
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.workqueue.queue import Priority, RequeueAfter

TARGETS = [f"team-{number}" for number in range(30)]
COPY = path_of("configmaps", "team", "app")


async def copied(cluster, plural="configmaps", wanted=TARGETS):
    await until(lambda: cluster.copies(plural, "app") == sorted(wanted), f"app is in {len(wanted)}")


async def follows(cluster, operator, data):
    """Wait until each copy has this content, and the operator is at rest."""
    found = lambda team: cluster.found("configmaps", team, "app")["data"]  # noqa: E731
    await until(lambda: all(found(team) == data for team in TARGETS), f"{data}")
    await operator.settled()


def verbs(cluster):
    return [verb for verb, _ in cluster.writes("configmaps")]


async def test_each_change_is_one_write_a_copy(cluster, operator):
    """Of the source, of the rule's source namespace, and of its kind."""
    await synced(cluster, *TARGETS, targets={"namespaces": ["team-*"]})
    assert counts(cluster)["ready"] == len(TARGETS)
    assert verbs(cluster) == ["create"] * len(TARGETS)
    gets = [s.path for s in cluster.of("get") if "/configmaps/" in s.path]
    assert gets == [path_of("configmaps", HOME, "app")], "one read of the source"
    await operator.settled()

    cluster.seen.clear()
    operator.requeue_rules()
    await operator.settled()
    assert {seen.verb for seen in cluster.seen} <= {"list", "watch", "get"}

    cluster.object("configmaps", HOME, "app", data={"key": "new"})
    await follows(cluster, operator, {"key": "new"})
    assert verbs(cluster) == ["update"] * len(TARGETS)
    assert cluster.of("get") == []

    cluster.seen.clear()
    cluster.object("configmaps", "elsewhere", "app", data={"from": "elsewhere"})
    source = {"kind": "ConfigMap", "namespace": "elsewhere", "name": "app"}
    edit_rule(cluster, source=source)
    await follows(cluster, operator, {"from": "elsewhere"})
    assert verbs(cluster) == ["update"] * len(TARGETS)

    cluster.object("secrets", "elsewhere", "app", data={"key": "dmFsdWU="}, type="Opaque")
    edit_rule(cluster, source={**source, "kind": "Secret"}, maxDelete="100%")
    await copied(cluster, "secrets")
    await copied(cluster, wanted=[])
    await until(lambda: reason(cluster) == "Synced")


async def test_the_status_is_written_once_for_a_small_rule(cluster):
    now = [time.monotonic()]  # on a busy machine three copies may take longer than is waited for
    operator = Operator(cluster, monotonic=lambda: now[0])
    for name in TARGETS[:3]:
        cluster.namespace(name)
    await operator.start()
    await operator.sees(*TARGETS[:3])
    copy_app(cluster)
    await copied(cluster, wanted=TARGETS[:3])
    await operator.idle()
    now[0] += 2 * DEFAULT_TIMING.settling
    await until(lambda: reason(cluster) == "Synced")
    await operator.settled()
    statuses = [path for _, path in cluster.writes("copyrators") if path.endswith("/status")]
    assert len(statuses) == 1


async def test_a_restart_over_right_copies_writes_nothing(cluster, operator):
    for name in TARGETS:
        cluster.namespace(name)
    cluster.object("secrets", HOME, "app", data={"key": "dmFsdWU="}, type="Opaque")
    make_rule(cluster, "rule", by_name("app", "Secret"))
    await copied(cluster, "secrets")
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
    await copied(cluster, "secrets")
    await again.stop()


async def test_a_new_namespace_gets_one_write_for_each_source(cluster, operator):
    labels = {"labels": {"app": "x"}}
    for number in range(10):
        cluster.object("configmaps", HOME, f"app-{number}", metadata=labels, data={})
    selected = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": "x"}}}
    make_rule(cluster, "rule", {"source": selected})
    await until(lambda: counts(cluster).get("desired") == 0)
    cluster.seen.clear()
    for _ in range(2):  # the second one of that name is another one
        cluster.namespace("late")
        await until(lambda: counts(cluster).get("ready") == 10)
        assert verbs(cluster) == ["create"] * 10
        for path in [path for path in cluster.objects if "/namespaces/late" in path]:
            cluster.drop(path)
        await until(lambda: counts(cluster).get("desired") == 0)
        await operator.settled()
        cluster.seen.clear()


async def test_a_rule_whose_survey_takes_long_is_surveyed_seldom(cluster, operator, monkeypatch):
    """A hundred thousand copies take half a second to walk over, and some of them always change."""
    starts = []

    async def long_summary(context, rule):
        starts.append(time.monotonic())
        time.sleep(0.05)  # processor time is played here
        return await summarize_rule(context, rule)

    await synced(cluster, "team")
    await operator.settled()
    monkeypatch.setattr("copyrator.copies.rules.reconciler.summarize_rule", long_summary)
    edits = 0
    while len(starts) < 2 or time.monotonic() < starts[0] + 3.2:
        edits += 1
        edited = {**cluster.objects[COPY], "data": {"key": f"edit {edits}"}}
        cluster.write(COPY, edited, "kubectl")
        await until(lambda: cluster.objects[COPY]["data"] == {"key": "value"})
    lasted = time.monotonic() - starts[0]
    assert edits > len(starts)
    assert len(starts) <= 1 + lasted / 1.05  # twenty times as long as it takes, and itself


async def test_a_deleted_rule_deletes_its_copies_and_only_then_goes(cluster, operator):
    await synced(cluster, *TARGETS)
    rule = cluster.found("copyrators", HOME, "rule")
    assert rule["metadata"]["finalizers"] == [names.FINALIZER_RULE]
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    assert cluster.found("configmaps", HOME, "app") is not None


async def test_an_orphaning_rule_takes_its_marks_off_and_keeps_the_objects(cluster, operator):
    await synced(cluster, "team", deletionPolicy="Orphan")
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    left = cluster.found("configmaps", "team", "app")
    assert left["data"] == {"key": "value"}
    assert left["metadata"]["labels"] == {}
    assert left["metadata"]["annotations"] == {}


async def test_an_unmanaged_object_is_left_alone_and_not_asked_about_again_and_again(
    cluster, operator
):
    cluster.object("configmaps", "team", "app", data={"key": "theirs"})
    copy_app(cluster, "team")
    await until(lambda: counts(cluster).get("conflicts") == 1)
    place = COPY
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
    assert cluster.objects[COPY]["data"] == {"key": "theirs"}


async def test_of_two_rules_the_older_wins_and_the_other_takes_over_when_it_goes(cluster, operator):
    for name in ("team", "other"):
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "first"})
    cluster.object("configmaps", "other", "app", data={"key": "second"})
    only = {"targets": {"namespaces": ["team"]}}
    make_rule(cluster, "first", by_name("app", **only))
    await copied(cluster, wanted=["team"])
    second = {"source": {"kind": "ConfigMap", "name": "app", "namespace": "other"}, **only}
    make_rule(cluster, "second", second)
    await until(lambda: counts(cluster, "second").get("conflicts") == 1)
    await operator.settled()
    assert cluster.objects[COPY]["data"] == {"key": "first"}
    cluster.gone("copyrators", HOME, "first")
    await until(lambda: cluster.found("copyrators", HOME, "first") is None)
    await until(lambda: cluster.objects[COPY]["data"] == {"key": "second"})
    await until(lambda: reason(cluster, "second") == "Synced")
    assert cluster.of("delete") == []


async def test_the_end_of_a_rule_that_another_operator_serves_is_that_ones_to_finish(
    cluster, operator
):
    await synced(cluster, "team", "elsewhere", targets={"namespaces": ["team"]})
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
