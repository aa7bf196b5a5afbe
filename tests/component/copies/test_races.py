"""Others write in the very moment between our decision and our request: nothing of theirs is lost.

The fake API server lets them go first, and then serves our request as a real one would: against
the preconditions that it carries.
"""

import asyncio

import pytest
from aiohttp import web
from tests.component.copies.conftest import HOME, Operator, by_name, counts, make_rule, reason
from tests.component.kube.fake_api import until

COPY = "/api/v1/namespaces/team/configmaps/app"


@pytest.fixture
async def settled(cluster, operator):
    """A rule with one right copy, and the operator at rest."""
    cluster.namespace("team")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster, "rule") == "Synced")
    await operator.settled()
    cluster.seen.clear()
    return operator


def just_before(cluster, verb, meddle):
    """Somebody does something just before our first request of this kind to the copy is served."""
    first = iter([True])

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == COPY and next(first, False):
            meddle()
        return await cluster.serve(request)

    cluster.always(verb, answer)


def data(cluster):
    return cluster.found("configmaps", "team", "app")["data"]


def failures(cluster, name):
    return cluster.found("copyrators", HOME, name)["status"]["failures"]


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
    await until(lambda: reason(cluster, "rule") == "SourceNotFound")
    await settled.settled()
    assert data(cluster) == {"key": "theirs"}


async def test_a_users_re_creation_just_before_our_update_is_not_overwritten(cluster, settled):
    just_before(cluster, "update", recreate(cluster))
    cluster.object("configmaps", HOME, "app", data={"key": "newer"})
    await until(lambda: counts(cluster, "rule").get("conflicts") == 1)
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


async def test_a_copy_annotated_just_before_our_delete_goes_all_the_same(cluster, settled):
    just_before(cluster, "delete", annotate(cluster))
    cluster.gone("configmaps", HOME, "app")
    await until(lambda: cluster.found("configmaps", "team", "app") is None)


async def test_what_a_user_creates_just_before_our_create_is_theirs(cluster, operator):
    def create():
        cluster.object("configmaps", "team", "app", data={"key": "theirs"})

    first = iter([True])

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == COPY.rpartition("/")[0] and next(first, False):
            create()
        return await cluster.serve(request)

    cluster.always("create", answer)
    cluster.namespace("team")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster, "rule").get("conflicts") == 1)
    assert data(cluster) == {"key": "theirs"}


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
            in failures(cluster, "there")[0]["message"]
        )
        told.set()
        await until(
            lambda: "source of the rule home/back," in failures(cluster, "there")[0]["message"]
        )
        assert data(cluster) == {"key": "theirs"}
        assert cluster.found("configmaps", HOME, "app")["data"] == {"key": "ours"}
    finally:
        await operator.stop()
