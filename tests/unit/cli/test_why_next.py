"""The earliest time of a deploy that `why` names."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import Available, BundleStatus, Rejected, parse_status
from copyrator.cli.view.why_bundle import explain_next, next_chance

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)  # a Friday
NOON_OF_SUNDAY = datetime(2026, 1, 4, 12, tzinfo=UTC)
AGE = {
    "name": "age",
    "state": "Waiting",
    "reason": "TooYoung",
    "message": "",
    "until": "2026-01-02T14:00:00Z",
}
WINDOW = {
    "name": "window",
    "state": "Waiting",
    "reason": "OutsideWindow",
    "message": "",
    "until": "2026-01-05T08:00:00Z",
}
PLAN = {
    "name": "approval",
    "state": "Waiting",
    "reason": "AwaitingApproval",
    "message": "",
    "until": "2026-01-03T12:00:00Z",
}
UNREADY = {"name": "dependsOn", "state": "Waiting", "reason": "DependencyNotReady", "message": ""}
UNSIGNED = {"name": "signature", "state": "Refused", "reason": "Unsigned", "message": ""}
PASSED = {"name": "signature", "state": "Passed"}
MONDAYS = [{"days": ["Mon"], "from": "09:00", "to": "17:00", "timeZone": "Europe/Berlin"}]
ALWAYS = [{"from": "00:00", "to": "24:00", "timeZone": "Etc/UTC"}]


def read(*gates: dict[str, Any], **fields: Any) -> tuple[BundleSpec, BundleStatus]:
    body = {
        "metadata": {"name": "shop", "namespace": "apps", "generation": 1},
        "spec": {
            "registry": "r.example.com",
            "repo": "shop",
            "version": "1.*",
            "minAge": "2h",
            **fields,
        },
        "status": {"gates": list(gates)},
    }
    spec = parse_bundle(body, BundleDefaults())
    assert isinstance(spec, BundleSpec), spec
    return spec, parse_status(body)


@pytest.mark.parametrize(
    ("gates", "fields"),
    [
        ([], {}),
        ([PASSED], {}),
        ([AGE, UNREADY], {}),
        ([AGE, UNSIGNED], {}),
        ([PLAN], {}),
        ([{**PLAN, "reason": "PlanFailed"}], {}),
        ([AGE, PLAN], {}),
        ([AGE], {"suspend": True}),
    ],
    ids=[
        "no gate",
        "none objects",
        "another Bundle",
        "refused",
        "a person",
        "a plan",
        "both",
        "suspended",
    ],
)
def test_no_time_is_named_where_time_alone_lets_nothing_pass(gates, fields):
    assert next_chance(*read(*gates, **fields)) is None
    assert list(explain_next(*read(*gates, **fields), NOW)) == []


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
            [WINDOW],
            {"windows": MONDAYS},
            "2026-01-05T08:00:00Z (Monday), in 68h, when a window opens.",
        ),
        (
            [{**AGE, "until": "2026-01-05T16:00:00Z"}, WINDOW],
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


PROMOTION = {
    "name": "promotion",
    "state": "Waiting",
    "reason": "NotPromoted",
    "message": "",
    "until": "2026-01-05T13:05:00Z",
}
FROM = {"bundles": [{"namespace": "staging", "name": "shop"}], "soak": "24h"}


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
    _, status = read(late, WINDOW, windows=MONDAYS, promoteFrom=FROM)
    assert list(explain_next(spec, status, NOW)) == [
        (
            "The earliest deploy is at 2026-01-05T08:00:00Z (Monday), in 68h, when its soak of 24h "
            "in staging/shop ends and a window opens."
        )
    ]


def test_many_sources_are_not_all_named():
    many = {"bundles": [{"name": f"b{n}"} for n in range(5)], "soak": "1h"}
    (line,) = explain_next(*read(PROMOTION, promoteFrom=many), NOW)
    assert "its soak of 1h in apps/b0, apps/b1, apps/b2 and 2 more ends" in line
