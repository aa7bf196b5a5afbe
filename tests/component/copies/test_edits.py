"""An edit that would delete most copies of a rule deletes none until it is confirmed."""

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    annotate_rule,
    by_name,
    edit_rule,
    is_failing,
    make_rule,
    ready_of,
    reason,
    status_of,
    synced,
)
from tests.component.kube.fake_api import error, until

from copyrator.api import names

MANY = [f"team-{number:02}" for number in range(24)]
"""More than the 20 deletions that never need a confirmation."""
TEAMS = {"namespaces": ["team-*"]}
TYPO = {"namespaces": ["tem-*"]}


@pytest.fixture
async def copied(cluster, operator):
    """A rule with right copies in MANY, and the operator at rest."""
    await synced(cluster, *MANY, targets=TEAMS)
    assert cluster.copies("configmaps", "app") == MANY
    await operator.settled()
    return operator


def rule(cluster, targets=TEAMS, **more):
    """Edit the rule, as `kubectl apply` does: its metadata and status stay."""
    edit_rule(cluster, targets=targets, **more)


def confirm(cluster, generation=None):
    number = generation or cluster.found("copyrators", HOME, "rule")["metadata"]["generation"]
    annotate_rule(cluster, {names.ANN_CONFIRM_DELETE: str(number)})


async def unconfirmed(cluster):
    await until(lambda: reason(cluster) == "DeletionUnconfirmed")


async def restarted(operator):
    await operator.stop()
    again = Operator(operator.cluster)
    await again.start()
    return again


async def test_an_edit_that_would_delete_all_deletes_none_and_says_so(cluster, copied):
    rule(cluster, TYPO)
    await unconfirmed(cluster)
    await copied.settled()
    assert cluster.of("delete") == []
    assert cluster.copies("configmaps", "app") == MANY
    found = ready_of(cluster)
    assert (found["status"], found["observedGeneration"]) == ("False", 2)
    assert "generation 2 of the rule would delete 24 of 24 copies" in found["message"]
    assert f"copyrator confirm-delete rule {HOME}/rule" in found["message"]
    assert status_of(cluster)["unconfirmed"] == {"confirmedGeneration": 1, "copies": 24, "of": 24}


async def test_the_edit_taken_back_needs_no_confirmation(cluster, copied):
    rule(cluster, TYPO)
    await unconfirmed(cluster)
    rule(cluster)
    await until(lambda: reason(cluster) == "Synced")
    await copied.settled()
    assert cluster.of("delete") == []
    assert "unconfirmed" not in status_of(cluster)


async def test_an_unconfirmed_edit_stays_so_when_others_delete_copies(cluster, copied):
    rule(cluster, TYPO)
    await unconfirmed(cluster)
    for name in MANY[:10]:
        cluster.gone("configmaps", name, "app")
    await until(lambda: "14 of" in ready_of(cluster)["message"] or cluster.of("delete"))
    await copied.settled()
    assert cluster.of("delete") == []
    assert cluster.copies("configmaps", "app") == MANY[10:]
    assert reason(cluster) == "DeletionUnconfirmed"


@pytest.mark.parametrize("generation", [None, 1, 3, "x"])
async def test_only_the_present_generation_confirms(cluster, copied, generation):
    rule(cluster, TYPO)
    await unconfirmed(cluster)
    confirm(cluster, generation)
    if generation is None:
        await until(lambda: cluster.copies("configmaps", "app") == [])
        await until(lambda: reason(cluster) == "NoTargets")
        assert "unconfirmed" not in status_of(cluster)
    else:
        await copied.settled()
        assert cluster.of("delete") == []
        assert reason(cluster) == "DeletionUnconfirmed"


async def test_a_confirmation_ahead_counts(cluster, copied):
    confirm(cluster, 2)
    rule(cluster, TYPO)
    await until(lambda: cluster.copies("configmaps", "app") == [])


async def test_a_confirmed_edit_does_not_confirm_the_next(cluster, copied):
    rule(cluster, {"namespaces": ["team-*"], "exclude": ["team-00"]})
    confirm(cluster)
    await until(lambda: len(cluster.copies("configmaps", "app")) == len(MANY) - 1)
    rule(cluster, TYPO)
    await unconfirmed(cluster)
    await copied.settled()
    assert len(cluster.copies("configmaps", "app")) == len(MANY) - 1


async def test_writes_go_on_while_deletions_wait(cluster, copied):
    cluster.namespace("tem-1")
    rule(cluster, TYPO)
    await until(lambda: "tem-1" in cluster.copies("configmaps", "app"))
    await unconfirmed(cluster)
    cluster.object("configmaps", HOME, "app", data={"key": "changed"})
    await until(lambda: cluster.found("configmaps", "tem-1", "app")["data"] == {"key": "changed"})
    await copied.settled()
    assert cluster.copies("configmaps", "app") == [*MANY, "tem-1"]


