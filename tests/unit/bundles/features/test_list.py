"""The list of features, whose order is that of their gates, and the points that they may have."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.features import load_gates

ROOT = Path(__file__).resolve().parents[4]

ORDER = [
    *("skip-digests", "signature", "vendored", "plain", "age", "promotion"),
    *("dependsOn", "freeze", "window", "approval"),
]


def test_versions_are_judged_before_the_moment() -> None:
    gates = load_gates()
    assert [gate.name for gate in gates] == ORDER
    assert [gate.name for gate in gates.version] == ORDER[:6]


def test_the_architecture_names_each_extension_point() -> None:
    points = [name for name, what in vars(Feature).items() if is_point(name, what)]
    said = (ROOT / "docs" / "architecture.md").read_text()
    assert len(points) > 20
    assert [name for name in points if f"`{name}`" not in said] == []


def is_point(name: str, what: object) -> bool:
    return not name.startswith("_") and isinstance(what, FunctionType | property)
