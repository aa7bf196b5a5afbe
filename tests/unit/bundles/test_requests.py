"""Requests of users: each is acted on once, and none is lost."""

import pytest
from tests.replacing import replace

from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.bundles.engine.bundle import (
    DeployRequest,
    acknowledge,
    awaits_reset,
    pending_request,
    record_failed_request,
    reset_patch,
)

REQUESTED = "operator.werf.dev/requestedAt"
FORCED = "operator.werf.dev/forceAt"


@pytest.mark.parametrize(
    ("annotations", "status", "expected"),
    [
        ({}, BundleStatus(), None),
        ({REQUESTED: "a"}, BundleStatus(), DeployRequest(requested_at="a")),
        ({REQUESTED: "a"}, BundleStatus(last_handled_request="a"), None),
        ({REQUESTED: "b"}, BundleStatus(last_handled_request="a"), DeployRequest(requested_at="b")),
        ({REQUESTED: ""}, BundleStatus(), DeployRequest(requested_at="")),
        ({}, BundleStatus(last_handled_request="a"), None),
        ({FORCED: "a"}, BundleStatus(last_handled_request="a"), DeployRequest(force_at="a")),
        ({FORCED: "a"}, BundleStatus(last_handled_force="a"), None),
        ({}, BundleStatus(force_update=1), DeployRequest(force_update=True)),
        ({}, BundleStatus(force_update=0), None),
        ({}, BundleStatus(force_update=2), None),
    ],
)
def test_finds_what_nobody_has_acted_on(
    annotations: dict[str, str], status: BundleStatus, expected: DeployRequest | None
) -> None:
    assert pending_request(annotations, status) == expected


def attempt(outcome: Outcome, request: str) -> BundleStatus:
    return BundleStatus(force_update=1, attempted=Attempted(outcome=outcome, request=request))


@pytest.mark.parametrize(
    ("status", "resets"),
    [
        (attempt(Outcome.RUNNING, "forceUpdate"), True),
        (attempt(Outcome.RUNNING, "requestedAt=x forceUpdate"), True),
        (attempt(Outcome.RUNNING, "requestedAt=forceUpdates"), False),
        (attempt(Outcome.RUNNING, ""), False),
        (attempt(Outcome.SUCCEEDED, "forceUpdate"), False),
        (attempt(Outcome.FAILED, "forceUpdate"), False),
    ],
)
def test_force_update_is_reset_by_the_attempt_that_it_made(
    status: BundleStatus, resets: bool
) -> None:
    assert awaits_reset(status) is resets
    assert (pending_request({}, status) is None) is resets


@pytest.mark.parametrize(
    ("status", "request_then"),
    [
        (attempt(Outcome.RUNNING, "forceUpdate"), "forceUpdate=0"),
        (attempt(Outcome.RUNNING, "forceAt=x forceUpdate"), "forceAt=x forceUpdate=0"),
        (attempt(Outcome.SUCCEEDED, "forceUpdate"), None),
        (BundleStatus(force_update=1), None),
    ],
)
def test_the_attempt_remembers_that_its_force_was_set_back(
    status: BundleStatus, request_then: str | None
) -> None:
    changes = {step["path"]: step["value"] for step in reset_patch(status) if step["op"] != "test"}

    assert changes.pop("/status/forceUpdate") == 0
    assert changes.get("/status/attempted/request") == request_then


def test_the_patch_holds_only_as_long_as_the_status_is_the_one_that_was_read() -> None:
    patch = reset_patch(attempt(Outcome.RUNNING, "forceAt=x forceUpdate"))

    field, asked = "/status/forceUpdate", "/status/attempted/request"
    assert patch == [
        {"op": "test", "path": field, "value": 1},
        {"op": "replace", "path": field, "value": 0},
        {"op": "test", "path": asked, "value": "forceAt=x forceUpdate"},
        {"op": "replace", "path": asked, "value": "forceAt=x forceUpdate=0"},
    ]


@pytest.mark.parametrize(
    ("request_", "token", "echo"),
    [
        (DeployRequest(), "", (None, None)),
        (DeployRequest("a"), "requestedAt=a", ("a", None)),
        (DeployRequest("", "b"), "requestedAt= forceAt=b", ("", "b")),
        (
            DeployRequest("a", "b", force_update=True),
            "requestedAt=a forceAt=b forceUpdate",
            ("a", "b"),
        ),
    ],
)
def test_a_request_has_its_own_token_and_its_echo(
    request_: DeployRequest, token: str, echo: tuple[str | None, str | None]
) -> None:
    status = acknowledge(BundleStatus(), request_)

    assert request_.token == token
    assert (status.last_handled_request, status.last_handled_force) == echo
    assert acknowledge(status, DeployRequest()) == status


WAITS = BundleStatus(
    last_handled_request="a",
    last_handled_force="b",
    last_failed_request="c",
    last_failed_force="d",
)


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        (DeployRequest(), {}),
        (DeployRequest("a", "b"), {}),
        (DeployRequest("e"), {"last_failed_request": "e"}),
        (DeployRequest(force_at="e"), {"last_failed_force": "e"}),
        (DeployRequest("e", "f"), {"last_failed_request": "e", "last_failed_force": "f"}),
        (DeployRequest("", "b"), {"last_failed_request": ""}),
    ],
)
def test_a_request_that_failed_has_its_echo_unless_it_was_handled(
    request_: DeployRequest, changes: dict[str, str]
) -> None:
    assert record_failed_request(WAITS, request_) == replace(WAITS, **changes)


def test_the_echo_of_a_failure_is_removed_when_a_request_is_handled() -> None:
    assert acknowledge(WAITS, DeployRequest("c")) == replace(
        WAITS, last_handled_request="c", last_failed_request=None
    )
    assert acknowledge(WAITS, DeployRequest(force_at="d")) == replace(
        WAITS, last_handled_force="d", last_failed_force=None
    )