async def test_the_decision_is_recorded_before_anything_is_written(cluster, copied):
    """Else the copies that the edit makes would change it, if the operator stopped just then."""
    cluster.seen.clear()
    rule(cluster, transform={"name": "renamed"})
    await until(lambda: cluster.copies("configmaps", "renamed") == MANY)
    writes = [one for one in cluster.seen if one.verb in ("create", "patch", "update", "delete")]
    assert writes[0].verb == "patch"
    assert [one["reason"] for one in conditions(writes[0].body)] == ["DeletionUnconfirmed"] * 3


async def test_after_a_restart_nothing_is_deleted_either(cluster, copied):
    rule(cluster, transform={"name": "renamed"})
    await until(lambda: cluster.copies("configmaps", "renamed") == MANY)
    await unconfirmed(cluster)
    await copied.settled()
    cluster.seen.clear()
    again = await restarted(copied)
    try:
        await again.settled()
        writes = [one.verb for one in cluster.seen if one.verb not in ("get", "list", "watch")]
        assert writes == [], "nothing has changed"
        assert reason(cluster) == "DeletionUnconfirmed"
        rule(cluster, transform={"name": "renamed", "labels": {"add": {"a": "b"}}})
        await until(lambda: ready_of(cluster)["observedGeneration"] == 3)
        await again.settled()
        assert cluster.of("delete") == []
        confirm(cluster)
        await until(lambda: cluster.copies("configmaps", "app") == [])
        await until(lambda: reason(cluster) == "Synced")
    finally:
        await again.stop()


async def test_a_view_that_is_incomplete_at_the_edit_is_no_way_round(cluster, copied):
    """The status that is written before the decision doesn't pass for one."""
    await copied.stop()
    rule(cluster, TYPO)

    async def refused(request):
        if f"/namespaces/{HOME}/configmaps" in request.path:
            return await error(403, "Forbidden")(request)
        return await cluster.serve(request)

    for verb in ("list", "watch", "get"):
        cluster.always(verb, refused)
    between = Operator(cluster)
    await between.start()
    await until(lambda: reason(cluster) == "Forbidden")
    await between.stop()
    assert status_of(cluster)["observedGeneration"] == 2
    cluster.behave()
    again = Operator(cluster)
    await again.start()
    try:
        await unconfirmed(cluster)
        await again.settled()
        assert cluster.of("delete") == []
    finally:
        await again.stop()


@pytest.mark.parametrize("down", [False, True])
async def test_a_deleted_source_is_not_an_edit(cluster, copied, down):
    running = copied
    if down:
        await copied.stop()
    cluster.gone("configmaps", HOME, "app")
    if down:
        running = Operator(cluster)
        await running.start()
    try:
        await until(lambda: cluster.copies("configmaps", "app") == [])
        await until(lambda: reason(cluster) == "SourceNotFound")
    finally:
        if down:
            await running.stop()


async def test_relabelled_namespaces_are_not_an_edit(cluster, copied):
    for name in MANY:
        cluster.namespace(name, **{names.LABEL_IGNORE: "true"})
    await until(lambda: cluster.copies("configmaps", "app") == [])


async def test_a_deleted_rule_needs_no_confirmation(cluster, copied):
    rule(cluster, TYPO)
    await unconfirmed(cluster)
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.copies("configmaps", "app") == [])


@pytest.mark.parametrize(
    ("targets", "more", "left"),
    [
        (TYPO, {"maxDelete": "100%"}, []),
        (TYPO, {"deletionPolicy": "Orphan"}, []),
        ({"namespaces": ["team-*"], "exclude": ["team-0*"]}, {}, MANY[10:]),
    ],
    ids=["all may go", "nothing is deleted", "less than half"],
)
async def test_what_needs_no_confirmation_is_done_at_once(cluster, copied, targets, more, left):
    """`left` are marked as copies afterwards."""
    rule(cluster, targets, **more)
    await until(lambda: cluster.copies("configmaps", "app") == left)
    await until(lambda: reason(cluster) in ("Synced", "NoTargets"))
    assert "unconfirmed" not in status_of(cluster)


async def test_terminating_namespaces_do_not_count(cluster, copied):
    """Two copies of 24 stay; the others' namespaces are going anyway."""
    for name in MANY[:20]:
        going = {"name": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        cluster.write(f"/api/v1/namespaces/{name}", {"metadata": going})
    await copied.settled()
    rule(cluster, TYPO)
    await until(lambda: cluster.copies("configmaps", "app") == MANY[:20])
    await until(lambda: reason(cluster) == "NoTargets")


async def test_a_rule_that_takes_the_copies_over_makes_it_no_deletion(cluster, copied):
    make_rule(cluster, "heir", by_name("app", targets=TEAMS))
    await until(lambda: is_failing(cluster, "heir"))
    rule(cluster, TYPO)
    await until(lambda: reason(cluster, "heir") == "Synced")
    await until(lambda: reason(cluster) == "NoTargets")
    assert cluster.copies("configmaps", "app") == MANY
    said = [one["reason"] for seen in cluster.of("patch") for one in conditions(seen.body)]
    assert "DeletionUnconfirmed" not in said, "nothing is deleted: there is nothing to confirm"


def conditions(body):
    return body.get("status", {}).get("conditions", ()) if isinstance(body, dict) else ()
