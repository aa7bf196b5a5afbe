"""Events are delivered once and in order; what vanished unseen is found, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from copyrator.api.keys import ObjectName
from copyrator.handlers.deduplication import EventDeduplicator
from copyrator.kube.client.answers import Page
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import BUNDLES, Resource


def body(name: str, version: int, namespace: str = "shop") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name, "resourceVersion": str(version)}}


class Told:
    """Remembers what a deduplicator delivered, as (name, version or "gone")."""

    def __init__(self) -> None:
        self.news: list[tuple[str, str]] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.events = EventDeduplicator(BUNDLES, self.take)

    def take(self, taken: Mapping[str, Any], deleted: bool) -> None:
        metadata = taken["metadata"]
        self.bodies.append(taken)
        self.news.append((metadata["name"], "gone" if deleted else metadata["resourceVersion"]))


class Cluster:
    """Answers lists; `meanwhile` runs between the first one and what follows it."""

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self.objects = {one["metadata"]["name"]: one for one in bodies}
        self.breaks: Exception | None = None
        self.kind_is_gone = False
        self.meanwhile = lambda: None

    async def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        field_selector: str | None = None,
        limit: int,
    ) -> AsyncIterator[Page]:
        assert res is BUNDLES
        if field_selector:
            assert namespace == "shop"
            if self.kind_is_gone:
                raise NotFound("404 page not found")
            name = field_selector.removeprefix("metadata.name=")
            yield Page([self.objects[name]] if name in self.objects else [], "10")
            return
        found = self.objects.values()
        yield Page([one for one in found if namespace in (None, one["metadata"]["namespace"])], "9")
        if self.breaks:
            raise self.breaks
        self.meanwhile()


@pytest.fixture
def told() -> Told:
    return Told()


def resync(told: Told, cluster: Cluster) -> None:
    asyncio.run(told.events.resync(cluster))


def test_an_older_state_never_follows_a_newer_one(told: Told) -> None:
    told.events.event("MODIFIED", body("app", 7))
    told.events.event(None, body("app", 5))
    assert told.news == [("app", "7")]


def test_versions_are_compared_as_numbers(told: Told) -> None:
    told.events.event("MODIFIED", body("app", 9))
    told.events.event("MODIFIED", body("app", 10))
    assert told.news == [("app", "9"), ("app", "10")]


def test_a_deletion_is_delivered_once_and_the_name_can_come_back(told: Told) -> None:
    told.events.event("ADDED", body("app", 1))
    told.events.event("DELETED", body("app", 2))
    told.events.event("DELETED", body("app", 2))
    told.events.event("ADDED", body("app", 3))
    assert told.news == [("app", "1"), ("app", "gone"), ("app", "3")]


def test_the_late_deletion_of_a_former_object_does_not_hide_the_new_one(told: Told) -> None:
    told.events.event(None, body("app", 8))
    told.events.event("DELETED", body("app", 6))
    assert told.news == [("app", "8")]
    assert told.events.names() == [ObjectName("shop", "app")]


def test_a_resync_tells_only_news(told: Told) -> None:
    told.events.event(None, body("a", 1))
    resync(told, Cluster(body("a", 1), body("b", 2)))
    assert told.news == [("a", "1"), ("b", "2")]


def test_a_resync_finds_what_vanished_unseen(told: Told) -> None:
    told.events.event(None, body("a", 1))
    told.events.event(None, body("b", 2))
    resync(told, Cluster(body("b", 2)))
    assert told.news[2:] == [("a", "gone")]
    assert told.events.names() == [ObjectName("shop", "b")]


def test_a_list_that_is_refused_makes_nothing_vanish_and_holds_nobody_up(told: Told) -> None:
    told.events.event(None, body("a", 1))
    cluster = Cluster()
    cluster.breaks = Forbidden("no")
    resync(told, cluster)
    assert told.news == [("a", "1")]
    assert not told.events.knows("shop")
    cluster.breaks = None
    resync(told, cluster)
    assert told.news == [("a", "1"), ("a", "gone")]
    assert told.events.knows("shop")


def test_a_kind_that_vanished_makes_no_object_vanish(told: Told) -> None:
    told.events.event(None, body("a", 1))
    cluster = Cluster()
    cluster.kind_is_gone = True
    with pytest.raises(NotFound):
        resync(told, cluster)
    assert told.news == [("a", "1")]


def test_an_object_made_while_the_list_was_read_does_not_vanish(told: Told) -> None:
    cluster = Cluster()
    cluster.meanwhile = lambda: told.events.event("ADDED", body("new", 10))
    resync(told, cluster)
    assert told.news == [("new", "10")]


def test_an_object_made_anew_after_the_list_does_not_vanish(told: Told) -> None:
    told.events.event(None, body("a", 1))
    cluster = Cluster()
    cluster.meanwhile = lambda: cluster.objects.update(a=body("a", 11))
    resync(told, cluster)
    assert told.news == [("a", "1"), ("a", "11")]


def test_what_a_list_of_kopfs_misses_is_looked_for_and_then_gone(told: Told) -> None:
    told.events.event(None, body("a", 1))
    told.events.event(None, body("b", 2))
    told.events.event(None, body("c", 3))
    cluster = Cluster(body("b", 2), body("c", 3))
    assert told.events.listed(None, {ObjectName("shop", "c")})
    assert told.news[3:] == [], "a list alone proves nothing"
    asyncio.run(told.events.confirm(cluster))
    assert told.news[3:] == [("a", "gone")]
    assert not told.events.listed(None, set(told.events.names()))


def test_what_can_not_be_told_is_asked_again(told: Told) -> None:
    told.events.event(None, body("a", 1))
    cluster = Cluster()
    cluster.kind_is_gone = True
    told.events.listed(None, set())
    with pytest.raises(NotFound):
        asyncio.run(told.events.confirm(cluster))
    cluster.kind_is_gone = False
    asyncio.run(told.events.confirm(cluster))
    assert told.news[1:] == [("a", "gone")]


def test_a_list_of_one_namespace_says_nothing_of_others(told: Told) -> None:
    told.events.event(None, body("a", 1))
    assert not told.events.listed("bar", set())


def test_only_the_namespaces_that_are_watched_are_listed(told: Told) -> None:
    told.events = EventDeduplicator(BUNDLES, told.take, namespaces=("shop", "bar"))
    resync(told, Cluster(body("a", 1), body("b", 2, "bar"), body("c", 3, "foreign")))
    assert told.news == [("a", "1"), ("b", "2")]


class Failing(Told):
    """Can't take in what is called bad, as long as it fails."""

    fails = True
    fails_to_drop = False

    def take(self, taken: Mapping[str, Any], deleted: bool) -> None:
        fails = self.fails_to_drop if deleted else self.fails
        if fails and taken["metadata"]["name"] == "bad":
            raise ValueError("9" * 4301)
        super().take(taken, deleted)


