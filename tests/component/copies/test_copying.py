"""From a rule and its source to copies: with few requests, after restarts, beside a leader."""

import time
from collections import Counter

import pytest
from aiohttp import web
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    edit_rule,
    is_failing,
    make_rule,
    reason,
    synced,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import error, until
from tests.long import LONG

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.copies.rules.summarize import summarize_rule
from copyrator.copies.sources.watches import ALONE
from copyrator.copies.targets.records import RecordReader
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.workqueue.queue import Priority, RequeueAfter

# --- The copy job against a fake API server: what is written, and above all what isn't ------------


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


async def test_a_written_version_is_decoded_once_whichever_shows_it_first(
    cluster, operator, monkeypatch
):
    """The answer to the write, or the event of the watch."""
    decoded = []
    decode = RecordReader.__call__
    monkeypatch.setattr(
        RecordReader, "__call__", lambda self, body: decoded.append(body) or decode(self, body)
    )
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    for number in range(20):
        cluster.namespace(f"team-{number}")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("ready") == 20, "all copies")
    await operator.settled()
    versions = [body["metadata"]["resourceVersion"] for body in decoded]
    assert len(versions) == len(set(versions)) == 20


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


# --- Many rules that name their sources in one namespace share a watch, and read what changed -----


MANY = 12
ONE_TARGET = {"targets": {"namespaces": ["team"]}}


def names_of(many=MANY):
    return [f"app-{number:02}" for number in range(many)]


async def served(cluster, many=MANY):
    """A rule for each of many sources, and their copies."""
    cluster.namespace("team")
    cluster.object("configmaps", HOME, "nobodys", data={})
    for name in names_of(many):
        cluster.object("configmaps", HOME, name, data={"of": name})
        make_rule(cluster, name, by_name(name, **ONE_TARGET))
    for name in names_of(many):
        await until(lambda name=name: reason(cluster, name) == "Synced", f"{name} is synced")


def copy(cluster, name):
    found = cluster.found("configmaps", "team", name)
    return found and found["data"]


def source_watches(operator):
    return [s for s in operator.pool.specs() if s.namespace == HOME]


async def test_the_number_of_watches_is_bounded(cluster, operator):
    await served(cluster)
    watches = source_watches(operator)
    assert len([w for w in watches if w.name]) == ALONE
    (shared,) = [w for w in watches if not w.name]
    assert shared.metadata_only
    operator.pool.metrics = operator.metrics
    operator.pool.publish()
    labels = {"resource": "configmaps"}
    value = operator.metrics.registry.get_sample_value("copyrator_watches", labels)
    assert value == ALONE + 1 + 1, "and the watch of our copies"


async def test_only_what_changed_is_read(cluster, operator):
    await served(cluster)
    reads = Counter(s.path.rsplit("/", 1)[-1] for s in cluster.of("get"))
    read = {name: count for name, count in reads.items() if name.startswith("app-")}
    assert set(read.values()) == {1}
    assert len(read) == MANY
    last = names_of()[-1]
    cluster.seen.clear()
    cluster.object("configmaps", HOME, "nobodys", data={"changed": "yes"})
    cluster.object("configmaps", HOME, last, data={"of": "newer"})
    await until(lambda: copy(cluster, last) == {"of": "newer"})
    await operator.settled()
    assert [s.path.rsplit("/", 1)[-1] for s in cluster.of("get")] == [last]
    assert [verb for verb, _ in cluster.writes("configmaps")] == ["update"]


async def test_a_source_that_cannot_be_read_now_is_not_gone(cluster, operator):
    await served(cluster)
    last = names_of()[-1]
    cluster.always("get", error(403, "Forbidden"))
    cluster.object("configmaps", HOME, last, data={"of": "newer"})
    await until(lambda: len([s for s in cluster.of("get") if s.path.endswith(last)]) > 2)
    assert copy(cluster, last) == {"of": last}
    assert [s for s in cluster.of("delete") if "/configmaps/" in s.path] == []
    cluster.behave()
    await until(lambda: copy(cluster, last) == {"of": "newer"})


async def test_the_shared_watch_ends_with_its_last_rule(cluster, operator):
    await served(cluster)
    for name in names_of():
        cluster.gone("copyrators", HOME, name)
    await until(lambda: source_watches(operator) == [], "no watch is left")


# --- One namespace's trouble is its own; new namespaces go before mass updates --------------------


GOOD = [f"good-{number}" for number in range(5)]
BACK_OFF = 250.0
"""Seconds after the first failure."""
BAD = CopyKey("configmaps", "bad", "app")
LABELLED = {"source": {"kind": "ConfigMap", "selector": {"matchLabels": {"app": "x"}}}}


def refuse(cluster, *answers):
    """Answer creates in the namespace "bad" by these, then always by the last."""
    left = list(answers)

    async def create(request: web.Request) -> web.StreamResponse:
        if "/namespaces/bad/" in request.path:
            return await (left.pop(0) if len(left) > 1 else left[0])(request)
        return await cluster.serve(request)

    cluster.always("create", create)


def attempts(cluster):
    return [s for s in cluster.of("create") if "/namespaces/bad/configmaps" in s.path]


@pytest.fixture
async def failing(cluster):
    """A rule whose copy in "bad" is refused, and waits for minutes."""
    operator = Operator(cluster, jitter=lambda: BACK_OFF)  # as if it had failed for hours
    await operator.start()
    for name in (*GOOD, "bad"):
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    refuse(cluster, error(403, "Forbidden", message='configmaps is forbidden: User "x" cannot'))
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("failed") == 1)
    await until(lambda: counts(cluster).get("ready") == len(GOOD))
    await operator.idle()
    cluster.seen.clear()
    return operator


