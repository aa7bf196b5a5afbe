"""A store that keeps what is wanted: little of little, and never a wrong absence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from copyrator.api.keys import ObjectName
from copyrator.kube.client.answers import decode_event, decode_page, read_name
from copyrator.kube.watch.reflector import OutOfOrderError, WantedNames, WantedStore

A, B = ObjectName("ns", "a"), ObjectName("ns", "b")


def body(name: ObjectName, version: int) -> dict[str, Any]:
    meta = {"namespace": name.namespace, "name": name.name, "resourceVersion": str(version)}
    return {"metadata": meta}


@pytest.fixture
def wanted() -> WantedNames:
    wanted = WantedNames()
    wanted.add(A)
    return wanted


@pytest.fixture
def store(wanted: WantedNames) -> WantedStore[dict[str, Any]]:
    store = wanted.store(lambda body: body)
    store.begin_list()
    assert store.listed(body(B, 3)) is None
    assert store.listed(body(A, 4)) == (A, None, body(A, 4))
    assert store.end_list("10") == []
    return store


def test_what_nobody_wants_is_not_kept(store: WantedStore[dict[str, Any]]) -> None:
    assert store.event("MODIFIED", body(B, 11)) is None
    assert store.event("DELETED", body(B, 12)) is None
    assert set(store.records) == {A}


def test_a_name_that_comes_late_is_told_from_then_on(
    wanted: WantedNames, store: WantedStore[dict[str, Any]]
) -> None:
    wanted.add(B)
    assert B not in store.records
    assert store.event("MODIFIED", body(B, 11)) == (B, None, body(B, 11))
    assert store.event("DELETED", body(B, 12)) == (B, body(B, 11), None)


def test_the_deletion_of_what_was_never_shown_is_told(
    wanted: WantedNames, store: WantedStore[dict[str, Any]]
) -> None:
    wanted.add(B)
    assert store.event("DELETED", body(B, 11)) == (B, None, None)


@pytest.mark.parametrize("kind", ["DELETED", "MODIFIED"])
def test_late_news_of_what_was_never_shown_asks_for_a_list(
    wanted: WantedNames, store: WantedStore[dict[str, Any]], kind: str
) -> None:
    wanted.add(B)
    with pytest.raises(OutOfOrderError):
        store.event(kind, body(B, 9))


def test_late_news_of_a_stranger_is_nobodys_trouble(store: WantedStore[dict[str, Any]]) -> None:
    assert store.event("MODIFIED", body(B, 9)) is None


def test_what_is_not_wanted_any_more_is_dropped(
    wanted: WantedNames, store: WantedStore[dict[str, Any]]
) -> None:
    wanted.discard(A)
    assert not store.records
    assert len(wanted) == 0
    assert not wanted.by_namespace
    assert store.event("MODIFIED", body(A, 11)) is None


def test_a_watch_that_has_ended_is_forgotten(
    wanted: WantedNames, store: WantedStore[dict[str, Any]]
) -> None:
    store.close()
    store.close()
    assert not wanted._stores


def test_of_an_object_no_more_is_read_than_its_name_and_version() -> None:
    whole = body(A, 5)
    whole["metadata"] |= {"annotations": {"x": "y" * 1000}, "managedFields": [{"a": "b"}]}
    whole["data"] = {"a": ["b"]}
    raw = msgspec.json.encode(whole)
    assert read_name(raw) == body(A, 5)
    page = {"kind": "PartialObjectMetadataList", "metadata": {"resourceVersion": "9"}}
    assert list(
        decode_page(msgspec.json.encode({**page, "items": [whole]}), reader=read_name).items
    ) == [body(A, 5)]
    event = decode_event(msgspec.json.encode({"type": "ADDED", "object": whole}), read_name)
    assert event.object == body(A, 5)


def test_nesting_of_any_depth_hides_no_name() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    raw = b'{"metadata":{"managedFields":' + deep + b',"name":"a","namespace":"ns"}}'
    found = read_name(raw)["metadata"]
    assert (found["namespace"], found["name"]) == ("ns", "a")
