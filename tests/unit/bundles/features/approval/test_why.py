"""What `why` says: approval."""

import pytest
from tests.unit.cli.view.test_why_bundle import (
    AGE,
    APPROVAL,
    NO_SIGNATURE,
    NOW,
    PASSED,
    WAITS,
    gates,
    read,
)

from copyrator.cli.view.why_bundle import explain_next, next_chance

HELD_BACK = (
    "  version: refused: tags of r.example.com/shop match 1.*, but none may be deployed now "
    "(see below)."
)

WINDOW = {
    "name": "window",
    "state": "Waiting",
    "reason": "OutsideWindow",
    "message": "opens on Monday",
    "until": "2026-01-02T14:00:00Z",
}

SIGNED = {"name": "signature", "state": "Passed", "message": "spec.verify: signed by ann"}

UNSIGNED = {
    "name": "signature",
    "state": "Refused",
    "reason": "Unsigned",
    "message": "sha256:0 has no signature",
}

FREE = [
    "  version: passed: 1.* of r.example.com/shop resolves to 1.2 (0123456789ab).",
    "  downgrade: passed.",
    "  quarantine: passed.",
]


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        ({}, FREE),
        (
            {"gates": [{"name": "signature", "state": "Passed"}, WINDOW, APPROVAL]},
            [
                *FREE,
                "  signature: passed.",
                "  window: waiting, OutsideWindow: opens on Monday; ends in 2h.",
                "  approval: refused, PlanRejected: by ann.",
            ],
        ),
        (
            {"gates": [SIGNED, UNSIGNED]},
            [
                *FREE,
                "  signature: passed: spec.verify: signed by ann.",
                "  signature: refused, Unsigned: sha256:0 has no signature.",
            ],
        ),
        (
            {"gates": [{**WAITS, "reason": "PlanFailed", "message": "no values"}]},
            [
                *FREE,
                "  approval: waiting, PlanFailed: no values; the plan is made again in 2h.",
            ],
        ),
        (
            {"gates": [WAITS]},
            [
                *FREE,
                "  approval: waiting, AwaitingApproval: plan 1 waits; the plan expires in 2h.",
            ],
        ),
        (
            {"suspend": True},
            [
                *FREE,
                (
                    "  suspend: refused: spec.suspend is true: the registry is polled, but nothing "
                    "is deployed; copyrator resume bundle apps/shop"
                ),
            ],
        ),
        (
            {"annotations": {"operator.werf.dev/disable-autoupdate": "x"}},
            [
                (
                    "  operator.werf.dev/disable-autoupdate: refused: the annotation stops polls "
                    "and deploys until it is removed."
                ),
                *FREE,
            ],
        ),
        (
            {"attempted": {"version": "1.2", "outcome": "Failed", "failures": 2}},
            [*FREE[:2], "  quarantine: refused: 1.2 failed 2 times."],
        ),
        (
            {"attempted": {"version": "1.2", "outcome": "Failed", "failures": 1}},
            FREE,
        ),
        (
            {
                "available": {
                    "time": "2026-01-02T11:00:00Z",
                    "rejected": [{"version": "1.1", "reason": "LowerThanDeployed"}],
                },
                "deployed": {"version": "1.3"},
                "conditions": [{"type": "Ready", "status": "False", "reason": "WouldDowngrade"}],
            },
            [
                HELD_BACK,
                (
                    "    rejected 1.1: is lower than the deployed version; to downgrade, set "
                    "spec.version to it"
                ),
                "  downgrade: refused: what is left is lower than the deployed 1.3.",
                "  quarantine: passed.",
            ],
        ),
        (
            {
                "available": {
                    "time": "2026-01-02T11:00:00Z",
                    "rejected": [{"version": "2.0", "reason": "OutOfRange"}],
                },
            },
            [
                "  version: refused: no tag of r.example.com/shop matches 1.*.",
                "    rejected 2.0: isn't in the range 1.*",
                *FREE[1:],
            ],
        ),
        (
            {
                "available": {
                    "time": "2026-01-02T11:00:00Z",
                    "rejected": [
                        {"version": "77", "reason": "NotAVersion", "message": "it has one number"}
                    ],
                },
            },
            [
                "  version: refused: no tag of r.example.com/shop matches 1.*.",
                "    rejected 77: isn't a version: it has one number",
                *FREE[1:],
            ],
        ),
        (
            {"available": {"time": "2026-01-02T11:00:00Z"}, "gates": [NO_SIGNATURE]},
            [
                HELD_BACK,
                *FREE[1:],
                "  signature: refused, Unsigned: has none.",
            ],
        ),
        ({"available": {}}, ["  version: waiting: the registry hasn't answered yet.", *FREE[1:]]),
    ],
)
def test_all_that_stands_between_a_version_and_its_deploy_is_in_one_list(bundle, said):
    assert gates(**bundle) == said


PLAN = {
    "name": "approval",
    "state": "Waiting",
    "reason": "AwaitingApproval",
    "message": "",
    "until": "2026-01-03T12:00:00Z",
}

UNREADY = {"name": "dependsOn", "state": "Waiting", "reason": "DependencyNotReady", "message": ""}

UNSIGNED = {"name": "signature", "state": "Refused", "reason": "Unsigned", "message": ""}


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
