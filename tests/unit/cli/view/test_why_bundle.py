"""What `why` says of a Bundle: when its registry is polled next, and its gates."""

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from tests.builders.bundles import known
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Available, BundleStatus, Rejected
from copyrator.api.text import detail_lines
from copyrator.bundles.fields import BundleDefaults, parse_bundle, parse_status
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.waiting import find_fault
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import ASSUMED, BundleView, describe_bundle, next_poll
from copyrator.cli.view.why_bundle import explain_bundle, explain_next, list_steps
from copyrator.settings.config import Settings
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)  # a Friday
UNREAD = Installation(settings=Settings(), namespace="copyrator")


def why(body: dict[str, Any], installation: Installation = UNREAD) -> list[str]:
    return list(explain_bundle(BundleView(body, NOW, installation)))


def described(body: dict[str, Any], installation: Installation = UNREAD) -> list[str]:
    return detail_lines(describe_bundle(BundleView(body, NOW, installation)))


@pytest.mark.parametrize(
    ("announced", "seconds"), [(30, 31), (-30, 571), (-630, 571), (-600, 1), (0, 1)]
)
def test_an_announced_time_in_the_past_is_whole_intervals_ago(announced, seconds):
    assert next_poll(NOW + timedelta(seconds=announced), 600, NOW) == seconds


NO_SIGNATURE = {
    "name": "signature",
    "state": "Refused",
    "reason": "Unsigned",
    "message": "has none",
}


def polls(status=None, **installed):
    body = known(**{"nextPollAt": "2026-01-02T11:58:00Z", **(status or {})})
    installation = Installation(settings=Settings(), namespace="copyrator", **installed)
    return [line[15:] for line in why(body, installation) if line.startswith("Next poll:")]


def test_without_an_interval_and_without_the_operators_settings_the_time_is_said_all_the_same():
    (said,) = polls()
    assert said == (
        "in 8m1s, every 10m by default (WERF_OPERATOR_TIMER_INTERVAL of the operator isn't known)"
    )
    assert polls(image="copyrator:1") == ["in 8m1s, every 10m by default"]


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
    body = known(spec, nextPollAt="2026-01-02T11:58:00Z")
    settings = Settings(timer_interval=180.0)
    installation = Installation(settings=settings, namespace="copyrator", image=image)
    assert f"Next poll:     {said}" in described(body, installation)


APPROVAL = {"name": "approval", "state": "Refused", "reason": "PlanRejected", "message": "by ann"}
WAITS = {
    **APPROVAL,
    "state": "Waiting",
    "reason": "AwaitingApproval",
    "message": "plan 1 waits",
    "until": "2026-01-02T14:00:00Z",
}
AVAILABLE = {"version": "1.2", "digest": "sha256:0123456789abcdef", "time": "2026-01-02T11:00:00Z"}


def gates(annotations=None, suspend=False, **status):
    spec = {"version": "1.*", "suspend": suspend, "retry": {"limit": 1}}
    body = known(spec, **{"available": AVAILABLE, **status})
    body["metadata"]["annotations"] = annotations or {}
    lines = why(body)
    begin = next(i for i, line in enumerate(lines) if line.startswith("Checks before the next"))
    return list(takewhile(lambda line: line.startswith("  "), lines[begin + 1 :]))


def test_settings_that_are_withheld_are_said_with_the_remedy():
    said = "the Jobs of a gated Bundle don't get spec.env.PATH. Other variables: remove them."
    one = {"type": "SettingsWithheld", "status": "True", "reason": "NotKnownHarmless"}
    body = known(conditions=[one | {"message": said}])
    assert f"Settings are withheld: {said}" in why(body)
    assert f"    {said}" in list(detail_lines(rows.describe_conditions("bundles", body, NOW)))


UNREACHABLE = {"reason": "RegistryUnreachable", "message": "r.example.com responds with 502"}


