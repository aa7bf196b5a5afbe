"""What `why` says of a Bundle: when its registry is polled next, and its gates."""

from datetime import UTC, datetime, timedelta

import pytest

from copyrator.cli.describe import bundle_lines
from copyrator.cli.installation import Installation
from copyrator.cli.why_bundle import ASSUMED, explain_bundle, next_poll
from copyrator.settings.config import Settings

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("announced", "seconds"), [(30, 31), (-30, 571), (-630, 571), (-600, 1), (0, 1)]
)
def test_an_announced_time_in_the_past_is_whole_intervals_ago(announced, seconds):
    assert next_poll(NOW + timedelta(seconds=announced), 600, NOW) == seconds


def polls(**installed):
    body = {
        "metadata": {"name": "shop", "namespace": "apps", "generation": 1},
        "spec": {"registry": "r.example.com", "repo": "shop"},
        "status": {"nextPollAt": "2026-01-02T11:58:00Z"},
    }
    installation = Installation(settings=Settings(), namespace="copyrator", **installed)
    return [line for line in explain_bundle(body, installation, NOW) if "polled" in line]


def test_without_an_interval_and_without_the_operators_settings_the_time_is_said_all_the_same():
    (said,) = polls()
    assert said == (
        "The registry is polled every 10m by default (WERF_OPERATOR_TIMER_INTERVAL of the operator "
        "isn't known); next poll in 8m1s."
    )
    assert polls(image="copyrator:1") == ["The registry is polled every 10m; next poll in 8m1s."]


@pytest.mark.parametrize(
    ("spec", "image", "said"),
    [
        ({}, "copyrator:1", "in 1m1s, every 3m by default"),
        ({"interval": "5m"}, "copyrator:1", "in 3m1s, every 5m"),
        ({"interval": "5m"}, None, "in 3m1s, every 5m"),
        ({}, None, f"in 1m1s, every 3m{ASSUMED}"),
    ],
)
def test_the_next_poll_is_by_the_operators_interval(spec, image, said):
    body = {
        "metadata": {"name": "shop", "namespace": "apps", "generation": 1},
        "spec": {"registry": "r.example.com", "repo": "shop", **spec},
        "status": {"nextPollAt": "2026-01-02T11:58:00Z"},
    }
    settings = Settings(timer_interval=180.0)
    installation = Installation(settings=settings, namespace="copyrator", image=image)
    assert f"Next poll:     {said}" in list(bundle_lines(body, NOW, installation))


def test_the_gates_are_named_in_their_order_with_what_they_wait_for():
    gates = [
        {"name": "signature", "state": "Passed"},
        {
            "name": "window",
            "state": "Waiting",
            "reason": "OutsideWindow",
            "message": "opens on Monday",
            "until": "2026-01-02T14:00:00Z",
        },
        {"name": "approval", "state": "Refused", "reason": "PlanRejected", "message": "by ann"},
    ]
    body = {
        "metadata": {"name": "shop", "namespace": "apps", "generation": 1},
        "spec": {"registry": "r.example.com", "repo": "shop"},
        "status": {"gates": gates},
    }
    installation = Installation(settings=Settings(), namespace="copyrator", image=None)
    said = [line for line in explain_bundle(body, installation, NOW) if line.startswith("Gate ")]
    assert said == [
        "Gate signature: passed.",
        "Gate window: Waiting, OutsideWindow: opens on Monday; passes in 2h.",
        "Gate approval: Refused, PlanRejected: by ann.",
    ]
