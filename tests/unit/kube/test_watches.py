"""What watches know, which are open, and what is told of their faults."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.api.keys import ObjectName
from copyrator.api.names import ANN_FREEZE
from copyrator.kube.client.answers import decode_event, decode_page, read_name
from copyrator.kube.errors import ApiError, BrokenAnswer
from copyrator.kube.watch.informers import PlacementTiming, WatchPlacement
from copyrator.kube.watch.namespace_polls import NamespacePolls
from copyrator.kube.watch.reflector import (
    DEFAULT_TIMING,
    Faults,
    OutOfOrderError,
    Store,
    WantedNames,
    WantedStore,
    name_of,
    version_of,
)

# --- What a watch knows, whatever order and however often it is told ------------------------------


def body(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": str(version)}}


@dataclass(frozen=True, slots=True)
class Record:
    resource_version: str


DECODERS: dict[str, Any] = {
    "dicts": lambda found: found,
    "records with a version": lambda found: Record(found["metadata"]["resourceVersion"]),
    "records without": lambda found: found["metadata"]["resourceVersion"],
}


def version_in(record: Any) -> int:
    if isinstance(record, dict):
        return int(record["metadata"]["resourceVersion"])
    return int(record.resource_version if isinstance(record, Record) else record)


Event = tuple[str, str, int]


def apply(objects: dict[str, int], log: list[Event]) -> dict[str, int]:
    state = dict(objects)
    for kind, name, version in log:
        if kind == "DELETED":
            del state[name]
        else:
            state[name] = version
    return state


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, int], list[Event], list[int]]:
    """Objects at a list, what happened to them since, and the order in which it is told."""
    start = dict.fromkeys(draw(st.sets(st.sampled_from("abcd"))), 1)
    state, log = dict(start), []
    for version, name in enumerate(draw(st.lists(st.sampled_from("abcd"), max_size=12)), 2):
        delete = name in state and draw(st.booleans())
        log.append(
            ("DELETED" if delete else "MODIFIED" if name in state else "ADDED", name, version)
        )
        state = apply(state, log[-1:])
    told = list(range(len(log)))
    for _ in range(draw(st.integers(0, 4))):
        if not told:
            break
        place = draw(st.integers(0, len(told) - 1))
        if draw(st.booleans()):
            told.insert(draw(st.integers(place, len(told))), told[place])  # told twice
        else:
            told.insert(draw(st.integers(0, len(told) - 1)), told.pop(place))  # out of order
    return start, log, told


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@given(history=histories())
def test_duplicated_and_reordered_events_lead_to_the_truth_or_to_a_list(
    decode: Any, history: tuple[dict[str, int], list[Event], list[int]]
) -> None:
    start, log, told = history
    store: Store[Any] = Store(decode)
    listed(store, start, 1)
    truth = apply(start, log)
    for place in told:
        kind, name, version = log[place]
        try:
            store.event(kind, body(name, version))
        except OutOfOrderError:
            listed(store, truth, len(log) + 1)
            break
    assert {name.name: version_in(record) for name, record in store.records.items()} == truth


def listed(store: Store[Any], objects: dict[str, int], version: int) -> list[Any]:
    store.begin_list()
    for name, of in objects.items():
        store.listed(body(name, of))
    return store.end_list(str(version))


def test_events_in_order_never_ask_for_a_list() -> None:
    store: Store[Any] = Store(DECODERS["records without"])
    listed(store, {"a": 1}, 1)
    for kind, name, version in (
        ("MODIFIED", "a", 2),
        ("ADDED", "b", 3),
        ("DELETED", "a", 4),
        ("ADDED", "a", 5),
    ):
        assert store.event(kind, body(name, version))
    store.bookmark("9")
    with pytest.raises(OutOfOrderError):
        store.event("ADDED", body("c", 8))


def test_only_a_complete_list_drops_what_it_does_not_show() -> None:
    store: Store[Any] = Store(DECODERS["dicts"])
    listed(store, {"a": 1, "b": 1}, 1)
    store.begin_list()
    store.listed(body("a", 1))
    store.begin_list()  # the first list failed on page two
    store.listed(body("b", 2))
    assert set(store.records) == {ObjectName("ns", "a"), ObjectName("ns", "b")}
    assert [name.name for name, _, _ in store.end_list("5")] == ["a"]


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    store: Store[Any] = Store(DECODERS["dicts"])
    store.begin_list()
    store.end_list("opaque")
    found = body("a", 0)
    found["metadata"]["resourceVersion"] = "xyz"
    assert store.event("ADDED", found)
    assert store.event("DELETED", found)


@pytest.mark.parametrize("broken", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": []}])
def test_an_object_without_a_name_makes_the_answer_untrustworthy(broken: dict[str, Any]) -> None:
    with pytest.raises(BrokenAnswer):
        name_of(broken)
    with pytest.raises(BrokenAnswer):
        version_of(broken)


def test_names_share_their_strings() -> None:
    one, other = (name_of({"metadata": {"namespace": f"n{'s'}", "name": "a"}}) for _ in range(2))
    assert one == other
    assert one.namespace is other.namespace


# --- A store that keeps what is wanted: little of little, and never a wrong absence ---------------


A, B = ObjectName("ns", "a"), ObjectName("ns", "b")


def named(name: ObjectName, version: int) -> dict[str, Any]:
    meta = {"namespace": name.namespace, "name": name.name, "resourceVersion": str(version)}
    return {"metadata": meta}


@pytest.fixture
def wanted() -> WantedNames:
    wanted = WantedNames()
    wanted.add(A)
    return wanted


@pytest.fixture
def kept(wanted: WantedNames) -> WantedStore[dict[str, Any]]:
    store = wanted.store(lambda body: body)
    store.begin_list()
    assert store.listed(named(B, 3)) is None
    assert store.listed(named(A, 4)) == (A, None, named(A, 4))
    assert store.end_list("10") == []
    return store


def test_what_nobody_wants_is_not_kept(kept: WantedStore[dict[str, Any]]) -> None:
    assert kept.event("MODIFIED", named(B, 11)) is None
    assert kept.event("DELETED", named(B, 12)) is None
    assert set(kept.records) == {A}


def test_a_name_that_comes_late_is_told_from_then_on(
    wanted: WantedNames, kept: WantedStore[dict[str, Any]]
) -> None:
    wanted.add(B)
    assert B not in kept.records
    assert kept.event("MODIFIED", named(B, 11)) == (B, None, named(B, 11))
    assert kept.event("DELETED", named(B, 12)) == (B, named(B, 11), None)


def test_the_deletion_of_what_was_never_shown_is_told(
    wanted: WantedNames, kept: WantedStore[dict[str, Any]]
) -> None:
    wanted.add(B)
    assert kept.event("DELETED", named(B, 11)) == (B, None, None)


@pytest.mark.parametrize("kind", ["DELETED", "MODIFIED"])
def test_late_news_of_what_was_never_shown_asks_for_a_list(
    wanted: WantedNames, kept: WantedStore[dict[str, Any]], kind: str
) -> None:
    wanted.add(B)
    with pytest.raises(OutOfOrderError):
        kept.event(kind, named(B, 9))


def test_late_news_of_a_stranger_is_nobodys_trouble(kept: WantedStore[dict[str, Any]]) -> None:
    assert kept.event("MODIFIED", named(B, 9)) is None


def test_of_an_object_no_more_is_read_than_its_name_and_version() -> None:
    whole = named(A, 5)
    whole["metadata"] |= {"annotations": {"x": "y" * 1000}, "managedFields": [{"a": "b"}]}
    whole["data"] = {"a": ["b"]}
    raw = msgspec.json.encode(whole)
    assert read_name(raw) == named(A, 5)
    page = {"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "9"}}
    assert list(
        decode_page(msgspec.json.encode({**page, "items": [whole]}), reader=read_name).items
    ) == [named(A, 5)]
    event = decode_event(msgspec.json.encode({"type": "ADDED", "object": whole}), read_name)
    assert event.object == named(A, 5)


def test_nesting_of_any_depth_hides_no_name() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    raw = b'{"metadata":{"managedFields":' + deep + b',"name":"a","namespace":"ns"}}'
    found = read_name(raw)["metadata"]
    assert (found["namespace"], found["name"]) == ("ns", "a")


# --- What is told of a watch's faults: each once, until it has been well for a while --------------


def flap(faults: Faults) -> None:
    """A fault that the next try meets again, and then none."""
    for _ in range(2):
        faults.note(BrokenAnswer("half an event"))
    faults.clear()


def test_what_comes_and_goes_within_seconds_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    faults = Faults("the watch", DEFAULT_TIMING, lambda: 0.0)
    flap(faults)
    flap(faults)
    assert caplog.messages == [
        "the watch: half an event",
        "the watch: works again after 0 s",
    ]
    faults.calm()
    flap(faults)
    assert caplog.messages[2:] == caplog.messages[:2], "it had been well for long"


# --- Which watches are open, and when a denied one is tried again, by a simulated clock -----------


TIMING = PlacementTiming(check=5.0)


@dataclass
class Watch:
    """What is open at a place."""

    denial: str = ""
    is_open: bool = True

    def close(self) -> None:
        self.is_open = False


class Placement(WatchPlacement[str, Watch]):
    """Watches what it is told, and notes when what was done."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(TIMING, loop.time)
        self.told: set[str] = set()
        self.missing: dict[str, str | ApiError] = {}
        self.takes: dict[str, float] = {}
        self.kept: set[str] = set()
        self.remembers = True
        self.log: list[tuple[float, str]] = []
        self.held: Set[str] = set()
        self.checks = 0
        self.next: str | None = None
        self._loop = loop

    def tell(self, *places: str) -> None:
        self.told = set(places)
        self.arrange_soon()

    def note(self, what: str) -> None:
        self.log.append((round(self._loop.time(), 2), what))

    def choose(self, denied: Set[str], held: Set[str]) -> set[str]:
        self.note("choose")
        self.held = set(held)
        return {"b" if place == "a" and "a" in denied else place for place in self.told}

    async def find_missing(self, place: str) -> str:
        self.note(f"review {place}")
        await asyncio.sleep(self.takes.get(place, 0))
        missing = self.missing.get(place, "")
        if isinstance(missing, ApiError):
            raise missing
        return missing

    def open(self, place: str) -> None:
        self.note(f"open {place}")
        self.opened[place] = Watch()

    def may_end(self, place: str) -> bool:
        return place not in self.kept

    def forgets(self, place: str, *, is_unused: bool) -> bool:
        return is_unused and not self.remembers

    def on_denied(self, place: str, why: str, *, is_new: bool) -> None:
        assert place not in self.wanted
        self.note(f"{'denied' if is_new else 'still denied'} {place}: {why}")

    def on_checked(self) -> None:
        self.checks += 1
        if self.next is not None:
            self.tell(self.next)
            self.next = None

    def times_of(self, what: str) -> list[float]:
        return [moment for moment, noted in self.log if noted == what]