async def test_a_failing_namespace_keeps_nobody_waiting_and_is_tried_on_for_ever(cluster, failing):
    assert cluster.copies("configmaps", "app") == sorted(GOOD)
    cluster.namespace("late")
    await until(lambda: "late" in cluster.copies("configmaps", "app"))
    await failing.settled()
    assert attempts(cluster) == [], "what happens elsewhere is no reason to try again"
    failing.queue.end_backoffs()
    await until(lambda: attempts(cluster), "it is still to be tried")


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: cluster.object("configmaps", HOME, "app", data={"key": "changed"}),
        lambda cluster: cluster.namespace("bad", changed="yes"),
        lambda cluster: edit_rule(cluster, deletionPolicy="Orphan"),
    ],
    ids=["the source", "the namespace's labels", "the rule"],
)
async def test_what_failed_is_tried_at_once_when_something_relevant_changes(
    cluster, failing, change
):
    change(cluster)
    await until(lambda: attempts(cluster), "it is tried again, minutes before its time")
    cluster.behave()
    cluster.object("configmaps", HOME, "app", data={"key": "last"})
    await until(lambda: "bad" in cluster.copies("configmaps", "app"))
    await until(lambda: reason(cluster) == "Synced")
    assert failing.queue.retry(BAD) == BACK_OFF, "it counts as the first failure"


WEBHOOK = 'admission webhook "w" denied the request: no'


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error(403, "Forbidden", message="exceeded quota: q, used: 1"), "QuotaExceeded"),
        (error(403, "Forbidden", message=WEBHOOK), "AdmissionDenied"),
        (error(413, "RequestEntityTooLarge", message="request is too large"), "TooLarge"),
        (error(422, "Invalid", message="field is immutable"), "Immutable"),
        (error(500, "InternalError", message='failed calling webhook "w": refused'), "Error"),
    ],
)
async def test_each_failure_has_a_machine_reason_and_the_servers_own_words(
    cluster, operator, answer, expected
):
    for name in (*GOOD, "bad"):
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    refuse(cluster, answer)
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("failed") == 1)
    await until(lambda: counts(cluster).get("ready") == len(GOOD))
    (failure,) = cluster.found("copyrators", HOME, "rule")["status"]["failures"]
    assert (failure["namespace"], failure["reason"]) == ("bad", expected)
    assert len(failure["message"]) > 10
    assert is_failing(cluster)


async def test_a_new_namespace_goes_before_a_mass_update(cluster, operator):
    teams = [f"team-{number:03}" for number in range(200 if LONG else 100)]
    for name in teams:
        cluster.namespace(name)
    labels = {"labels": {"app": "x"}}
    for name in ("one", "two", "three"):
        cluster.object("configmaps", HOME, name, metadata=labels, data={"key": "value"})
    make_rule(cluster, "rule", LABELLED)
    await until(lambda: counts(cluster).get("ready") == 3 * len(teams))
    await operator.settled()
    cluster.seen.clear()
    for name in ("one", "two", "three"):
        cluster.object("configmaps", HOME, name, metadata=labels, data={"key": "new"})
    await until(lambda: len(cluster.of("update")) > 20)
    cluster.namespace("late")
    await until(lambda: counts(cluster).get("ready") == 3 * (len(teams) + 1))
    order = [s for s in cluster.seen if s.verb in ("create", "update") and "configmaps" in s.path]
    late = [place for place, seen in enumerate(order) if "/late/" in seen.path]
    assert len(late) == 3
    assert late[-1] < len(order) - 100, "it didn't wait for the rest of the update"


# --- The copy job of a replica that stands by: it watches, writes nothing, and is warm ------------


KEY = f"/api/v1/namespaces/{HOME}/secrets/copyrator-hash-key"


def watches_copies(operator):
    return any(spec.label_selector for spec in operator.pool.specs())


async def test_a_standby_watches_and_writes_nothing_not_even_the_hash_key(cluster):
    standby = Operator(cluster)
    await standby.controller.prepare()
    await until(lambda: standby.namespaces.get(HOME))
    assert KEY not in cluster.objects
    assert {seen.verb for seen in cluster.seen} <= {"get", "list", "watch"}
    await standby.stop()


async def test_a_standby_watches_the_copies_as_soon_as_there_is_a_hash_key(cluster, operator):
    key = cluster.objects[KEY]
    cluster.drop(KEY)
    standby = Operator(cluster, timing=CopyTiming(health=0.01, stale=0.0))
    await standby.controller.prepare()
    assert not watches_copies(standby)
    cluster.write(KEY, key)
    await until(lambda: watches_copies(standby))
    await standby.stop()


async def test_a_hash_key_that_changed_meanwhile_is_taken_over_and_no_copy_written(
    cluster, operator
):
    await synced(cluster, "team")
    await operator.stop()
    standby = Operator(cluster)
    await standby.controller.prepare()
    cluster.drop(KEY)
    leader = Operator(cluster)
    await leader.start()  # makes another key, and stamps the copy anew
    await leader.settled()
    await leader.stop()
    before = len(cluster.seen)
    await standby.start()
    await standby.settled()
    assert {seen.verb for seen in cluster.seen[before:]} <= {"get", "list", "watch"}
    await standby.stop()


async def test_sources_of_a_shared_watch_come_go_and_come_back(cluster, operator):
    await served(cluster)
    last = names_of()[-1]
    cluster.gone("configmaps", HOME, last)
    await until(lambda: copy(cluster, last) is None)
    await until(lambda: reason(cluster, last) == "SourceNotFound")
    cluster.object("configmaps", HOME, last, data={"of": "again"})
    await until(lambda: copy(cluster, last) == {"of": "again"})
    await until(lambda: reason(cluster, last) == "Synced")
