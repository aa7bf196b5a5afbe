"""What an edit or a view that isn't complete deletes, and what it doesn't."""

import asyncio
import json

import pytest
from aiohttp import web
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

# --- An edit that would delete most copies of a rule deletes none until it is confirmed -----------


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


@pytest.mark.parametrize("generation", [None, 1, "x"])
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


# --- Nothing is deleted on an incomplete view: a test for each way in which one can be incomplete -


SOURCES = f"/api/v1/namespaces/{HOME}/configmaps"


def for_path(cluster, path, answer):
    """An answer for one path and what is below it; all else is served as always."""

    async def choose(request: web.Request) -> web.StreamResponse:
        if request.path.startswith(path):
            return await answer(request)
        return await cluster.serve(request)

    return choose


def break_view(cluster, path, answer):
    """From now on lists and watches of a path get this answer; open watches break."""
    cluster.always("list", for_path(cluster, path, answer))
    cluster.always("watch", for_path(cluster, path, answer))
    cluster.forget_history()
    cluster.cut_watches()


def page(cluster, kind, *items):
    """A whole list, which any client has to believe."""
    metadata = {"resourceVersion": str(cluster.version)}
    return web.json_response({"kind": kind, "metadata": metadata, "items": items})


async def asked(cluster, path, times=3):
    """Wait until the operator has tried a path some more times."""
    before = len([s for s in cluster.seen if s.path == path])
    await until(lambda: len([s for s in cluster.seen if s.path == path]) >= before + times)


@pytest.mark.parametrize(
    ("answer", "told"),
    [(error(403, "Forbidden"), "Forbidden"), (error(500, "InternalError"), "Synced")],
    ids=["the right to list is gone", "the server is in trouble"],
)
async def test_a_refused_view_of_the_sources_deletes_nothing(cluster, copied, answer, told):
    """What a list or watch may answer besides: tests/component/kube/test_reflector.py."""
    break_view(cluster, SOURCES, answer)
    await asked(cluster, SOURCES)
    await until(lambda: reason(cluster) == told)
    await copied.settled()
    assert cluster.of("delete") == []
    assert cluster.copies("configmaps", "app") == MANY
    cluster.behave()
    await until(lambda: reason(cluster) == "Synced")


async def test_nothing_else_deletes_while_the_view_of_the_sources_is_refused(cluster, copied):
    targets = {"targets": {**TEAMS, "exclude": [MANY[0]]}}
    (state,) = copied.controller._context.rule_states.values()
    (source,) = state.sources
    break_view(cluster, SOURCES, error(403, "Forbidden"))
    await until(lambda: not source.synced, "the fault lasts")
    make_rule(cluster, "rule", by_name("app", **targets))
    await asked(cluster, SOURCES)
    await copied.settled()
    assert cluster.of("delete") == []
    cluster.behave()
    await until(lambda: cluster.copies("configmaps", "app") == MANY[1:])


async def test_one_empty_answer_deletes_nothing(cluster, copied):
    empty = iter([True])

    async def empty_once(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            return await cluster.serve(request)
        if next(empty, False):
            return page(cluster, "ConfigMapList")
        return await cluster.serve(request)

    break_view(cluster, SOURCES, empty_once)
    await asked(cluster, SOURCES, times=2)
    await copied.settled()
    assert cluster.of("delete") == []
    await until(lambda: reason(cluster) == "Synced")


async def test_one_list_of_relabelled_namespaces_deletes_nothing(cluster, copied):
    """It takes two lists that agree, where so many copies would go without an edit of the rule."""
    path = "/api/v1/namespaces"
    once = iter([True])

    async def relabelled_once(request: web.Request) -> web.StreamResponse:
        listed = request.path == path and "watch" not in request.query
        if not (listed and next(once, False)):
            return await cluster.serve(request)
        changed = {"labels": {names.LABEL_IGNORE: "true"}, "resourceVersion": str(cluster.version)}
        items = [
            {"metadata": {**cluster.objects[f"{path}/{name}"]["metadata"], **changed}}
            for name in MANY
        ]
        return page(cluster, "NamespaceList", *items)

    break_view(cluster, path, relabelled_once)
    await asked(cluster, path, times=2)
    await copied.settled()
    assert cluster.of("delete") == []
    await until(lambda: reason(cluster) == "Synced")


async def test_a_start_that_reads_slowly_leaves_a_true_status_as_it_is(cluster, copied):
    await copied.stop()
    read = asyncio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        await read.wait()
        return await cluster.serve(request)

    copies = "/api/v1/configmaps"
    cluster.always("list", for_path(cluster, copies, slowly))
    cluster.seen.clear()
    again = Operator(cluster)
    await again.start()
    await until(lambda: any(seen.path == copies for seen in cluster.seen))
    await again.settled()
    assert cluster.writes("copyrators") == []
    read.set()
    await again.settled()
    assert cluster.writes("copyrators") == []
    await again.stop()


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/v1/configmaps", error(404, "NotFound")),  # as while its API server starts
        ("/api/v1/configmaps", error(500, "InternalError")),
        ("/api/v1/namespaces", error(500, "InternalError")),
    ],
    ids=["kind gone for a moment", "kind", "namespaces"],
)
async def test_a_deleted_rule_waits_for_a_view_of_its_copies_and_of_namespaces(
    cluster, copied, path, answer
):
    await copied.stop()
    cluster.always("list", for_path(cluster, path, answer))
    cluster.gone("copyrators", HOME, "rule")
    again = Operator(cluster)
    await again.start()
    await asked(cluster, path)
    await again.settled()
    assert cluster.found("copyrators", HOME, "rule") is not None
    cluster.behave()
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    await again.stop()


async def test_a_mass_change_is_superseded_by_the_rules_deletion(cluster, copied):
    async def slowly(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return await cluster.serve(request)

    cluster.always("update", slowly)
    cluster.object("configmaps", HOME, "app", data={"key": "new"})
    await until(lambda: cluster.of("update") != [])
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    updates = [json.dumps(s.path) for s in cluster.of("update")]
    assert len(updates) < len(MANY), "what is to be deleted isn't updated first"


async def test_a_start_without_a_view_of_the_sources_deletes_nothing(cluster, copied):
    await copied.stop()
    for verb in ("get", "list"):
        cluster.always(verb, for_path(cluster, SOURCES, error(403, "Forbidden")))
    again = Operator(cluster)
    await again.start()
    await asked(cluster, SOURCES)
    await again.settled()
    assert cluster.of("delete") == []
    await again.stop()
