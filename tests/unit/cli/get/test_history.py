"""What `history` says of the newest attempt."""

from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.cli.get.history import history_columns, last_failure
from copyrator.cli.view.bundle import BundleView

ATTEMPT = {"job": "shop-2", "message": "create: Pod/bad failed: no\x1b[2J"}


def failure(attempted: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    body = {"status": {"attempted": attempted, "history": [entry]}}
    return last_failure(BundleView(body, datetime(2026, 1, 2, tzinfo=UTC)))


@pytest.mark.parametrize(
    ("outcome", "job", "lines"),
    [
        ("Failed", "shop-2", [r"1.1.0: create: Pod/bad failed: no\x1b[2J"]),
        ("Interrupted", "shop-2", [r"1.1.0: create: Pod/bad failed: no\x1b[2J"]),
        ("Succeeded", "shop-2", []),
        ("Failed", "shop-1", []),  # another attempt runs
    ],
)
def test_the_message_of_a_newest_attempt_that_failed_is_shown(outcome, job, lines):
    assert failure(ATTEMPT, {"version": "1.1.0", "outcome": outcome, "job": job}) == lines


def test_without_a_message_nothing_is_added():
    assert failure({}, {"outcome": "Failed"}) == []


def test_a_correction_and_a_forced_deploy_are_named():
    entries = [
        {"outcome": "Succeeded", "correction": True},
        {"outcome": "Succeeded", "correction": False, "passedOver": [{"name": "age"}]},
    ]
    view = BundleView({"status": {"history": entries}}, datetime(2026, 1, 2, tzinfo=UTC))
    (column,) = (one for one in history_columns(view) if one.head == "OUTCOME")
    assert [column.value(one) for one in view.status.past] == [
        "Succeeded (correction)",
        "Succeeded (passed over age)",
    ]
