"""What is in the way of a copy: when it is taken over, left alone, or satisfies the rule."""

from contextlib import AsyncExitStack

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    annotate_rule,
    by_name,
    counts,
    is_failing,
    make_rule,
    reason,
    rule_body,
    status_of,
    synced,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.copies.test_tenants import ready, secret, space, status, tenant_rule
from tests.component.kube.fake_api import error, until

from copyrator.api import names
from copyrator.copies.timing import CopyTiming

# --- Whose a copy is: proved by a seal, never by marks or by the name that a writer gives himself -


TEAM = "team"
PLACE = path_of("configmaps", TEAM, "app")
DATA = {"key": "value"}


@pytest.fixture
async def copied(cluster, operator):
    """A rule with a right copy."""
    await synced(cluster, TEAM)
    await operator.settled()
    return operator


def edit(cluster, manager=names.FIELD_MANAGER, **fields):
    """Somebody changes the copy, under any name he likes."""
    body = cluster.objects[PLACE]
    cluster.write(PLACE, {**body, **fields}, manager)


def reads(cluster):
    return [seen for seen in cluster.seen if seen.verb == "get" and seen.path == PLACE]


def writes(cluster):
    return [verb for verb, path in cluster.writes("configmaps") if path.startswith(PLACE)]


def failures(cluster):
    return [(one["reason"], one["message"]) for one in status_of(cluster)["failures"]]


def forged(**metadata):
    """An object that carries all our marks, but for a seal that fits."""
    return {
        "metadata": {
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            "annotations": {
                names.ANN_RULE: f"{HOME}/rule",
                names.ANN_SOURCE: f"{HOME}/app",
                names.ANN_HASH: "bm90IGEgc2VhbCBvZiBvdXJz",
            },
            "name": "app",
            "namespace": TEAM,
            **metadata,
        }
    }


# --- drift under our own name ---------------------------------------------------------------------


async def test_an_edit_under_our_managers_name_is_put_right_by_one_read_and_one_write(
    cluster, copied
):
    cluster.seen.clear()
    edit(cluster, data={"key": "forged"})
    await until(lambda: cluster.objects[PLACE]["data"] == DATA)
    await copied.settled()
    assert (len(reads(cluster)), writes(cluster)) == (1, ["update"])


async def test_a_copy_that_is_edited_again_and_again_is_read_at_most_once_in_ten_seconds(
    cluster, copied
):
    cluster.seen.clear()
    edit(cluster, data={"key": "forged"})
    await until(lambda: cluster.objects[PLACE]["data"] == DATA)
    for number in range(5):
        edit(cluster, data={"key": f"forged {number}"})
        await copied.settled(0.2)
    assert len(reads(cluster)) == 1


async def test_another_version_that_holds_what_is_wanted_costs_one_read_and_no_write(
    cluster, copied
):
    cluster.seen.clear()
    labels = {**cluster.objects[PLACE]["metadata"]["labels"], "theirs": "yes"}
    edit(cluster, "kubectl", metadata={**cluster.objects[PLACE]["metadata"], "labels": labels})
    await until(lambda: len(reads(cluster)) == 1)
    await copied.settled()
    assert (len(reads(cluster)), writes(cluster)) == (1, [])


async def test_what_was_forged_while_nobody_looked_is_found_in_the_daily_round(cluster, copied):
    await copied.stop()
    edit(cluster, data={"key": "forged"})
    again = Operator(cluster)
    await again.start()
    await again.settled()
    assert cluster.objects[PLACE]["data"] == {"key": "forged"}
    await again.stop()
    again = Operator(
        cluster,
        timing=CopyTiming(health=0.01, stale=0.0, read_period=0.0, round=1.0, round_rest=0.0),
    )
    await again.start()
    await until(lambda: cluster.objects[PLACE]["data"] == DATA)
    await again.stop()


# --- marks without a seal -------------------------------------------------------------------------


async def lose_key(cluster, operator):
    """A new operator without the key that the copies were sealed with."""
    await operator.stop()
    cluster.gone("secrets", HOME, "copyrator-hash-key")
    return Operator(cluster)


async def test_after_a_lost_key_a_right_copy_is_read_once_and_sealed_by_one_write(cluster, copied):
    again = await lose_key(cluster, copied)
    cluster.seen.clear()
    await again.start()
    await until(lambda: writes(cluster) == ["update"])
    await until(lambda: reason(cluster) == "Synced")
    await again.settled()
    assert (len(reads(cluster)), writes(cluster)) == (1, ["update"])
    cluster.gone("configmaps", HOME, "app")
    await until(lambda: PLACE not in cluster.objects)
    await again.stop()


