"""What `freeze` takes, and what it refuses before it asks a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner

from copyrator.api.freeze import MAX_REASON
from copyrator.cli import cli
from copyrator.cli.bundles.freeze import _Until


def test_an_end_is_a_duration_from_now_or_a_time() -> None:
    before = datetime.now(UTC)
    found = _Until().convert("1h30m", None, None)
    assert timedelta(minutes=90) <= found - before < timedelta(minutes=91)
    late = "2036-12-31T19:00:00+01:00"
    assert _Until().convert(late, None, None) == datetime(2036, 12, 31, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tomorrow", "is neither a duration"),
        ("2d", "is neither a duration"),
        ("2036-12-31T18:00:00", "an RFC 3339 time with its zone"),
        ("2036-12-31", "an RFC 3339 time with its zone"),
        ("0s", "isn't in the future"),
        ("2020-01-01T00:00:00Z", "isn't in the future"),
    ],
)
def test_other_ends_are_refused(text: str, says: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        _Until().convert(text, None, None)
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing option '--reason'"),
        (["--reason", " \n "], "--reason is empty"),
        (["--reason", "x" * (MAX_REASON + 1)], f"--reason is longer than {MAX_REASON} characters"),
    ],
)
def test_a_freeze_needs_a_reason(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(cli, ["freeze", "-n", "team", *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert says in done.output
