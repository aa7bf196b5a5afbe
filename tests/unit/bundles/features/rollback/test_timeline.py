"""What the timeline of a Bundle says: rollback."""

from __future__ import annotations

from tests.unit.cli.view.test_timeline import bundle, digest, entry, events


def test_a_pin_and_skipped_digests_have_the_command_that_ends_them() -> None:
    pin = {"version": "1.0", "digest": digest("a"), "at": "2026-01-09T12:00:00Z"}
    skipped = {"skip-digests": f"{digest('c')},{digest('d')}"}
    rejected = [{"version": "1.3", "reason": "Skipped"}]
    history = [entry(9, "1.0", "a"), entry(8, "1.2", "c")]
    body = bundle(annotations=skipped, pin=pin, history=history, available={"rejected": rejected})
    found = events(body)
    assert [(one.change, one.version, one.command) for one in found] == [
        ("Skipped", "1.2", "copyrator unskip bundle apps/shop 1.2"),
        ("Skipped", "1.3", "copyrator unskip bundle apps/shop 1.3"),
        ("Rolled back", "1.0", ""),
        ("Pinned", "1.0", "copyrator unpin bundle apps/shop"),
        ("Deployed", "1.2", ""),
    ]