def polled(count, ready="True"):
    """A Bundle whose polls fail since a minute."""
    return known(
        conditions=[{"type": "Ready", "status": ready, "reason": "Deployed", "message": "fine"}],
        observedGeneration=1,
        failedPolls={"count": count, "since": "2026-01-02T11:59:00Z"},
        lastError=UNREACHABLE,
    )


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (
            1,
            [
                (
                    "Polls have failed for 60s (1 in a row), the last one with "
                    "RegistryUnreachable: r.example.com responds with 502"
                ),
                "If none succeeds, Ready becomes False in 29m, or sooner with the third failure.",
            ],
        ),
        (
            3,
            [
                (
                    "Polls have failed for 60s (3 or more in a row), the last one with "
                    "RegistryUnreachable: r.example.com responds with 502"
                ),
                "If none succeeds, Ready becomes False in 19m.",
            ],
        ),
    ],
)
def test_failed_polls_are_said_while_ready_is_kept(count, said):
    lines = why(polled(count))
    at = lines.index(said[0])
    assert lines[at : at + 2] == said
    assert BundleView(polled(count), NOW).trouble == (
        "The last poll failed (RegistryUnreachable): r.example.com responds with 502"
    )
    error = "Last error:    RegistryUnreachable: r.example.com responds with 502"
    assert error in described(polled(count))


def test_of_a_suspended_bundle_that_stays_ready_no_time_is_said():
    body = polled(3)
    body["spec"]["suspend"] = True
    lines = list(explain_bundle(BundleView(body, NOW)))
    assert [one[:26] for one in lines if "have failed" in one] == ["Polls have failed for 60s "]
    assert not [one for one in lines if "Ready becomes False" in one]


def test_where_ready_is_false_the_condition_says_it():
    body = polled(3, ready="False")
    assert not [line for line in why(body) if "have failed" in line]
    assert BundleView(body, NOW).trouble == "fine"


@pytest.mark.parametrize(
    ("body", "ready"),
    [(polled(1), False), (polled(0), True), (polled(0, ready="False"), False)],
)
def test_a_reconcile_whose_poll_failed_is_not_ready(body, ready):
    assert bool(find_fault("bundles", body)) is not ready


NOON_OF_SUNDAY = datetime(2026, 1, 4, 12, tzinfo=UTC)


def waiting(name: str, reason: str, until: str) -> dict[str, str]:
    return {"name": name, "state": "Waiting", "reason": reason, "message": "", "until": until}


AGE = waiting("age", "TooYoung", "2026-01-02T14:00:00Z")
CLOSED = waiting("window", "OutsideWindow", "2026-01-05T08:00:00Z")
PASSED = {"name": "signature", "state": "Passed"}
MONDAYS = [{"days": ["Mon"], "from": "09:00", "to": "17:00", "timeZone": "Europe/Berlin"}]
ALWAYS = [{"from": "00:00", "to": "24:00", "timeZone": "Etc/UTC"}]


def read(*gates: dict[str, Any], **fields: Any) -> tuple[BundleSpec, BundleStatus]:
    body = known({"version": "1.*", "minAge": "2h", **fields}, gates=list(gates))
    spec = parse_bundle(body, BundleDefaults())
    assert isinstance(spec, BundleSpec), spec
    return spec, parse_status(body)


@pytest.mark.needs("age", "windows")
@pytest.mark.parametrize(
    ("gates", "fields", "said"),
    [
        (
            [PASSED, AGE],
            {},
            "2026-01-02T14:00:00Z (Friday), in 2h, when it has been known for 2h.",
        ),
        (
            [AGE],
            {"windows": ALWAYS},
            "2026-01-02T14:00:00Z (Friday), in 2h, when it has been known for 2h.",
        ),
        (
            [AGE],
            {"windows": MONDAYS},
            (
                "2026-01-05T08:00:00Z (Monday 09:00 Europe/Berlin), in 68h, when it has been known "
                "for 2h and a window opens."
            ),
        ),
        (
            [CLOSED],
            {"windows": MONDAYS},
            "2026-01-05T08:00:00Z (Monday), in 68h, when a window opens.",
        ),
        (
            [{**AGE, "until": "2026-01-05T16:00:00Z"}, CLOSED],
            {"windows": MONDAYS},
            (
                "2026-01-12T08:00:00Z (Monday 09:00 Europe/Berlin), in 236h, when it has been "
                "known for 2h and a window opens."
            ),
        ),
    ],
    ids=["age", "inside", "the window opens later", "the window", "it has closed by then"],
)
def test_the_earliest_deploy_is_when_all_gates_have_passed_and_a_window_is_open(
    gates, fields, said
):
    assert list(explain_next(*read(*gates, **fields), NOW)) == [f"The earliest deploy is at {said}"]


