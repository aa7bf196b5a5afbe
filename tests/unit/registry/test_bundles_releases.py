"""Whose a release is when several Bundles claim it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from copyrator.api.bundle_spec import BundleDefaults
from copyrator.registry.bundles import BundleEntry, BundleRegistry, read_entry

SECOND = "2026-11-21T10:00:00Z"
NEXT = "2026-11-21T10:00:01Z"
DEPLOYED = {"deployed": {"digest": "sha256:a", "namespace": "shop"}}
ELSEWHERE = {"deployed": {"digest": "sha256:a", "namespace": "old"}}
TRIED = {"attempted": {"attempt": 1, "outcome": "Running"}}


def claim(uid: str, created: str = SECOND, status: dict[str, Any] | None = None) -> BundleEntry:
    """A Bundle of the release shop/app; its namespace is named after its uid."""
    body = {
        "metadata": {
            "namespace": f"team-{uid}",
            "name": "app",
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": created,
        },
        "spec": {"registry": "r.example", "repo": "app", "project_namespace": "shop"},
        "status": status or {},
    }
    return read_entry(body, BundleDefaults())


@pytest.mark.parametrize(
    ("owner", "others"),
    [
        (claim("z"), [claim("a", NEXT)]),
        (claim("a"), [claim("b"), claim("c")]),
        (claim("z", status=DEPLOYED), [claim("a")]),
        (claim("z", NEXT, DEPLOYED), [claim("a")]),
        (claim("z", NEXT, TRIED), [claim("a"), claim("b")]),
        (claim("z"), [claim("a", NEXT, ELSEWHERE)]),
        (claim("a", status=DEPLOYED), [claim("b", status=DEPLOYED)]),
    ],
    ids=[
        "the older one",
        "of two made in one second always the same",
        "who has deployed it, though another was made in the same second",
        "who has deployed it, though another is older",
        "who has begun to deploy it",
        "not who has deployed another release",
        "of two that have, always the same",
    ],
)
def test_a_release_belongs_to(owner: BundleEntry, others: list[BundleEntry]) -> None:
    for order in permutations([owner, *others]):
        registry = BundleRegistry()
        for entry in order:
            registry.take(entry)

        assert registry.sharing_release(owner)[0].key == owner.key
