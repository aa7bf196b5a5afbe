"""What the cache holds of a Bundle, however long its life has been.

A process may take 15 KB for each in all: tests/e2e/bundles/test_scale.py measures that
(docs/adr/0049-memory.md).
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from tests.histories import soak, status
from tests.long import LONG

from copyrator.bundles.engine.bundle import BundleCache, read_entry
from copyrator.bundles.engine.status import stored_status
from copyrator.bundles.fields import BundleDefaults

BYTES = 7_000
COUNT = 1000 if LONG else 100
SOAK = 5_500
"""Bytes more of a Bundle from which others are promoted."""
HOSTILE = 300_000
"""Bytes of a Bundle whose status somebody wrote to waste memory."""


def body(i: int, found: dict[str, Any]) -> str:
    return json.dumps(
        {
            "metadata": {
                "namespace": f"team-{i}",
                "name": f"app-{i}",
                "uid": f"00000000-0000-0000-0000-{i:012d}",
                "resourceVersion": str(100_000 + i),
                "generation": 3,
                "creationTimestamp": f"2026-01-01T00:00:{i % 60:02d}Z",
                "finalizers": ["operator.werf.dev/uninstall"],
                "labels": {"app.kubernetes.io/name": f"app-{i}"},
                "annotations": {"operator.werf.dev/requestedAt": f"request-{i}"},
            },
            "spec": {
                "registry": "registry.example.com",
                "repo": f"team-{i}/app",
                "version": "1.*",
                "auth": "registry-creds",
                "values": f"values-{i}",
                "env": {"WERF_ENV": "production"},
            },
            "status": found,
        }
    )


def taken(*, promotes: bool = False) -> float:
    """Bytes that each of COUNT Bundles takes."""
    bundles, defaults = BundleCache(), BundleDefaults()
    numbers = range(COUNT + 1)
    texts = [body(i, status(i) | ({"soak": soak(i)} if promotes else {})) for i in numbers]
    bundles.take(read_entry(msgspec.json.decode(texts.pop()), defaults))  # made once for all
    gc.collect()

    tracemalloc.start()
    for text in texts:
        bundles.take(read_entry(msgspec.json.decode(text), defaults))
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(bundles) == COUNT + 1
    return found / COUNT


@pytest.mark.measures
def test_a_bundle_with_all_its_history_takes_no_more_than_the_budget() -> None:
    # Python's table of interned strings takes megabytes when it grows, at any of them: once.
    assert taken() <= BYTES or taken() <= BYTES


@pytest.mark.needs("promotion")
@pytest.mark.measures
def test_the_soak_of_a_bundle_takes_little_more() -> None:
    assert taken(promotes=True) <= BYTES + SOAK or taken(promotes=True) <= BYTES + SOAK


def test_a_status_is_read_as_it_was_written() -> None:
    entries = [read_entry(json.loads(body(i, status(i))), BundleDefaults()) for i in range(50)]

    assert [entry.status.to_dict() for entry in entries] == [status(i) for i in range(50)]
    assert {entry.status.ready_reason for entry in entries} == {"Deployed"}
    assert {entry.unread for entry in entries} == {b""}


def test_what_cannot_be_parsed_of_a_status_is_kept_to_be_removed() -> None:
    strange = {**status(1), "history": [7], "attempted": {"attempt": "x"}, "consent": {}, "a": None}
    entry = read_entry(json.loads(body(1, strange | {"forceUpdate": "x"})), BundleDefaults())

    assert stored_status(entry) == strange
    assert entry.status.attempted.attempt is None
    assert entry.status.past == ()


STATUSES: dict[str, dict[str, Any]] = {
    "texts": {f"x{n}": "\N{GRINNING FACE}" * 4_000 for n in range(60)},
    "maps": {"a": {f"b{n}": {"c": {"d": {}}} for n in range(50)} | {"e": [[{"f": {}}] * 900] * 9}},
    "numbers": {f"x{n}": 1_000 + n for n in range(1_300)},
    "lists": {"a": [[[[n + 1_000] * 30 for n in range(30)]] * 30] * 30},
    "history": {"history": [{}] * 5_000},
    "gates": {"gates": [{}] * 2_000},
    "conditions": {"conditions": [{"type": "Ready"}] * 900},
    "missing": {"attempted": {"missing": [{"verbs": []}] * 1_000}},
}


@pytest.mark.measures
@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_what_is_held_of_a_hostile_status_is_bounded(status: dict[str, Any]) -> None:
    texts = [body(i, status) for i in range(6)]
    read_entry(msgspec.json.decode(texts.pop()), BundleDefaults())
    gc.collect()

    tracemalloc.start()
    entries = [read_entry(msgspec.json.decode(text), BundleDefaults()) for text in texts]
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found / len(entries) <= HOSTILE