async def test_a_copy_that_isnt_as_wanted_is_in_conflict_until_the_rule_is_resealed(
    cluster, copied
):
    again = await lose_key(cluster, copied)
    edit(cluster, "kubectl", data={"key": "other"})
    cluster.seen.clear()
    await again.start()
    await until(lambda: counts(cluster).get("conflicts") == 1)
    ((why, message),) = failures(cluster)
    assert why == "Conflict"
    assert message.endswith(f"copyrator reseal rule {HOME}/rule")
    again.requeue_rules()
    await again.settled()
    assert (len(reads(cluster)), writes(cluster)) == (1, [])
    rule = path_of("copyrators", HOME, "rule")
    annotate_rule(cluster, {names.ANN_RULE_RESEAL_AT: "now"})
    await until(lambda: cluster.objects[PLACE]["data"] == DATA)
    await until(lambda: not cluster.objects[rule]["metadata"].get("annotations"))
    await until(lambda: reason(cluster) == "Synced")
    assert writes(cluster) == ["update"]
    await again.stop()


async def test_what_a_user_puts_in_its_place_just_before_it_is_resealed_is_not_overwritten(
    cluster, copied
):
    again = await lose_key(cluster, copied)
    edit(cluster, "kubectl", data={"key": "other"})
    await again.start()
    await until(lambda: counts(cluster).get("conflicts") == 1)
    await again.settled()

    async def recreated(request):
        if request.path == PLACE and names.ANN_RULE in str(cluster.objects[PLACE]["metadata"]):
            cluster.drop(PLACE)
            cluster.object("configmaps", TEAM, "app", data={"key": "theirs"})
        return await cluster.serve(request)

    cluster.always("get", recreated)
    rule = path_of("copyrators", HOME, "rule")
    annotate_rule(cluster, {names.ANN_RULE_RESEAL_AT: "now"})
    await until(lambda: not cluster.objects[rule]["metadata"].get("annotations"))
    await again.settled()
    assert cluster.objects[PLACE]["data"] == {"key": "theirs"}
    await again.stop()


async def test_what_carries_marks_without_a_seal_is_never_deleted_nor_waited_for(cluster, copied):
    again = await lose_key(cluster, copied)
    edit(cluster, "kubectl", data={"key": "other"})
    await again.start()
    await until(lambda: counts(cluster).get("conflicts") == 1)
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    await again.settled()
    assert cluster.objects[PLACE]["data"] == {"key": "other"}
    await again.stop()


async def test_a_request_to_reseal_leaves_alone_what_carries_another_rules_marks(cluster, operator):
    cluster.namespace(TEAM)
    cluster.object("configmaps", HOME, "app", data=DATA)
    body = forged()
    body["metadata"]["annotations"][names.ANN_RULE] = f"{HOME}/other"
    cluster.write(PLACE, {**body, "data": {"key": "theirs"}}, names.FIELD_MANAGER)
    rule = rule_body("rule", by_name("app"))
    rule["metadata"]["annotations"] = {names.ANN_RULE_RESEAL_AT: "now"}
    cluster.write(path_of("copyrators", HOME, "rule"), rule)
    await until(lambda: counts(cluster).get("conflicts") == 1)
    path = path_of("copyrators", HOME, "rule")
    await until(lambda: not cluster.objects[path]["metadata"].get("annotations"))
    await operator.settled()
    assert cluster.objects[PLACE]["data"] == {"key": "theirs"}


# --- finalizers of strangers ----------------------------------------------------------------------


def hold(cluster):
    body = cluster.objects[PLACE]
    metadata = {**body["metadata"], "finalizers": ["example.com/hold"]}
    cluster.write(PLACE, {**body, "metadata": metadata}, "kubectl")


async def test_a_strangers_finalizer_on_a_copy_doesnt_hold_up_the_deleted_rule(cluster, copied):
    hold(cluster)
    await copied.settled()
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.objects[PLACE]["metadata"]["deletionTimestamp"]


async def test_a_copy_that_is_being_deleted_is_a_conflict_that_names_who_holds_it(cluster, copied):
    hold(cluster)
    cluster.drop(PLACE)
    await until(lambda: is_failing(cluster))
    ((why, message),) = failures(cluster)
    assert why == "Conflict"
    assert "example.com/hold" in message


async def test_a_forged_copy_with_marks_our_name_and_a_finalizer_is_a_conflict(cluster, operator):
    cluster.namespace(TEAM)
    cluster.object("configmaps", HOME, "app", data=DATA)
    body = {**forged(finalizers=["example.com/hold"]), "data": {"key": "forged"}}
    cluster.write(PLACE, body, names.FIELD_MANAGER)
    cluster.drop(PLACE)
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: is_failing(cluster))
    assert counts(cluster)["conflicts"] == 1
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    await operator.settled()
    assert writes(cluster) == []


