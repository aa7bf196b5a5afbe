"""What commands say of a Bundle: freeze."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.cli.view.test_bundle import NOW, READY, bundle, condition, glance, pending, view_of

from copyrator.api.text import detail_lines
from copyrator.bundles.features.freeze.fields import Freeze, in_force
from copyrator.cli.view.bundle import (
    describe_bundle,
)


def test_a_list_says_which_wait_for_a_freeze() -> None:
    frozen = {"name": "freeze", "state": "Waiting", "reason": "Frozen"}
    assert glance(READY, pending("Frozen"), gates=[frozen]) == ("Deployed,Frozen", "it waits")
    assert glance(condition("Ready", "Unknown", "Frozen"), gates=[frozen])[0] == "Frozen"
    window = {"name": "window", "state": "Waiting", "reason": "OutsideWindow"}
    assert glance(READY, pending("OutsideWindow"), gates=[window]) == ("Deployed", "")
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