def test_one_object_that_cant_be_taken_in_keeps_nothing_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = Failing()
    resync(told, Cluster(body("a", 1), body("bad", 2), body("c", 3)))
    told.events.event("MODIFIED", body("bad", 4))
    assert told.news == [("a", "1"), ("c", "3")]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "shop/bad" in said
    assert "ValueError" in said
    assert "9999" not in said


@pytest.mark.parametrize("fails_to_drop", [False, True])
def test_a_fault_is_forgotten_with_its_object(
    fails_to_drop: bool, caplog: pytest.LogCaptureFixture
) -> None:
    told = Failing()
    told.fails_to_drop = fails_to_drop
    for version in (1, 3):
        told.events.event("ADDED", body("bad", version))
        told.events.event("DELETED", body("bad", version + 1))
    assert len(caplog.records) == 2


def test_what_couldnt_be_taken_in_is_tried_again_by_the_next_resync() -> None:
    told = Failing()
    resync(told, Cluster(body("bad", 2)))
    told.fails = False
    resync(told, Cluster(body("bad", 2)))
    assert told.news == [("bad", "2")]
    told.events.event("DELETED", body("bad", 3))
    assert told.news[1:] == [("bad", "gone")]


@pytest.mark.parametrize(
    "junk",
    [
        {},
        {"metadata": []},
        {"metadata": {"name": 5}},
        {"metadata": {"namespace": ["x"], "name": "a"}},
        None,
    ],
)
def test_what_has_no_name_is_passed_over(told: Told, junk: Any) -> None:
    told.events.event("ADDED", junk)
    told.events.event("DELETED", junk)
    told.events.event("ADDED", body("a", 1))
    assert told.news == [("a", "1")]