# --- Objects that others made and that stand where copies should be: seen at once, never touched --


PLACES = PLACE.rpartition("/")[0]
"""Where one is made."""

OURS, THEIRS = {"key": "ours"}, {"key": "theirs"}


no_rereads = pytest.mark.parametrize(
    "timing", [CopyTiming(first_reread=3_600.0, longest_reread=3_600.0)], ids=["no rereads"]
)
"""What is unwatched isn't looked at within a test: whatever is noticed, a watch has told."""

frequent_rereads = pytest.mark.parametrize(
    "timing", [CopyTiming(first_reread=0.1)], ids=["frequent rereads"]
)
"""What changes may be looked at at once."""


@pytest.fixture
async def another(cluster, timing):
    """Starts an operator of the test's own, and ends it however the test ends."""
    async with AsyncExitStack() as stack:

        async def start(**settings):
            operator = Operator(cluster, timing=timing, **settings)
            stack.push_async_callback(operator.stop)
            await operator.start()
            return operator

        yield start


refused = error(403, "Forbidden", message="you may not grant that")
"""Answers a create."""


async def in_the_way(cluster, operator, data, count="conflicts", **more):
    """A rule whose only target holds somebody's object."""
    cluster.namespace(TEAM)
    cluster.object("configmaps", TEAM, "app", data=data)
    cluster.object("configmaps", HOME, "app", data=OURS)
    make_rule(cluster, "rule", by_name("app", **more))
    await until(lambda: counts(cluster).get(count) == 1, f"it is among the {count}")
    await until(lambda: watched(operator) and all(one.synced for one in watched(operator)))


def requests(cluster):
    """Verbs of all requests that concern the object alone, but for its watch."""
    there = (PLACE, PLACES)
    return [s.verb for s in cluster.seen if s.path in there and s.verb not in ("list", "watch")]


def watched(operator):
    return [one for one in operator.pool.statuses() if one.spec.name and one.spec.metadata_only]


# --- it goes, or changes --------------------------------------------------------------------------


@no_rereads
async def test_a_conflict_ends_with_the_objects_deletion_by_one_write_and_no_read(
    cluster, operator
):
    await in_the_way(cluster, operator, THEIRS)
    await operator.idle()
    cluster.seen.clear()
    cluster.drop(PLACE)
    await until(lambda: cluster.copies("configmaps", "app") == [TEAM])
    await until(lambda: reason(cluster) == "Synced")
    assert requests(cluster) == ["create"]
    assert watched(operator) == []


@no_rereads
async def test_an_object_that_went_before_its_watch_stood_is_noticed_too(cluster, operator):
    async def meddle(request):
        """The object goes between its look and its watch's first list."""
        if request.query.get("fieldSelector") == "metadata.name=app" and PLACE in cluster.objects:
            cluster.drop(PLACE)
        return await cluster.serve(request)

    cluster.always("list", meddle)
    cluster.namespace(TEAM)
    cluster.object("configmaps", TEAM, "app", data=THEIRS)
    selector = {"kind": "ConfigMap", "selector": {"matchLabels": {"copy": "me"}}}
    cluster.object("configmaps", HOME, "app", metadata={"labels": {"copy": "me"}}, data=OURS)
    make_rule(cluster, "rule", {"source": selector})
    await until(lambda: cluster.copies("configmaps", "app") == [TEAM])


async def test_one_that_changes_all_the_time_is_looked_at_now_and_then(cluster, operator):
    await in_the_way(cluster, operator, THEIRS)
    await operator.idle()
    cluster.seen.clear()
    for number in range(20):
        cluster.write(PLACE, {**cluster.objects[PLACE], "data": {"n": str(number)}}, "kubectl")
        await operator.settled(0.02)
    assert requests(cluster) == []  # ten seconds haven't passed


# --- it is what the rule wants --------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["Skip", "Adopt"])
async def test_an_object_that_is_as_wanted_counts_as_right_and_is_never_touched(
    cluster, operator, policy
):
    await in_the_way(cluster, operator, OURS, "satisfied", onConflict=policy)
    version = cluster.objects[PLACE]["metadata"]["resourceVersion"]
    assert reason(cluster) == "Satisfied"
    assert counts(cluster) == {
        "desired": 1,
        "ready": 1,
        "satisfied": 1,
        "failed": 0,
        "conflicts": 0,
        "pending": 0,
    }
    assert failures(cluster) == []
    assert requests(cluster) == ["create", "get", "get"]
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    await operator.settled()
    assert cluster.objects[PLACE]["metadata"]["resourceVersion"] == version
    assert requests(cluster) == ["create", "get", "get"]


