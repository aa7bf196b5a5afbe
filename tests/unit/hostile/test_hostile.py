"""What makes bad objects: the same from the same seed, as bad as meant, and JSON."""

import json
from random import Random

import pytest
from tests.long import LONG

from hostile import contents, texts
from hostile.bad import Places
from hostile.categories import CATEGORIES
from hostile.newcomers import waits
from localcluster.audit import AuditEvent

PLACES = Places(("evil-0", "evil-1"), ("forged",), "victim", "home/rule", "127.0.0.1:1")
MOST = 3 * 2**20
"""Bytes that the API server reads of a body at all."""


@pytest.mark.parametrize("name", CATEGORIES)
def test_a_seed_makes_the_same_objects_again_and_another_one_others(name: str) -> None:
    make = CATEGORIES[name].make

    def made(seed: int) -> list[bytes]:
        random = Random(seed)
        return [texts.encode(make(random, PLACES, "x-1").body) for _ in range(2)]

    assert made(1) == made(1)
    assert made(1) != made(2)


@pytest.mark.parametrize("name", CATEGORIES)
def test_most_objects_are_small_enough_to_be_read_and_all_are_named_and_placed(name: str) -> None:
    random, sizes = Random(3), []
    count = 20 if LONG else 8
    for _ in range(count):
        bad = CATEGORIES[name].next(random, PLACES)
        assert bad.namespace or bad.name in (*PLACES.evil, *PLACES.forged)
        assert bad.body["metadata"]["name"] == bad.name
        sizes.append(len(texts.encode(bad.body)))
    assert sum(size <= MOST for size in sizes) >= count * 3 // 4


def test_fifty_bundles_of_80_kb_are_listed_or_in_the_index_of_the_fallback_tag() -> None:
    for number in range(2):
        found = contents.repository("signed", number)
        tag = contents.digest(found.manifest).replace(":", "-")
        index = json.loads(found.answer("referrers", "") or found.answer("manifests", tag) or b"")
        layers = [
            json.loads(found.answer("manifests", one["digest"]) or b"")["layers"][0]
            for one in index["manifests"]
        ]
        blobs = {found.answer("blobs", one["digest"]) for one in layers}
        assert len(blobs) == 50
        assert all(blob and 78_000 < len(blob) < 82_000 for blob in blobs)


@pytest.mark.parametrize("number", range(len(contents.CHARTS) + 1))
def test_charts_are_what_their_digests_say_but_for_the_last_one(number: int) -> None:
    found = contents.repository("charts", number)
    (layer,) = json.loads(found.manifest)["layers"]
    blob = found.answer("blobs", layer["digest"]) or b""
    assert len(blob) == layer["size"] <= 4 * 2**20
    assert (contents.digest(blob) == layer["digest"]) is (number != contents.OTHER_DIGEST)


def event(user: str, resource: str, namespace: str, name: str, ended: float) -> AuditEvent:
    return AuditEvent(user, "create", resource, "", namespace, name, 201, "", ended=ended)


def test_a_namespace_has_waited_until_the_last_of_its_copies_stood() -> None:
    events = [
        event("admin", "namespaces", "", "a", 10.0),
        event("admin", "namespaces", "", "b", 11.0),
        event("other", "secrets", "a", "", 10.1),
        event("operator", "secrets", "a", "", 10.5),
        event("operator", "configmaps", "a", "", 12.0),
        event("operator", "secrets", "b", "", 11.5),
    ]
    copies = {"secrets": 1, "configmaps": 1}
    assert waits(events, ["a", "b"], "operator", copies) == {"a": 2.0}
    assert waits(events, ["a"], "other", {"secrets": 1}) == {"a": pytest.approx(0.1)}