Story = Callable[[Placement], Awaitable[None]]


def run(story: Story) -> Placement:
    async def main(loop: SimulatedLoop) -> Placement:
        placement = Placement(loop)
        await story(placement)
        placement.close()
        return placement

    return simulate(main)


def test_changes_are_collected_and_open_watches_stay() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("a")
        await asyncio.sleep(0.04)
        placement.tell("a", "c")
        await asyncio.sleep(1)
        assert placement.opened.keys() == {"a", "c"}
        placement.tell("c", "d")
        await asyncio.sleep(60)
        assert placement.opened.keys() == {"c", "d"}

    log = run(story).log
    assert [moment for moment, what in log if what == "choose"] == [0.05, 1.09]
    assert sorted(what for _, what in log if what.startswith("review")) == [
        "review a",
        "review c",
        "review d",
    ]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_denied_place_is_replaced_and_retried_ever_later(remembers: bool) -> None:
    async def story(placement: Placement) -> None:
        placement.remembers = remembers
        placement.missing["a"] = "no permission"
        placement.tell("a")
        await asyncio.sleep(2500)
        assert placement.opened.keys() == {"b"}
        assert placement.chosen == placement.wanted == {"b"}
        placement.missing.clear()
        await asyncio.sleep(610)
        assert placement.opened.keys() == {"a"}
        assert placement.denied == {}

    placement = run(story)
    reviews = placement.times_of("review a")
    waits = [later - earlier for earlier, later in pairwise(reviews)]
    assert waits[:7] == pytest.approx([15, 30, 60, 120, 240, 480, 600], abs=TIMING.check)
    assert all(wait <= 600 + TIMING.check for wait in waits)
    assert len(placement.times_of("denied a: no permission")) == 1
    assert len(placement.times_of("still denied a: no permission")) == len(reviews) - 2


