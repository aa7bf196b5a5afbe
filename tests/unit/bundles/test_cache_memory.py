"""What the registry holds of a Bundle, however long its life has been.

A process may take 10 KB for each in all: tests/e2e/bundles/test_scale.py measures that.
"""

from __future__ import annotations

import gc
import json
import tracemalloc

import msgspec
import pytest
from tests.histories import soak, status
from tests.long import LONG

from copyrator.api.bundle_spec import BundleDefaults
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.entry import unpack_status
from copyrator.bundles.entry_reader import read_entry

BYTES = 4300
COUNT = 1000 if LONG else 100
SOAK = 400
"""Bytes more of a Bundle from which others are promoted."""


def body(i: int, *, promotes: bool = False) -> str:
    found = {**status(i), "soak": soak(i)} if promotes else status(i)
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
    texts = [body(i, promotes=promotes) for i in range(COUNT + 1)]
    bundles.take(read_entry(msgspec.json.decode(texts.pop()), defaults))  # made once for all
    gc.collect()

    tracemalloc.start()
    for text in texts:
        bundles.take(read_entry(msgspec.json.decode(text), defaults))
    unpack_status.cache_clear()  # a fixed number of statuses, however many Bundles there are
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(bundles) == COUNT + 1
    return found / COUNT


@pytest.mark.measures
def test_a_bundle_with_all_its_history_takes_no_more_than_the_budget() -> None:
    # Python's table of interned strings takes megabytes when it grows, at any of them: once.
    assert taken() <= BYTES or taken() <= BYTES


@pytest.mark.measures
def test_the_soak_of_a_bundle_takes_little_more() -> None:
    assert taken(promotes=True) <= BYTES + SOAK or taken(promotes=True) <= BYTES + SOAK


def test_a_status_is_read_as_it_was_written() -> None:
    entries = [read_entry(json.loads(body(i)), BundleDefaults()) for i in range(50)]

    assert [entry.status.to_dict() for entry in entries] == [status(i) for i in range(50)]
    assert {entry.reason for entry in entries} == {"Deployed"}
