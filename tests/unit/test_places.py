"""The figures of tests/places.toml that are counted in the source."""

from __future__ import annotations

import places


def test_the_source_has_no_more_places_than_are_stored() -> None:
    differences = places.differences(places.count_source())
    assert differences == [], "\n".join(differences)


def test_every_stored_figure_is_counted_somewhere() -> None:
    while_running = {"modules_to_job", "visits", "times_back_up", "rule_to_copy"}
    counted = places.count_source().keys() | while_running
    assert places.load()["figures"].keys() == counted
