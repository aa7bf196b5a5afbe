"""What the timeline of a Bundle says: promotion."""

from __future__ import annotations

from tests.unit.cli.view.test_timeline import bundle, digest, entry, shown


def test_a_version_was_promoted_from_the_bundle_that_had_it_before() -> None:
    soak = [{"version": "1.0", "digest": digest("a"), "since": "2026-01-01T12:00:00Z"}]
    staging = bundle("staging", soak=soak)
    later = bundle("later", history=[entry(5, "1.0", "a")])
    broken = bundle("broken", history=[entry(1, "1.0", "a", "Failed")])
    body = bundle(history=[entry(3, "1.0", "a")])
    assert shown(body, staging, later, broken) == [
        ("Deployed", "1.0", "promoted from apps/staging")
    ]
    assert shown(body, later, broken) == [("Deployed", "1.0")]