def test_a_watch_that_is_refused_is_closed_and_reviewed_before_it_is_opened_again() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("a")
        await asyncio.sleep(1)
        watch, watch.denial = placement.opened["a"], "403"
        await asyncio.sleep(TIMING.check + 0.1)
        assert not watch.is_open
        assert placement.opened.keys() == {"b"}
        await asyncio.sleep(20)
        assert placement.opened.keys() == {"a"}

    log = [what for _, what in run(story).log if what != "choose"]
    assert log == [
        "review a",
        "open a",
        "denied a: 403",
        "review b",
        "open b",
        "review a",
        "open a",
    ]


def test_a_review_that_fails_is_repeated_at_the_next_check_and_denies_nothing() -> None:
    async def story(placement: Placement) -> None:
        placement.missing["c"] = ApiError("no answer")
        placement.tell("c")
        await asyncio.sleep(11)
        assert placement.denied == {}
        placement.missing.clear()
        await asyncio.sleep(5)
        assert placement.opened.keys() == {"c"}

    assert run(story).times_of("review c") == pytest.approx([0.05, 5.05, 10.05, 15.05])


def test_what_is_no_longer_wanted_after_its_review_is_not_opened() -> None:
    async def story(placement: Placement) -> None:
        placement.takes["c"], placement.missing["c"] = 3, "no permission"
        placement.tell("c")
        await asyncio.sleep(1)
        placement.tell()
        await asyncio.sleep(20)
        assert not placement.denied

    assert run(story).times_of("open c") == []


