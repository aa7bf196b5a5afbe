"""Whose a copy is: proved by a seal, never by marks or by the name that a writer gives himself."""

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
from tests.component.kube.fake_api import until

from copyrator.api import names
from copyrator.copies.timing import CopyTiming

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


@pytest.mark.parametrize("timing", [CopyTiming(reread=1.0)], ids=["one second"])
async def test_an_edit_that_came_too_soon_to_be_read_is_put_right_later(cluster, copied):
    for text in ("forged", "forged again"):
        edit(cluster, data={"key": text})
        await until(lambda: cluster.objects[PLACE]["data"] == DATA)


async def test_another_version_that_holds_what_is_wanted_costs_one_read_and_no_write(
    cluster, copied
):
    cluster.seen.clear()
    labels = {**cluster.objects[PLACE]["metadata"]["labels"], "theirs": "yes"}
    edit(cluster, "kubectl", metadata={**cluster.objects[PLACE]["metadata"], "labels": labels})
    await until(lambda: len(reads(cluster)) == 1)
    await copied.settled()
    assert (len(reads(cluster)), writes(cluster)) == (1, [])


async def test_our_own_writes_are_not_read_nor_is_anything_at_a_start(cluster, copied):
    cluster.seen.clear()
    cluster.object("configmaps", HOME, "app", data={"key": "new"})
    await until(lambda: cluster.objects[PLACE]["data"] == {"key": "new"})
    await copied.settled()
    await copied.stop()
    again = Operator(cluster)
    await again.start()
    await until(lambda: reason(cluster) == "Synced")
    await again.settled()
    await again.stop()
    assert (reads(cluster), writes(cluster)) == ([], ["update"])


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


async def test_nor_does_one_on_a_copy_that_isnt_wanted_any_more_keep_the_rule_from_ready(
    cluster, copied
):
    cluster.namespace("other")
    await until(lambda: counts(cluster).get("ready") == 2)
    hold(cluster)
    await copied.settled()
    make_rule(cluster, "rule", by_name("app", targets={"namespaces": ["other"]}))
    await until(lambda: "deletionTimestamp" in cluster.objects[PLACE]["metadata"])
    await until(lambda: counts(cluster).get("desired") == 1)
    await until(lambda: reason(cluster) == "Synced")


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
