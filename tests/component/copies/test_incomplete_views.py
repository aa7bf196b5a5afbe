"""Nothing is deleted on an incomplete view: a test for each way in which one can be incomplete."""

import asyncio
import json

import pytest
from aiohttp import web
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    make_rule,
    ready_of,
    reason,
)
from tests.component.kube.fake_api import error, until

from copyrator.api import names

TARGETS = [f"team-{number:02}" for number in range(24)]
"""More than the 20 deletions that are never suspicious."""

SOURCES = f"/api/v1/namespaces/{HOME}/configmaps"


@pytest.fixture
async def copied(cluster, operator):
    """A rule with right copies, and the operator at rest."""
    copy_app(cluster, *TARGETS)
    await until(lambda: cluster.copies("configmaps", "app") == TARGETS)
    await operator.settled()
    return operator


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
    assert cluster.copies("configmaps", "app") == TARGETS
    cluster.behave()
    await until(lambda: reason(cluster) == "Synced")


@pytest.mark.parametrize("code", [429, 500])
async def test_a_first_list_that_fails_for_a_moment_is_no_failure_of_the_rule(
    cluster, operator, code
):
    """A failure would be told to people, and the missing source after it."""
    cluster.always("list", for_path(cluster, SOURCES, error(code, "InternalError")))
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: "can't watch configmaps" in ready_of(cluster).get("message", ""))
    assert (ready_of(cluster)["status"], ready_of(cluster)["reason"]) == ("Unknown", "Progressing")
    cluster.behave()
    await until(lambda: ready_of(cluster)["status"] == "False")
    assert ready_of(cluster)["reason"] == "SourceNotFound"


async def test_nothing_else_deletes_while_the_view_of_the_sources_is_refused(cluster, copied):
    targets = {"targets": {"namespaces": ["*"], "exclude": [TARGETS[0]]}}
    (state,) = copied.controller._context.rule_states.values()
    (source,) = state.sources
    break_view(cluster, SOURCES, error(403, "Forbidden"))
    await until(lambda: not source.synced, "the fault lasts")
    make_rule(cluster, "rule", by_name("app", **targets))
    await asked(cluster, SOURCES)
    await copied.settled()
    assert cluster.of("delete") == []
    cluster.behave()
    await until(lambda: cluster.copies("configmaps", "app") == TARGETS[1:])


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
            for name in TARGETS
        ]
        return page(cluster, "NamespaceList", *items)

    break_view(cluster, path, relabelled_once)
    await asked(cluster, path, times=2)
    await copied.settled()
    assert cluster.of("delete") == []
    await until(lambda: reason(cluster) == "Synced")


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
        ("/api/v1/configmaps", error(500, "InternalError")),
        ("/api/v1/configmaps", error(403, "Forbidden")),
        ("/api/v1/configmaps", error(404, "NotFound")),  # as while its API server starts
        ("/api/v1/namespaces", error(500, "InternalError")),
    ],
    ids=["", "refused", "kind gone for a moment", "namespaces"],
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


async def test_a_terminating_namespace_holds_nobody_up(cluster, copied):
    stuck = "/api/v1/namespaces/team-00"
    held = {**cluster.objects[stuck]}
    held["metadata"] = {**held["metadata"], "finalizers": ["kubernetes"]}
    cluster.write(stuck, held)
    cluster.drop(stuck)
    await until(lambda: counts(cluster)["desired"] == len(TARGETS) - 1)
    cluster.object("configmaps", HOME, "app", data={"key": "new"})
    await until(
        lambda: all(
            cluster.found("configmaps", name, "app")["data"] == {"key": "new"}
            for name in TARGETS[1:]
        )
    )
    await until(lambda: reason(cluster) == "Synced")
    assert cluster.found("configmaps", "team-00", "app")["data"] == {"key": "value"}
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)


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
    assert len(updates) < len(TARGETS), "what is to be deleted isn't updated first"
