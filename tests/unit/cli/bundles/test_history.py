"""What `history` says of the newest attempt."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.text import Text

from copyrator.cli.bundles.logs import history_columns, last_failure
from copyrator.cli.core.output import Table
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
    (column,) = (one for one in history_columns(view) if one.head == "NOTE")
    assert [column.value(one) for one in view.status.past] == [
        "correction of drift",
        "passed over age",
    ]


def test_rows_with_all_that_there_is_to_say_arent_broken_in_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    entry = {
        "time": "2026-01-01T00:00:00Z",
        "version": "1.12.3-rc.10",
        "digest": "sha256:" + "a" * 64,
        "revision": 120,
        "outcome": "Interrupted",
        "reason": "ReleaseNotAccepted",
        "approvedBy": "oidc:jane.doe@company.example.com",
        "correction": True,
        "passedOver": [{"name": one} for one in ("age", "promotion", "windows", "freeze")],
    }
    view = BundleView({"status": {"history": [entry, entry]}}, datetime(2026, 1, 2, tzinfo=UTC))
    Table(history_columns(view)).print(view.status.past)
    head, *lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert head.split() == ["WHEN", "VERSION", "DIGEST", "OUTCOME", "APPROVED", "BY"]
    row = ["24h", "1.12.3-rc.10", "a" * 12, "Interrupted", "oidc:jane.doe@company.example.com"]
    note = "  correction of drift; passed over age, promotion, windows, freeze"
    assert [line.split() for line in lines[::2]] == [row, row]
    assert lines[1::2] == [note, note]
