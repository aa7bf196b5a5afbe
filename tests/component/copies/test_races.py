"""Others write in the very moment between our decision and our request: nothing of theirs is lost.

The fake API server lets them go first, and then serves our request as a real one would: against
the preconditions that it carries.
"""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from aiohttp import web
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    make_rule,
    reason,
    status_of,
    synced,
)
from tests.component.kube.fake_api import turns, until

from copyrator.api.names import FIELD_MANAGER, LABEL_MANAGED_BY
from copyrator.copies.timing import DEFAULT_TIMING

COPIES = "/api/v1/namespaces/team/configmaps"
COPY = f"{COPIES}/app"


@pytest.fixture
async def settled(cluster, operator):
    """A rule with one right copy, and the operator at rest."""
    await synced(cluster, "team")
    await operator.settled()
    cluster.seen.clear()
    return operator


def just_before(cluster, verb, meddle, path=COPY):
    """Somebody does something just before our first request of this kind to the copy is served."""
    first = iter([True])

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == path and next(first, False):
            meddle()
        return await cluster.serve(request)

    cluster.always(verb, answer)


def data(cluster):
    return cluster.found("configmaps", "team", "app")["data"]


def recreate(cluster):
    def meddle():
        cluster.drop(COPY)
        cluster.object("configmaps", "team", "app", data={"key": "theirs"})

    return meddle


def annotate(cluster):
    def meddle():
        copy = cluster.found("configmaps", "team", "app")
        metadata = copy["metadata"]
        annotations = {**metadata["annotations"], "theirs": "kept"}
        cluster.write(COPY, {**copy, "metadata": {**metadata, "annotations": annotations}}, "them")

    return meddle


async def test_a_users_re_creation_just_before_our_delete_is_not_deleted(cluster, settled):
    just_before(cluster, "delete", recreate(cluster))
    cluster.gone("configmaps", HOME, "app")
    await until(lambda: reason(cluster) == "SourceNotFound")
    await settled.settled()
    assert data(cluster) == {"key": "theirs"}


async def test_a_users_re_creation_just_before_our_update_is_not_overwritten(cluster, settled):
    just_before(cluster, "update", recreate(cluster))
    cluster.object("configmaps", HOME, "app", data={"key": "newer"})
    await until(lambda: counts(cluster).get("conflicts") == 1)
    await settled.settled()
    assert data(cluster) == {"key": "theirs"}


async def test_an_annotation_put_on_just_before_our_update_survives_it(cluster, settled):
    just_before(cluster, "update", annotate(cluster))
    cluster.object("configmaps", HOME, "app", data={"key": "newer"})
    await until(lambda: data(cluster) == {"key": "newer"})
    await settled.settled()
    assert cluster.found("configmaps", "team", "app")["metadata"]["annotations"]["theirs"] == "kept"
    answers = [verb for verb, path in cluster.writes("configmaps") if path == COPY]
    assert answers == ["update"] * 2, "one refused, one after a look"


async def test_a_re_creation_just_before_our_read_of_what_others_may_share_is_not_overwritten(
    cluster,
):
    """Of kinds other than ConfigMap and Secret the live object is read and merged with."""
    limits = lambda most: {"spec": {"limits": [{"type": "Pod", "max": {"cpu": most}}]}}  # noqa: E731
    copy = "/api/v1/namespaces/team/limitranges/app"

    def meddle():
        cluster.drop(copy)
        cluster.object("limitranges", "team", "app", **limits("theirs"))

    cluster.namespace("team")
    cluster.object("limitranges", HOME, "app", **limits("1"))
    operator = Operator(cluster, kinds=("LimitRange",))
    await operator.start()
    make_rule(cluster, "rule", by_name("app", kind="LimitRange"))
    await until(lambda: reason(cluster) == "Synced")
    await operator.settled()
    just_before(cluster, "get", meddle, path=copy)
    cluster.object("limitranges", HOME, "app", **limits("2"))
    await until(lambda: counts(cluster).get("conflicts") == 1)
    await operator.settled()
    assert cluster.found("limitranges", "team", "app")["spec"] == limits("theirs")["spec"]


async def test_what_somebody_takes_over_just_before_it_is_released_keeps_their_label(
    cluster, settled
):
    def meddle():
        labels = {LABEL_MANAGED_BY: "theirs"}
        metadata = {"name": "app", "namespace": "team", "labels": labels}
        cluster.write(COPY, {"metadata": metadata, "data": {"key": "theirs"}}, "them")

    make_rule(cluster, "rule", by_name("app", deletionPolicy="Orphan"))
    await until(lambda: reason(cluster) == "Synced")
    await settled.settled()
    just_before(cluster, "patch", meddle)
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    copy = cluster.found("configmaps", "team", "app")
    assert copy["metadata"]["labels"] == {LABEL_MANAGED_BY: "theirs"}


async def test_a_copy_annotated_just_before_our_delete_goes_all_the_same(cluster, settled):
    just_before(cluster, "delete", annotate(cluster))
    cluster.gone("configmaps", HOME, "app")
    await until(lambda: cluster.found("configmaps", "team", "app") is None)


