"""One namespace's trouble is its own; new namespaces go before mass updates."""

import pytest
from aiohttp import web
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    counts,
    is_failing,
    make_rule,
    reason,
)
from tests.component.kube.fake_api import error, until
from tests.long import LONG

from copyrator.api.keys import CopyKey

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


def change_source(cluster):
    cluster.object("configmaps", HOME, "app", data={"key": "changed"})


def relabel_namespace(cluster):
    cluster.namespace("bad", changed="yes")


def change_rule(cluster):
    make_rule(cluster, "rule", by_name("app", deletionPolicy="Orphan"))


@pytest.mark.parametrize("change", [change_source, relabel_namespace, change_rule])
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
        (error(403, "Forbidden", message="forbidden: User cannot create"), "Forbidden"),
        (error(403, "Forbidden", message="exceeded quota: q, used: 1"), "QuotaExceeded"),
        (error(403, "Forbidden", message=WEBHOOK), "AdmissionDenied"),
        (error(400, "BadRequest", message=WEBHOOK), "AdmissionDenied"),
        (error(413, "RequestEntityTooLarge", message="request is too large"), "TooLarge"),
        (error(422, "Invalid", message="field is immutable"), "Immutable"),
        (error(422, "Invalid", message="a name part must consist of"), "Error"),
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
