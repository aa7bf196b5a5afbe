"""The earliest time of a deploy that `why` names."""

from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, parse_status
from copyrator.cli.why_next import next_chance, why_lines

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)  # a Friday
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
        "spec": {"registry": "r.example.com", "repo": "shop", "version": "1.*", **fields},
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
        ([AGE, PLAN], {}),
        ([AGE], {"suspend": True}),
    ],
    ids=["no gate", "none objects", "another Bundle", "refused", "a person", "both", "suspended"],
)
def test_no_time_is_named_where_time_alone_lets_nothing_pass(gates, fields):
    assert next_chance(*read(*gates, **fields)) is None
    assert list(why_lines(*read(*gates, **fields), NOW)) == []


@pytest.mark.parametrize(
    ("gates", "fields", "said"),
    [
        (
            [PASSED, AGE],
            {},
            "2026-01-02T14:00:00Z (Friday), in 2h, when gate age passes.",
        ),
        (
            [AGE],
            {"windows": ALWAYS},
            "2026-01-02T14:00:00Z (Friday), in 2h, when gate age passes.",
        ),
        (
            [AGE],
            {"windows": MONDAYS},
            (
                "2026-01-05T08:00:00Z (Monday 09:00 Europe/Berlin), in 68h, when gates age and "
                "window pass."
            ),
        ),
        (
            [WINDOW],
            {"windows": MONDAYS},
            "2026-01-05T08:00:00Z (Monday), in 68h, when gate window passes.",
        ),
        (
            [{**AGE, "until": "2026-01-05T16:00:00Z"}, WINDOW],
            {"windows": MONDAYS},
            (
                "2026-01-12T08:00:00Z (Monday 09:00 Europe/Berlin), in 236h, when gates age and "
                "window pass."
            ),
        ),
    ],
    ids=["age", "inside", "the window opens later", "the window", "it has closed by then"],
)
def test_the_earliest_deploy_is_when_all_gates_have_passed_and_a_window_is_open(
    gates, fields, said
):
    assert list(why_lines(*read(*gates, **fields), NOW)) == [f"The earliest deploy is at {said}"]
