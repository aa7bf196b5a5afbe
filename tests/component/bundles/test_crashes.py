"""The process may die at any write: no attempt runs twice, and the status tells the truth.

What a death leaves behind depends on nothing but the last write that reached the API server. So
the writes of all that the operator does are the points at which it can die: `JOURNEYS`, the table.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from tests.component.bundles.approvals import secrets
from tests.component.bundles.cloud import HOST, Cloud
from tests.component.bundles.crashing import NOT, OK, Stage, die_after, names, points
from tests.component.bundles.fake_cluster import fail, path_of, succeed
from tests.component.bundles.fixture_types import TIMING
from tests.component.bundles.test_takeover import CONFIG, put
from tests.component.bundles.waiting import eventually
from tests.long import LONG

from copyrator.bundles.engine.context import BundleTiming


@dataclass(frozen=True)
class Journey:
    """Something that the operator does from beginning to end, by so many writes."""

    writes: int
    """How many, and `what` they are in order."""
    what: str
    begin: Callable[[Stage], Awaitable[None]]
    """Brings it about while no operator runs."""
    runs: int
    """Runs of werf in all, uninstalls too."""
    ends: Callable[[Stage], bool]
    """It has come to its end, and the status is true."""
    own: tuple[int, ...] = ()
    """Of `Journey` in crashing.py."""


async def first(stage: Stage) -> None:
    stage.bundle()


async def bad(stage: Stage) -> None:
    stage.cluster.ends = fail
    stage.bundle(retry={"limit": 0})


async def bad_at_first(stage: Stage) -> None:
    """The second attempt succeeds."""
    cluster = stage.cluster
    cluster.ends = lambda job: fail(job) if len(cluster.runs) == 1 else succeed(job)
    stage.bundle(retry={"backoff": "1s"})


async def pushed(stage: Stage) -> None:
    await stage.deployed()
    stage.registry.put("app", "1.0.0", "two")
    requested(stage, requestedAt="now")


async def forced(stage: Stage) -> None:
    await stage.deployed()
    stage.cluster.change("bundles", "shop", status={"forceUpdate": 1})


async def forced_in_vain(stage: Stage) -> None:
    await stage.deployed()
    stage.registry.manifests.clear()
    requested(stage, requestedAt="now", forceAt="now")
    stage.cluster.change("bundles", "shop", status={"forceUpdate": 1})


def requested(stage: Stage, **annotations: str) -> None:
    named = {f"operator.werf.dev/{name}": value for name, value in annotations.items()}
    stage.cluster.change("bundles", "shop", metadata={"annotations": named})


async def job_lost(stage: Stage) -> None:
    """Nobody was there for longer than the Jobs' TTL."""
    stage.cluster.ends = None
    operator = await stage.run()
    stage.bundle(retry={"backoff": "1s"})
    await eventually(lambda: stage.cluster.runs)
    await operator.stop()
    stage.cluster.drop(path_of("jobs", stage.cluster.runs[0]))
    stage.cluster.ends = succeed


async def inherited(stage: Stage) -> None:
    """The original operator deployed it, and left its marks."""
    put(stage.registry, "1.0.0", "first")
    marks = {"kopf.zalando.org/last-handled-configuration": "{}", "mine": "stays"}
    finalizers = ["kopf.zalando.org/KopfFinalizerMarker", "other/finalizer"]
    stage.bundle(metadata={"annotations": marks, "finalizers": finalizers})
    there = {"digest": CONFIG, "version": "1.0.0"}
    left = {"ready": 1, "forceUpdate": 0, "target": there, "deploy": there}
    stage.cluster.change("bundles", "shop", status=left)


async def deleted(stage: Stage) -> None:
    await stage.deployed()
    stage.cluster.drop(path_of("bundles", "shop"))


async def deleted_and_uninstalled_at_the_second_try(stage: Stage) -> None:
    cluster = stage.cluster
    await stage.deployed()
    cluster.ends = lambda _: (1, "Error: no") if len(cluster.runs) == 2 else (0, "")
    cluster.drop(path_of("bundles", "shop"))


async def deleted_while_it_is_deployed(stage: Stage) -> None:
    stage.cluster.ends = None
    operator = await stage.run()
    stage.bundle()
    await eventually(lambda: stage.cluster.runs)
    await operator.stop()
    stage.cluster.end_job(stage.cluster.runs[0])
    stage.cluster.ends = succeed
    stage.cluster.drop(path_of("bundles", "shop"))


async def deleted_without_its_release(stage: Stage) -> None:
    await stage.deployed(deletionPolicy="Orphan")
    stage.cluster.drop(path_of("bundles", "shop"))


async def with_a_login(stage: Stage) -> None:
    """Its Job gets a Secret of the operator's."""
    registry, cluster = stage.registry, stage.cluster
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    config = {"auths": {registry.host: {"username": "alice", "password": "s3cret"}, "other": {}}}
    encoded = b64encode(json.dumps(config).encode()).decode()
    cluster.put_object("secrets", "creds", data={".dockerconfigjson": encoded})
    stage.bundle(auth="creds")


async def with_a_clouds_login(stage: Stage) -> None:
    """Its Job gets a token of a cloud."""
    stage.start = partial(stage.start, prepare=Cloud(stage.registry).prepare)
    stage.bundle(registry=HOST, insecure=None, provider="aws")


def is_deployed_and_tidied(stage: Stage) -> bool:
    return is_deployed(OK)(stage) and not secrets(stage.cluster)


