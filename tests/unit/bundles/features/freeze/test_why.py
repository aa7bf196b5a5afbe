"""What `why` says: freeze."""

from datetime import timedelta

from tests.unit.cli.view.test_why_bundle import NOW, UNREAD

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.features.freeze.fields import Freeze
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.why_bundle import list_steps


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
