"""``spec.health``."""

from __future__ import annotations

from tests.builders.bundles import bundle, parsed

from copyrator.bundles.features.health.fields import HealthMode, HealthSpec


def test_health_is_off_unless_it_is_asked_for() -> None:
    assert parsed(bundle()).part(HealthSpec).health is HealthMode.OFF
    assert parsed(bundle(health="Watch")).part(HealthSpec).health is HealthMode.WATCH
