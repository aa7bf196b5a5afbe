"""All rules and Bundles in one view, what needs attention first."""

from datetime import UTC, datetime

import pytest
from tests.unit.cli.objects_seen import bundle, rule, seen

from copyrator.cli.overview import State, overview

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def condition(type_, status, reason="R", message="m"):
    return {"type": type_, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (rule("a"), State.GOOD),
        (rule("a", "False", "PartialFailure"), State.FAULT),
        (rule("a", "Unknown", "Progressing"), State.WAITS),
        (rule("a", "True", "NoTargets", message="no namespace matches"), State.WAITS),
        ({**rule("a"), "status": {}}, State.WAITS),
        (bundle("a"), State.GOOD),
        (bundle("a", "False", "DeployFailed"), State.FAULT),
        (bundle("a", conditions=[condition("Drifted", "True")]), State.FAULT),
        (bundle("a", conditions=[condition("Verified", "False")]), State.FAULT),
        (bundle("a", conditions=[condition("Verified", "Unknown")]), State.WAITS),
        (
            bundle("a", conditions=[condition("UpdatePending", "True", "AwaitingApproval")]),
            State.WAITS,
        ),
        (bundle("a", conditions=[condition("UpdatePending", "True", "TooYoung")]), State.GOOD),
    ],
)
def test_the_state_of_an_object(body, state):
    (row,) = overview(seen(body), NOW).all
    assert row.state is state


def test_the_worst_come_first_and_what_is_well_needs_no_attention():
    view = overview(
        seen(
            rule("good"),
            rule("waits", "Unknown", "Progressing"),
            rule("broken", "False", "PartialFailure"),
            bundle("failed", "False", "DeployFailed"),
        ),
        NOW,
    )
    assert [row.name for row in view.all] == ["failed", "broken", "waits", "good"]
    assert [row.name for row in view.attention] == ["failed", "broken", "waits"]
    assert [view.number(state) for state in State] == [2, 1, 1]


def test_copies_are_summed_up_whatever_a_status_has():
    view = overview(
        seen(
            rule("a", copies={"desired": 3, "ready": 2}),
            rule("b", copies={"desired": 4, "ready": 4}),
            rule("c", copies={"desired": "many", "ready": None}),
        ),
        NOW,
    )
    assert (view.right, view.desired) == (6, 7)


def test_a_row_has_the_deployed_and_the_available_version():
    body = bundle("a", deployed={"version": "1.0"}, available={"version": "1.1"})
    (row,) = overview(seen(body), NOW).bundles
    assert (row.shown, row.numbers, row.available, row.since) == ("infra/a", "1.0", "1.1", "60m")