def test_a_watch_is_kept_until_those_that_replace_it_are_ready() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("c")
        await asyncio.sleep(1)
        watch = placement.opened["c"]
        placement.kept.add("c")
        placement.tell("d")
        await asyncio.sleep(60)
        assert watch.is_open
        placement.kept.clear()
        placement.retire()
        assert not watch.is_open
        assert placement.opened.keys() == {"d"}

    run(story)


def test_while_watches_are_chosen_they_are_checked_and_afterwards_nothing_runs() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("c")
        await asyncio.sleep(51)
        assert placement.checks == 11
        placement.tell()
        await asyncio.sleep(1000)
        assert placement.checks == 12

    run(story)


def test_after_close_nothing_is_open_and_nothing_is_opened() -> None:
    async def story(placement: Placement) -> None:
        placement.takes["c"] = 3
        placement.tell("c", "d")
        await asyncio.sleep(1)
        watch = placement.opened["d"]
        placement.tell("c", "d", "e")
        placement.close()
        checks = placement.checks
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.sleep(60)
        assert placement.checks == checks
        assert not watch.is_open
        assert placement.opened == {}
        assert placement.chosen == placement.wanted == set()

    assert [what for _, what in run(story).log if what.startswith("open")] == ["open d"]


# --- How soon a change is found where Namespaces are polled, by a simulated clock -----------------


PROMISED = 10.0
"""Seconds, in docs/bundles.md: "within ten seconds"."""


@pytest.mark.parametrize("moment", [0.5, 9.9, 10.1, 601.0])
def test_a_freeze_is_found_within_ten_seconds(moment: float) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "1"}}

    async def story(loop: SimulatedLoop) -> float:
        async def request(*_: Any, **__: Any) -> dict[str, Any]:
            return {"metadata": dict(body["metadata"])}

        found: asyncio.Future[float] = loop.create_future()

        def listen(_name: ObjectName, _old: Any, seen: dict[str, Any] | None) -> None:
            if seen and ANN_FREEZE in seen["metadata"].get("annotations", {}):
                found.set_result(loop.time())

        client: Any = SimpleNamespace(request=request)
        polls = NamespacePolls(client, ("a",), listen, lambda: None, clock=loop.time)
        running = loop.create_task(polls.run())
        await asyncio.sleep(moment)
        body["metadata"] |= {"resourceVersion": "2", "annotations": {ANN_FREEZE: "holidays"}}
        when = await asyncio.wait_for(found, 3600)
        running.cancel()
        return when - moment

    assert 0 <= simulate(story) <= PROMISED


def test_what_is_not_wanted_any_more_is_dropped(
    wanted: WantedNames, kept: WantedStore[dict[str, Any]]
) -> None:
    wanted.discard(A)
    assert not kept.records
    assert len(wanted) == 0
    assert not wanted.by_namespace
    assert kept.event("MODIFIED", named(A, 11)) is None


def test_a_watch_that_has_ended_is_forgotten(
    wanted: WantedNames, kept: WantedStore[dict[str, Any]]
) -> None:
    kept.close()
    kept.close()
    assert not wanted._stores


@pytest.mark.parametrize(("remembers", "again"), [(True, "still denied"), (False, "denied")])
def test_a_denial_that_is_over_is_forgotten_where_its_user_says_so(
    remembers: bool, again: str
) -> None:
    async def story(placement: Placement) -> None:
        placement.remembers, placement.missing["c"] = remembers, "no permission"
        placement.tell("c", "d")
        await asyncio.sleep(1)
        placement.tell("d")
        await asyncio.sleep(5)
        placement.tell("c", "d")
        await asyncio.sleep(1)
        assert len(placement.times_of("review c")) == 1
        placement.tell("d")
        await asyncio.sleep(25)
        placement.tell("c", "d")
        await asyncio.sleep(1)

    assert run(story).times_of(f"{again} c: no permission")[-1] > 31