async def test_what_a_user_creates_just_before_our_create_is_theirs(cluster, operator):
    def create():
        cluster.object("configmaps", "team", "app", data={"key": "theirs"})

    first = iter([True])

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == COPIES and next(first, False):
            create()
        return await cluster.serve(request)

    cluster.always("create", answer)
    copy_app(cluster, "team")
    await until(lambda: counts(cluster).get("conflicts") == 1)
    assert data(cluster) == {"key": "theirs"}


@pytest.fixture
def answer_late(cluster, operator):
    """Answers the creation of the copy once the operator has seen it and what was done to it."""

    def after(meddle):
        async def answer(request: web.Request) -> web.StreamResponse:
            response = await cluster.serve(request)
            if request.path == COPIES:
                meddle()
                cluster.always("create", cluster.serve)
                newest = cluster.objects.get(COPY, {}).get("metadata", {}).get("resourceVersion")
                store = operator.controller._context.kinds["configmaps"].registration.store

                def seen():
                    record = store.get(("team", "app"))
                    return newest == (record and record.resource_version)

                await until(seen, "the watch has delivered it")
                await turns()
            return response

        cluster.always("create", answer)
        copy_app(cluster, "team")

    return after


async def test_our_write_that_is_delivered_before_its_answer_is_reconciled_once(
    cluster, operator, answer_late, monkeypatch
):
    copies = []
    reconcile = operator.controller._copies.reconcile

    async def count(key):
        copies.append(key)
        return await reconcile(key)

    monkeypatch.setattr(operator.controller._copies, "reconcile", count)
    answer_late(lambda: None)
    await until(lambda: reason(cluster) == "Synced")
    await operator.settled()
    assert [(key.namespace, key.name) for key in copies] == [("team", "app")]


@pytest.mark.parametrize("manager", ["them", FIELD_MANAGER, None])
async def test_what_others_do_before_our_create_is_answered_is_undone(
    cluster, operator, answer_late, manager
):
    """They edit the copy, as themselves or under our field manager's name, or delete it."""

    def meddle():
        if manager is None:
            cluster.drop(COPY)
        else:
            copy = cluster.found("configmaps", "team", "app")
            cluster.write(COPY, {**copy, "data": {"key": "theirs"}}, manager)

    answer_late(meddle)
    await until(
        lambda: cluster.found("configmaps", "team", "app") and data(cluster)["key"] == "value"
    )
    await until(lambda: reason(cluster) == "Synced")
    await operator.settled()
    writes = [verb for verb, path in cluster.writes("configmaps") if path.startswith(COPIES)]
    assert writes == ["create", "update" if manager else "create"]


async def test_the_source_of_a_rule_whose_watch_has_not_told_of_it_yet_is_not_overwritten(cluster):
    cluster.namespace("team")
    cluster.object("configmaps", HOME, "app", data={"key": "ours"})
    cluster.object("configmaps", "team", "app", data={"key": "theirs"})
    told = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        whole = "PartialObjectMetadata" not in request.headers["Accept"]
        if whole and request.path.startswith("/api/v1/namespaces/team/configmaps"):
            await told.wait()
        return await cluster.serve(request)

    for verb in ("get", "list"):
        cluster.always(verb, late)
    back = {"kind": "ConfigMap", "namespace": "team", "name": "app"}
    make_rule(cluster, "there", by_name("app", onConflict="Overwrite"))
    make_rule(cluster, "back", {"source": back, "onConflict": "Overwrite"})
    operator = Operator(cluster)
    await operator.start()
    try:
        await until(lambda: counts(cluster, "there").get("conflicts") == 1)
        assert (
            "the rule home/back copies the existing object"
            in status_of(cluster, "there")["failures"][0]["message"]
        )
        told.set()
        await until(
            lambda: (
                "source of the rule home/back,"
                in status_of(cluster, "there")["failures"][0]["message"]
            )
        )
        assert data(cluster) == {"key": "theirs"}
        assert cluster.found("configmaps", HOME, "app")["data"] == {"key": "ours"}
    finally:
        await operator.stop()


async def test_an_event_that_comes_late_takes_back_no_status(cluster):
    """A busy operator sees its finalizer after its next write, and that one much later."""
    seconds = count()
    operator = Operator(
        cluster,
        timing=replace(DEFAULT_TIMING, status_interval=0.0),
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=next(seconds)),
    )
    delivered, held = operator.controller.rule_event, []

    def hold(body, *, deleted):
        held.append(body)

    operator.controller.rule_event = hold
    await operator.start()
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: held, "the rule is made")
    delivered(held[0], deleted=False)
    await until(lambda: len(held) == 3, "its finalizer and its status are on their way")
    assert "finalizers" in held[1]["metadata"]
    delivered(held[1], deleted=False)
    operator.requeue_rules()
    await operator.settled()
    assert len(held) == 3, "no other status is written"
    delivered(held[2], deleted=False)
    await operator.settled()
    assert len(held) == 3