PROMOTION = waiting("promotion", "NotPromoted", "2026-01-05T13:05:00Z")
FROM = {"bundles": [{"namespace": "staging", "name": "shop"}], "soak": "24h"}


@pytest.mark.needs("promotion", "windows")
def test_a_soak_and_a_window_are_said_together_with_the_version():
    spec, status = read(PROMOTION, windows=MONDAYS, promoteFrom=FROM)
    rejected = (
        Rejected(version="1.5.0", reason="Unsigned"),
        Rejected(version="1.4.2", reason="NotPromoted"),
    )
    status = replace(status, available=Available(version="1.4.1", rejected=rejected))
    assert list(explain_next(spec, status, NOON_OF_SUNDAY)) == [
        (
            "The earliest deploy of 1.4.2 is at 2026-01-05T13:05:00Z (Monday), in 25h, when its "
            "soak of 24h in staging/shop ends."
        )
    ]
    late = {**PROMOTION, "until": "2026-01-02T13:05:00Z"}
    spec, _ = read(windows=MONDAYS, promoteFrom=FROM)
    _, status = read(late, CLOSED, windows=MONDAYS, promoteFrom=FROM)
    assert list(explain_next(spec, status, NOW)) == [
        (
            "The earliest deploy is at 2026-01-05T08:00:00Z (Monday), in 68h, when its soak of 24h "
            "in staging/shop ends and a window opens."
        )
    ]


def steps(spec: dict[str, Any] | None = None, **status: Any) -> list[tuple[str, str]]:
    body = known({"version": "1.*", **(spec or {})}, **{"available": AVAILABLE, **status})
    view = BundleView(body, NOW, UNREAD)
    assert isinstance(view.spec, BundleSpec)
    return [(one.name, str(one.state)) for one in list_steps(view, view.spec)]


CHECKS = [("version", "passed"), ("downgrade", "passed"), ("quarantine", "passed")]
PINNED = [CHECKS[0], ("pin", "passed"), *CHECKS[1:]]
OLDER = {"version": "1.1", "digest": f"sha256:{'1' * 64}"}
THERE = {"version": "1.2", "digest": AVAILABLE["digest"], "time": "2026-01-02T11:00:00Z"}


@pytest.mark.needs("age", "approval", "rollback")
@pytest.mark.parametrize(
    ("spec", "status", "said"),
    [
        ({}, {"deployed": THERE}, [*CHECKS, ("deploy", "passed")]),
        ({}, {"deployed": {**THERE, "digest": "sha256:1"}}, [*CHECKS, ("deploy", "waiting")]),
        ({}, {"deployed": OLDER, "pin": OLDER}, [*PINNED, ("deploy", "passed")]),
        ({}, {"deployed": THERE, "pin": OLDER}, [*PINNED, ("deploy", "waiting")]),
        ({}, {"attempted": {"outcome": "Running"}}, [*CHECKS, ("deploy", "waiting")]),
        ({}, {"attempted": {"outcome": "Failed"}}, [*CHECKS, ("deploy", "failed")]),
        (
            {"minAge": "1h", "approval": {"mode": "Always"}},
            {"gates": [WAITS], "deployed": THERE},
            [
                *CHECKS,
                ("age", "not reached"),
                ("approval", "waiting"),
                ("deploy", "not reached"),
            ],
        ),
        (
            {"suspend": True},
            {"gates": [{"name": "freeze", "state": "Passed"}], "deployed": THERE},
            [*CHECKS, ("suspend", "refused"), ("freeze", "passed"), ("deploy", "not reached")],
        ),
        (
            {},
            {"available": {}},
            [("version", "waiting"), *CHECKS[1:], ("deploy", "not reached")],
        ),
    ],
)
def test_steps_lead_from_the_version_to_its_deploy_in_the_order_of_the_gates(
    spec: dict[str, Any], status: dict[str, Any], said: list[tuple[str, str]]
) -> None:
    assert steps(spec, **status) == said


@given(JSON)
def test_any_gates_have_steps(gates: Any) -> None:
    steps(gates=gates)
    steps(gates=[{"name": gates, "state": gates}, gates], attempted=gates)