@frequent_rereads
async def test_when_it_is_changed_it_is_a_conflict_and_when_it_goes_there_is_a_copy(
    cluster, operator
):
    await in_the_way(cluster, operator, OURS, "satisfied")
    cluster.write(PLACE, {**cluster.objects[PLACE], "data": THEIRS}, "kubectl")
    await until(lambda: is_failing(cluster))
    cluster.write(PLACE, {**cluster.objects[PLACE], "data": OURS}, "kubectl")
    await until(lambda: reason(cluster) == "Satisfied")
    cluster.drop(PLACE)
    await until(lambda: reason(cluster) == "Synced")
    assert cluster.copies("configmaps", "app") == [TEAM]


async def test_an_immutable_object_that_is_being_deleted_is_not_deleted_again(cluster, operator):
    cluster.namespace(TEAM)
    metadata = {"finalizers": ["example.com/theirs"]}
    cluster.object("configmaps", TEAM, "app", data=THEIRS, metadata=metadata)
    cluster.drop(PLACE)
    cluster.object("configmaps", HOME, "app", data=OURS)
    cluster.always("update", error(422, "Invalid", message="field is immutable"))
    make_rule(cluster, "rule", by_name("app", onConflict="Overwrite", onImmutable="Recreate"))
    await until(lambda: counts(cluster).get("failed") == 1)
    ((why, _),) = failures(cluster)
    assert why == "Immutable"
    assert "delete" not in requests(cluster)


async def test_a_restart_finds_it_again_and_writes_no_status(cluster, operator, another):
    await in_the_way(cluster, operator, OURS, "satisfied")
    await operator.stop()
    cluster.seen.clear()
    again = await another()
    await until(lambda: requests(cluster) == ["create", "get", "get"], "it was compared")
    await again.settled()
    assert requests(cluster) == ["create", "get", "get"]
    assert cluster.writes("copyrators") == []


@pytest.mark.parametrize(
    ("data", "why", "verbs"),
    [(OURS, "Satisfied", 2), (THEIRS, "AllFailed", 2), (None, "AllFailed", 1)],
)
async def test_an_object_is_found_also_where_the_create_is_refused_before(
    cluster, operator, data, why, verbs
):
    """Permissions to grant, quotas and webhooks are checked before AlreadyExists is answered."""
    cluster.always("create", refused)
    cluster.namespace(TEAM)
    if data is not None:
        cluster.object("configmaps", TEAM, "app", data=data)
    cluster.object("configmaps", HOME, "app", data=OURS)
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster) == why)
    found = [failed for failed, _ in failures(cluster)]
    assert found == {"Satisfied": []}.get(why, ["Conflict" if data else "Forbidden"])
    assert requests(cluster)[: 1 + verbs] == ["create", *["get"] * verbs]


# --- tenants --------------------------------------------------------------------------------------


async def test_a_tenants_rule_is_not_told_what_others_objects_hold(cluster, another):
    cluster.namespace("tenant")
    operator = await another(tenant_rules=True)
    space(cluster, "target", "tenant")
    secret(cluster, "tenant")
    secret(cluster, "target")
    tenant_rule(cluster, "rule", {"source": {"kind": "Secret", "name": "app"}})
    await until(lambda: ready(cluster, "rule") == "AllFailed")
    (failure,) = status(cluster, "rule")["failures"]
    assert failure["message"].endswith("delete it, or set spec.onConflict")
    cluster.object("secrets", "target", "app", type="Opaque", data={"key": "b3RoZXI="})
    await operator.settled()
    assert status(cluster, "rule")["failures"] == [failure]
    reads = [s for s in cluster.of("get") if s.path == path_of("secrets", "target", "app")]
    assert reads
    assert all("PartialObjectMetadata" in seen.headers["Accept"] for seen in reads)
    cluster.gone("secrets", "target", "app")
    await until(lambda: ready(cluster, "rule") == "Synced")


@pytest.mark.parametrize("timing", [CopyTiming(reread=1.0)], ids=["one second"])
async def test_an_edit_that_came_too_soon_to_be_read_is_put_right_later(cluster, copied):
    for text in ("forged", "forged again"):
        edit(cluster, data={"key": text})
        await until(lambda: cluster.objects[PLACE]["data"] == DATA)


async def test_overwrite_takes_over_what_skip_left_alone(cluster, operator):
    await in_the_way(cluster, operator, OURS, "satisfied")
    make_rule(cluster, "rule", by_name("app", onConflict="Overwrite"))
    await until(lambda: reason(cluster) == "Synced")
    assert cluster.copies("configmaps", "app") == [TEAM]
    assert watched(operator) == []
