"""What lists and the page show first: freeze."""

from datetime import timedelta

import pytest
from tests.unit.cli.view.objects_seen import bundle, seen
from tests.unit.cli.view.test_overview import NOW

from copyrator.bundles.features.freeze.fields import Freeze
from copyrator.cli.view.overview import State, overview


@pytest.mark.parametrize(
    ("freeze", "reason", "message"),
    [
        (Freeze(reason="holidays"), "Deployed,Frozen", "all namespaces are frozen: holidays"),
        (Freeze(namespace="infra", reason="a"), "Deployed,Frozen", "namespace infra is frozen: a"),
        (Freeze(namespace="other"), "Deployed", ""),
        (Freeze(until=NOW), "Deployed", ""),
    ],
    ids=["all", "its own", "another", "over"],
)
def test_a_freeze_is_seen_also_where_nothing_waits(freeze, reason, message):
    known = seen(bundle("a"))
    known.beside = [freeze]
    (row,) = overview(known, NOW).all
    assert (row.state, row.reason, row.message) == (State.READY, reason, message)


def test_a_freeze_has_its_parts_and_the_command_that_ends_it():
    known = seen()
    until = NOW + timedelta(hours=3)
    known.beside = [
        Freeze(namespace="team-a", who="ann", since=NOW - timedelta(minutes=5)),
        Freeze(reason="holidays", until=until),
        Freeze(namespace="over", until=NOW),
    ]
    whole, one = overview(known, NOW).banners
    assert whole.title + whole.text == "Deploys are frozen in all namespaces: holidays"
    assert whole.notes == ["until 2026-01-02T15:00:00Z (in 3h)"]
    assert whole.command == "copyrator thaw --all"
    assert one.title + one.text == (
        "Deploys are frozen in the namespace team-a; no reason is given"
    )
    assert one.notes == [
        *("By ann", "since 2026-01-02T11:55:00Z (5m ago)", "until somebody ends it"),
    ]
    assert one.command == "copyrator thaw -n team-a"
