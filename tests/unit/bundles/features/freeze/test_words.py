"""What commands, the page and notices say of a Bundle: freezes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.cli.view.objects_seen import bundle as bundle_seen
from tests.unit.cli.view.objects_seen import seen
from tests.unit.cli.view.test_bundle import NOW, READY, bundle, condition, glance, pending, view_of
from tests.unit.cli.view.test_why_bundle import UNREAD
from tests.unit.notify.test_transitions import of_bundle, one

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.notices import About
from copyrator.api.text import detail_lines
from copyrator.bundles.features.freeze.fields import Freeze, in_force
from copyrator.cli.view.bundle import BundleView, describe_bundle
from copyrator.cli.view.overview import State, overview
from copyrator.cli.view.why_bundle import list_steps


def test_a_list_says_which_wait_for_a_freeze() -> None:
    frozen = {"name": "freeze", "state": "Waiting", "reason": "Frozen"}
    assert glance(READY, pending("Frozen"), gates=[frozen]) == ("Frozen", "it waits")
    assert glance(condition("Ready", "Unknown", "Frozen"), gates=[frozen])[0] == "Frozen"
    window = {"name": "window", "state": "Waiting", "reason": "OutsideWindow"}
    assert glance(READY, pending("OutsideWindow"), gates=[window])[0] == "waiting: OutsideWindow"
    for gates in ("junk", ["junk", {"name": "window"}], [{**frozen, "state": "Passed"}]):
        assert glance(READY, gates=gates)[0] == "Deployed"


def test_a_freeze_in_force_is_described() -> None:
    freezes = [
        Freeze(namespace="apps", reason="a release"),
        Freeze(namespace="apps", reason="over", until=NOW),
    ]
    view = replace(view_of(bundle()), beside=in_force(freezes, NOW))
    found = [one for one in describe_bundle(view) if one.label == "Frozen"]
    assert detail_lines(found) == ["Frozen:        namespace apps is frozen: a release"]


def test_a_freeze_that_nothing_waits_for_yet_is_a_step() -> None:
    body = {
        "metadata": {"name": "shop", "namespace": "apps"},
        "spec": {"registry": "r.example.com", "repo": "shop"},
    }
    ends = NOW + timedelta(hours=2)
    view = BundleView(body, NOW, UNREAD, (Freeze(namespace="apps", until=ends),))
    assert isinstance(view.spec, BundleSpec)
    (found,) = [one for one in list_steps(view, view.spec) if one.name == "freeze"]
    assert (found.state, found.until) == ("waiting", "2026-01-02T14:00:00Z")


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
    known = seen(bundle_seen("a"))
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


def test_a_freeze_is_told_where_something_waits_for_it():
    gate = {"name": "freeze", "state": "Waiting", "reason": "Frozen", "message": "holidays"}
    assert one(of_bundle(gates=[gate]), About.FROZEN).why == "holidays"
    assert of_bundle(gates=[{**gate, "state": "Passed"}]).holding == ()
