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


def cells(entries, *heads):
    view = BundleView({"status": {"history": entries}}, datetime(2026, 1, 2, tzinfo=UTC))
    columns = [one for one in history_columns(view) if one.head in heads and not one.wide]
    return [tuple(column.value(one) for column in columns) for one in view.status.past]


def test_what_attempts_were_made_for_is_shown_also_of_those_before_it_was_recorded():
    entries = [
        {"cause": "SpecChanged", "by": "field manager\x1b kubectl-edit"},
        {"cause": "NewVersion", "by": "ann", "approvedBy": "ann"},
        {"correction": True},
        {"approvedBy": "bob", "passedOver": [{"name": "age"}]},
        {},
    ]
    assert cells(entries, "CAUSE", "NOTE") == [
        ("SpecChanged", r"by field manager\x1b kubectl-edit"),
        ("NewVersion", "approved by ann"),
        ("Correction", ""),
        ("-", "approved by bob; passed over age"),
        ("-", ""),
    ]
    assert cells([{"outcome": "Failed"}], "CAUSE", "NOTE") == [()]


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
        "by": "field manager " + "x" * 40,
        "cause": "ValuesChanged",
        "passedOver": [{"name": one} for one in ("age", "promotion", "windows", "freeze")],
    }
    view = BundleView({"status": {"history": [entry, entry]}}, datetime(2026, 1, 2, tzinfo=UTC))
    Table(history_columns(view)).print(view.status.past)
    head, *lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert head.split() == ["WHEN", "VERSION", "DIGEST", "REVISION", "OUTCOME", "CAUSE"]
    row = ["24h", "1.12.3-rc.10", "a" * 12, "120", "Interrupted", "ValuesChanged"]
    by = f"  by field manager {'x' * 40}; passed over age,"
    assert [line.split() for line in lines[::3]] == [row, row]
    assert lines[1::3] == [by, by]
