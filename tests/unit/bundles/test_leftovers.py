"""Secrets that a former process has left."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.bundles.engine.bundle import BundleEntry, Memories, read_entry
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.fields import BundleDefaults

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATELY, LONG_AGO = "2025-12-31T23:00:00Z", "2025-12-31T22:59:59Z"


class Client:
    """Keeps by which selectors Secrets are deleted."""

    def __init__(self) -> None:
        self.selectors: list[str] = []

    async def request(self, _method: str, _path: str, params: dict[str, str]) -> None:
        self.selectors.append(params["labelSelector"])


def bundle(finished: str | None, auth: str | None = "login") -> BundleEntry:
    spec = {"registry": "r.example", "repo": "app"} | ({"auth": auth} if auth else {})
    body = {
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": spec,
        "status": {"attempted": {"finishedAt": finished}} if finished else {},
    }
    return read_entry(body, BundleDefaults())


def tidy(
    entry: BundleEntry, *further: str | None, writes: bool = False, **more: bool
) -> tuple[int, bool]:
    """How often Secrets are deleted, in two reconciles, and whether that is settled then."""
    client = Client()
    context = SimpleNamespace(clock=lambda: NOW, memories=Memories(), client=client)
    features = SimpleNamespace(have_secrets=lambda _: writes, needed_jobs=lambda *_: ["job"])
    seals, spec = SealStore(*cast("Any", (context, features))), cast("Any", entry.spec)
    for _ in range(2):
        assert asyncio.run(seals.tidy(entry, spec, *further, **more)) is None
    assert all(one.endswith("notin (job)") for one in client.selectors)
    count = len(client.selectors)
    asyncio.run(seals.tidy(entry, spec, LATELY, may_have=True))
    return count, len(client.selectors) == count


@pytest.mark.parametrize(
    ("finished", "further", "deletions"),
    [
        (None, (), 0),
        (LATELY, (), 1),
        (LONG_AGO, (), 0),
        (None, (LATELY,), 1),
        (None, (LONG_AGO, None), 0),
        (LONG_AGO, (LONG_AGO, LATELY), 1),
    ],
)
def test_what_ended_lately_may_have_left_secrets(
    finished: str | None, further: tuple[str | None, ...], deletions: int
) -> None:
    assert tidy(bundle(finished), *further) == (deletions, True)


def test_a_feature_that_writes_secrets_may_have_left_them_at_any_time() -> None:
    assert tidy(bundle(LONG_AGO, auth=None), writes=True) == (1, True)


def test_a_bundle_whose_jobs_have_none_isnt_looked_at() -> None:
    assert tidy(bundle(LATELY, auth=None)) == (0, False)
    assert tidy(bundle(LATELY, auth=None), may_have=True) == (1, True)
