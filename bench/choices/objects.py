"""The Bundles that the questions are tried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.objects import Request
from bench.rig import BUNDLES

FINALIZER = "copyrator.flant.com/bench"
"""As the operator puts one on what it serves; nobody but the benchmark takes it off."""


def bundle(name: str, *, finalizers: Sequence[str] = ()) -> dict[str, Any]:
    """A Bundle of ordinary size; no operator deploys it."""
    return {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": {
            "name": name,
            "finalizers": list(finalizers),
            "labels": {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop"},
            "annotations": {"example.com/owner": "team-of-the-shop", "example.com/note": "x" * 200},
        },
        "spec": {
            "registry": "registry.example.com",
            "repo": f"shop/{name}",
            "version": "1.0.*",
            "suspend": True,
            "values": "shop",
        },
    }


def creations(count: int) -> list[Request]:
    """Requests that make so many."""
    return [(BUNDLES, bundle(f"many-{number:05}")) for number in range(count)]


def changes(count: int, word: str) -> list[Request]:
    """Merge patches of their specs; another word, another content."""
    body = {"spec": {"values": word.replace(" ", "-").replace("'", "").replace(",", "")}}
    return [(f"{BUNDLES}/many-{number:05}", body) for number in range(count)]
