"""The list of features: its order is that of their gates."""

from __future__ import annotations

from copyrator.bundles.catalog import all_gates
from copyrator.bundles.features import load_gates

ORDER = [
    *("skip-digests", "signature", "vendored", "plain", "age", "promotion"),
    *("dependsOn", "freeze", "window", "approval"),
]


def test_versions_are_judged_before_the_moment() -> None:
    gates = all_gates(load_gates())
    assert [gate.name for gate in gates] == ORDER
    assert [gate.name for gate in gates.version] == ORDER[:6]
