"""``spec.windows``: what is valid, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.bundles import bundle, parsed

from copyrator.bundles.features.windows.fields import Window, WindowsSpec, shown


@pytest.mark.parametrize(
    ("window", "wanted", "text"),
    [
        ({"from": "00:00"}, Window(), "00:00-24:00 UTC"),
        (
            {"days": ["Mon", "Tue", "Wed"], "from": "09:00", "to": "17:30"},
            Window(frozenset({0, 1, 2}), 540, 1050),
            "Mon-Wed 09:00-17:30 UTC",
        ),
        (
            {"days": ["Sat", "Mon", "Sat"], "to": "06:00", "timeZone": "Asia/Kolkata"},
            Window(frozenset({0, 5}), 0, 360, "Asia/Kolkata"),
            "Mon,Sat 00:00-06:00 Asia/Kolkata",
        ),
        ({"days": ["Mon", "Tue"]}, Window(frozenset({0, 1})), "Mon,Tue 00:00-24:00 UTC"),
        ({"days": ["Tue", "Wed", "Thu"]}, Window(frozenset({1, 2, 3})), "Tue-Thu 00:00-24:00 UTC"),
        (
            {"days": ["Mon", "Wed", "Fri"]},
            Window(frozenset({0, 2, 4})),
            "Mon,Wed,Fri 00:00-24:00 UTC",
        ),
        (
            {"days": ["Fri"], "from": "22:00", "to": "06:00"},
            Window(frozenset({4}), 1320, 360),
            "Fri 22:00-06:00 UTC",
        ),
    ],
)
def test_a_window_has_days_hours_and_a_zone(
    window: dict[str, Any], wanted: Window, text: str
) -> None:
    found = parsed(bundle(windows=[window]))
    assert found.part(WindowsSpec).windows == (wanted,)
    assert shown(found.part(WindowsSpec).windows) == text


def test_windows_are_shown_one_after_the_other() -> None:
    assert shown((Window(), Window(frozenset({6})))) == "00:00-24:00 UTC; Sun 00:00-24:00 UTC"


def test_without_windows_deploys_begin_at_any_time() -> None:
    assert parsed(bundle()).part(WindowsSpec).windows == ()
