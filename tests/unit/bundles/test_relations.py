"""Whom a change of a Bundle's release wakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, read_entry
from copyrator.bundles.fields import BundleDefaults

DEPLOYED = {"version": "1.0.0", "digest": "sha256:" + "1" * 64, "time": "2026-05-04T12:00:00Z"}


def of(namespace: str, release: str, **status: Any) -> BundleEntry:
    spec = {"registry": "r.example.com", "repo": "x", "project_namespace": release}
    about = {"namespace": namespace, "name": "x", "uid": namespace}
    return read_entry({"metadata": about, "spec": spec, "status": status}, BundleDefaults())


def test_bundles_of_the_release_that_one_has_or_had_are_woken() -> None:
    one, rival, other = of("b", "z"), of("c", "z"), of("d", "y")
    moved = of("b", "y")

    def woken(before: BundleEntry | None, after: BundleEntry | None) -> list[str]:
        bundles, found = BundleCache(), list[str]()
        for entry in (rival, other, before):
            assert entry is None or bundles.take(entry)
        bundles.on_rival = lambda key: found.append(key.namespace)
        if after is not None:
            assert bundles.take(replace(after, resource_version="2"))
        elif before is not None:
            assert bundles.remove(before.key, before.uid)
        return sorted(found)

    assert woken(one, one) == []
    assert woken(one, moved) == ["c", "d"]
    assert woken(one, None) == woken(None, one) == ["c"]
    later = DEPLOYED | {"time": "2026-05-04T13:00:00Z"}
    assert woken(of("b", "z", deployed=DEPLOYED), of("b", "z", deployed=later)) == ["c"]
