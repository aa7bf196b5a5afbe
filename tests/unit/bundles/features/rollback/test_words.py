"""What commands, the page and notices say of a Bundle: pins and skipped digests."""

from __future__ import annotations

from tests.unit.cli.view.test_bundle import READY, bundle, described, pending, view_of
from tests.unit.cli.view.test_timeline import bundle as with_history
from tests.unit.cli.view.test_timeline import digest, entry, events

from copyrator.cli.view.overview import State, bundle_row
from copyrator.cli.view.why_bundle import explain_bundle

PINNED = {"version": "1.0.0", "digest": f"sha256:{'a' * 64}", "at": "2026-01-02T11:00:00Z"}


def test_a_rollback_is_shown_with_the_command_that_ends_it() -> None:
    told = [READY, pending("Pinned", "1.0.0 is pinned")]
    body = bundle(pin=PINNED, conditions=told)
    view = view_of(body)
    assert view.reason == "Pinned"
    assert view.trouble == "1.0.0 is pinned"
    ends = "copyrator unpin bundle apps/shop"
    assert f"1.0.0 (aaaaaaaaaaaa), for 60m; {ends}" in described(body, "Pinned")[0]
    line = f"  pin: passed: only 1.0.0 (aaaaaaaaaaaa), for 60m, is deployed; {ends}"
    assert line in explain_bundle(view)
    assert bundle_row(view).state is State.WAITING
    assert bundle_row(view).reason == "Pinned"


def test_a_refused_pin_is_shown_and_a_former_one_beside_it() -> None:
    told = [READY, pending("PinRefused", "The annotation is refused", "False")]
    body = bundle(pin={"refused": "9.9.9 isn't\x1b in the history"}, conditions=told)
    view = view_of(body)
    assert view.reason == "PinRefused"
    assert view.trouble == "The annotation is refused"
    (line,) = described(body, "Pin refused")
    assert "9.9.9 isn't" in line
    assert "\x1b" not in line
    assert any("pin: refused, PinRefused: 9.9.9" in line for line in explain_bundle(view))
    both = bundle(pin={**PINNED, "refused": "no"}, conditions=told)
    assert len(described(both, "Pinned", "Pin refused")) == 2


def test_a_pin_and_skipped_digests_have_the_command_that_ends_them() -> None:
    pin = {"version": "1.0", "digest": digest("a"), "at": "2026-01-09T12:00:00Z"}
    skipped = {"skip-digests": f"{digest('c')},{digest('d')}"}
    rejected = [{"version": "1.3", "reason": "Skipped"}]
    pinned = entry(9, "1.0", "a", cause="Rollback", by="field manager copyrator-cli")
    history = [pinned, entry(8, "1.2", "c"), entry(7, "1.0", "a")]
    body = with_history(
        annotations=skipped, pin=pin, history=history, available={"rejected": rejected}
    )
    found = events(body)
    assert [(one.change, one.version, one.command) for one in found] == [
        ("Skipped", "1.2", "copyrator unskip bundle apps/shop 1.2"),
        ("Skipped", "1.3", "copyrator unskip bundle apps/shop 1.3"),
        ("Rolled back", "1.0", ""),
        ("Pinned", "1.0", "copyrator unpin bundle apps/shop"),
        ("Deployed", "1.2", ""),
        ("Deployed", "1.0", ""),
    ]
    assert list(found[2].notes) == ["Rollback, by field manager copyrator-cli"]
    del pinned["cause"]  # that the digest was deployed before, and is pinned, doesn't say why
    assert events(body)[2].change == "Deployed"
