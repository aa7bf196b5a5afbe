"""What `history` says of the newest attempt."""

import pytest

from copyrator.cli.get.history import last_failure

BODY = {"status": {"attempted": {"job": "shop-2", "message": "create: Pod/bad failed: no\x1b[2J"}}}


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
    assert last_failure(BODY, {"version": "1.1.0", "outcome": outcome, "job": job}) == lines


def test_without_a_message_nothing_is_added():
    assert last_failure({"status": {}}, {"outcome": "Failed"}) == []