def is_deployed(*verdicts: str) -> Callable[[Stage], bool]:
    """What the registry has is deployed, verified, after attempts of which werf said so."""

    def look(stage: Stage) -> bool:
        status = stage.cluster.status()
        return (
            stage.is_settled()
            and stage.cluster.reason() == "Deployed"
            and stage.verdicts() == list(verdicts)
            and status["deploy"]["digest"] == status["available"]["digest"]
            and status["deployed"]["verified"] is True
        )

    return look


def is_quarantined(stage: Stage) -> bool:
    status = stage.cluster.status()
    return (
        stage.is_settled()
        and stage.cluster.reason() == "Quarantined"
        and status["attempted"]["failures"] == 1
        and "deploy" not in status
    )


def is_taken_over(stage: Stage) -> bool:
    body = stage.cluster.look("bundles", "shop") or {}
    return (
        stage.is_settled()
        and stage.cluster.reason() == "Deployed"
        and stage.cluster.status()["deployed"]["verified"] is False
        and body["metadata"]["finalizers"] == ["other/finalizer", "operator.werf.dev/uninstall"]
        and body["metadata"]["annotations"] == {"mine": "stays"}
    )


def is_answered(stage: Stage) -> bool:
    status = stage.cluster.status()
    return (
        stage.is_settled()
        and stage.cluster.reason() == "TagNotFound"
        and status["lastHandledRequest"] == status["lastHandledForce"] == "now"
    )


JOURNEYS = {
    "a first deploy": Journey(
        5, "finalizer, attempt, Job, outcome, TTL", first, 1, is_deployed(OK)
    ),
    "a deploy with a login": Journey(
        7,
        "finalizer, attempt, login, Job, outcome, deletion of login, TTL",
        with_a_login,
        1,
        is_deployed_and_tidied,
        (3, 5),
    ),
    "a deploy with a cloud's login": Journey(
        7,
        "finalizer, attempt, login, Job, outcome, deletion of login, TTL",
        with_a_clouds_login,
        1,
        is_deployed_and_tidied,
        (3, 4, 5, 6),
    ),
    "a deploy that fails for good": Journey(
        5, "finalizer, attempt, Job, outcome, TTL", bad, 1, is_quarantined, (4, 5)
    ),
    "a deploy that fails and is tried again": Journey(
        9,
        "finalizer, twice attempt, Job, outcome, TTL",
        bad_at_first,
        2,
        is_deployed(OK, NOT),
        (4, 5, 6, 7),
    ),
    "a new version that was asked for": Journey(
        4, "attempt, Job, outcome, TTL", pushed, 2, is_deployed(OK, OK), (1, 2)
    ),
    "a forced deploy": Journey(
        5, "attempt, Job, forceUpdate, outcome, TTL", forced, 2, is_deployed(OK, OK), (1, 2, 3)
    ),
    "a force that finds nothing": Journey(2, "status, forceUpdate", forced_in_vain, 1, is_answered),
    "a Job that is lost": Journey(
        5,
        "outcome, attempt, Job, outcome, TTL",
        job_lost,
        2,
        is_deployed(OK),
        (1, 2),
    ),
    "a release of the original operator": Journey(
        3, "finalizer, baseline, status", inherited, 0, is_taken_over
    ),
    "a deletion": Journey(4, "status, Job, TTL, finalizer", deleted, 2, Stage.is_gone),
    "a deletion at the second try": Journey(
        7,
        "twice status and Job, TTL of both, finalizer",
        deleted_and_uninstalled_at_the_second_try,
        3,
        Stage.is_gone,
        (3, 4, 5),
    ),
    "a deletion during a deploy": Journey(
        5,
        "outcome, status, Job, TTL, finalizer",
        deleted_while_it_is_deployed,
        2,
        Stage.is_gone,
        (1, 2),
    ),
    "a deletion that keeps the release": Journey(
        1, "finalizer", deleted_without_its_release, 1, Stage.is_gone
    ),
}


@pytest.fixture
def timing() -> BundleTiming:
    return replace(TIMING, uninstall_retry=0.0)


@pytest.mark.parametrize("name", names(JOURNEYS))
async def test_a_journey_is_that_many_writes(stage: Stage, name: str) -> None:
    """So the table leaves out none."""
    journey = JOURNEYS[name]
    await journey.begin(stage)
    before = stage.cluster.writes_seen

    await stage.run()

    await eventually(lambda: journey.ends(stage), name)
    assert stage.cluster.writes_seen - before == journey.writes, journey.what
    assert len(stage.cluster.runs) == journey.runs


@pytest.mark.parametrize(("name", "number"), points(JOURNEYS))
async def test_dies_after_any_write(stage: Stage, name: str, number: int) -> None:
    journey, cluster = JOURNEYS[name], stage.cluster
    await journey.begin(stage)

    await die_after(cluster, stage.run, number)
    await stage.run()

    await eventually(lambda: journey.ends(stage), name)
    assert len(cluster.runs) == len(set(cluster.runs)) == journey.runs


async def test_a_second_force_during_a_forced_deploy_outlives_the_process(stage: Stage) -> None:
    cluster = stage.cluster
    await stage.deployed()
    cluster.ends = None
    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    operator = await stage.run()
    await eventually(lambda: len(cluster.runs) == 2 and cluster.status()["forceUpdate"] == 0)
    await operator.stop(0.0)

    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    cluster.ends = succeed
    cluster.end_job(cluster.runs[1])
    await stage.run()

    await eventually(lambda: is_deployed(OK, OK, OK)(stage))
    assert len(cluster.runs) == 3


def test_the_numbers_in_the_docs_are_those_of_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reliability.md").read_text()
    whole = sum(journey.writes for journey in JOURNEYS.values())
    text = f"{whole} points in {len(JOURNEYS)} scenarios, of which `make test` has "
    assert text in page
    if not LONG:
        assert f"{text}{len(points(JOURNEYS))} |" in page
