"""``spec.drift``."""

from __future__ import annotations

from tests.builders.bundles import bundle, parsed

from copyrator.bundles.features.drift.fields import DriftMode, DriftSpec


def test_drift_is_off_unless_it_is_asked_for_and_ignores_by_kind_and_name() -> None:
    spec = parsed(bundle())
    assert spec.part(DriftSpec) == DriftSpec()
    assert not spec.uses(DriftSpec)
    ignore = [{"kind": "Deployment", "name": "web-*"}, {"kind": "Secret"}]
    drift = {"mode": "Correct", "interval": "15m", "ignore": ignore}
    spec = parsed(bundle(drift=drift))
    assert (spec.part(DriftSpec).mode, spec.part(DriftSpec).interval) == (DriftMode.CORRECT, 900.0)
    (first, second) = spec.part(DriftSpec).ignore
    assert (first.kind, first.names.matches("web-1"), first.names.matches("api")) == (
        "Deployment",
        True,
        False,
    )
    assert second.names.matches("anything")
