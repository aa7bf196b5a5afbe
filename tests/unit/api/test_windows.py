"""``spec.windows``: what is valid, and how it is shown."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.windows import Window, WindowsSpec, shown

DEFAULTS = BundleDefaults()


def parsed(windows: Any) -> BundleSpec | InvalidSpec:
    spec = {"registry": "r", "repo": "a", "windows": windows}
    return parse_bundle({"metadata": {"name": "x", "namespace": "y"}, "spec": spec}, DEFAULTS)


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
    found = parsed([window])
    assert isinstance(found, BundleSpec)
    assert found.part(WindowsSpec).windows == (wanted,)
    assert shown(found.part(WindowsSpec).windows) == text


def test_windows_are_shown_one_after_the_other() -> None:
    assert shown((Window(), Window(frozenset({6})))) == "00:00-24:00 UTC; Sun 00:00-24:00 UTC"


def test_without_windows_deploys_begin_at_any_time() -> None:
    found = parsed(None)
    assert isinstance(found, BundleSpec)
    assert found.part(WindowsSpec).windows == ()


@pytest.mark.parametrize(
    ("window", "path", "message"),
    [
        ({"days": ["Monday"]}, "days[0]", "'Monday' isn't a day; use Mon, Tue"),
        ({"days": "Mon"}, "days", "must be a list"),
        ({"from": "9:00"}, "from", "'9:00' isn't a time; write it as 09:00"),
        ({"from": "25:00"}, "from", "isn't a time"),
        ({"from": "09:60"}, "from", "isn't a time"),
        ({"from": 540}, "from", "must be a string"),
        ({"from": "24:00"}, "from", "must be before 24:00"),
        ({"to": "24:01"}, "to", "isn't a time"),
        ({"to": "00:00"}, "to", "must differ from from"),
        ({"from": "09:00", "to": "09:00"}, "to", "must differ from from"),
        ({"timeZone": "Europe/Bielefeld"}, "timeZone", "isn't a known time zone"),
        ({"timeZone": "localtime"}, "timeZone", "isn't a known time zone"),
        ({"timeZone": "../../etc/passwd"}, "timeZone", "isn't a known time zone"),
        ({"timeZone": "Z" * 9999}, "timeZone", "isn't a known time zone"),
        ("09:00", "", "must be a map"),
    ],
)
def test_a_window_that_is_not_valid_is_refused_with_its_place(
    window: Any, path: str, message: str
) -> None:
    found = parsed([window])
    assert isinstance(found, InvalidSpec)
    assert found.path == f"spec.windows[0].{path}".rstrip(".")
    assert message in found.message
    assert len(found.message) < 300


def test_the_number_of_windows_is_limited() -> None:
    assert isinstance(parsed([{"days": ["Mon"]}] * 20), BundleSpec)
    found = parsed([{}] * 21)
    assert found == InvalidSpec("spec.windows", "has 21 items; at most 20 are allowed")
