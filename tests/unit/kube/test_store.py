"""What a watch knows, whatever order and however often it is told."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.keys import ObjectName
from copyrator.kube.errors import BrokenAnswer
from copyrator.kube.watch.reflector import OutOfOrderError, Store, name_of, version_of


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


def test_what_is_as_it_was_is_no_news() -> None:
    store: Store[Any] = Store(DECODERS["dicts"])
    listed(store, {"a": 1}, 1)
    store.begin_list()
    assert store.listed(body("a", 1)) is None
    assert store.listed(body("a", 2)) is not None


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
