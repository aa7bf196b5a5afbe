"""Texts: bounded and on one line; names, times and durations as Kubernetes has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.text import (
    check_api_version,
    check_data_key,
    check_env_name,
    check_kind,
    check_label_key,
    check_label_value,
    check_namespace,
    check_object_name,
    format_duration,
    format_micro_time,
    format_time,
    meant,
    member,
    one_line,
    parse_duration,
    parse_retry_after,
    parse_time,
    printable_start,
    quoted,
    some,
    truncate,
)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (check_namespace, ["a" * 63, "a-1"], ["a" * 64, "", "-a", "a\n"]),
        (check_object_name, ["a" * 253, "a.b-1"], ["a" * 254, "", "a..b", "a\n"]),
        (
            check_label_key,
            ["a" * 63, "a.b/" + "C" * 63, "a" * 253 + "/x", "A_.-z"],
            ["a" * 64, "/x", "x/", "a" * 254 + "/x", "a/b/c", "x\n"],
        ),
        (check_label_value, ["", "a" * 63, "A_.-z"], ["a" * 64, "a b", "x\n"]),
        (check_data_key, ["a" * 253, "...", "-._A1"], ["a" * 254, "", ".", "..", "a\n"]),
        (check_kind, ["A", "A" + "b" * 62], ["A" + "b" * 63, "", "1A", "A-b"]),
        (
            check_api_version,
            ["v1", "a.b/v1", "a" * 250 + "/v1"],
            ["a" * 251 + "/v1", "", "v", "/v1"],
        ),
        (check_env_name, ["A" * 255, "-.a_1", ".a"], ["A" * 256, "", ".", "..", "..a", "1a"]),
    ],
)
def test_a_check_knows_its_limits(
    check: Callable[[str], str | None], good: list[str], bad: list[str]
) -> None:
    assert [check(value) for value in good] == [None] * len(good)
    assert all(check(value) for value in bad)


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quoted("a" * 80), repr("a" * 80)),
        (quoted("a" * 81), repr("a" * 79 + "…")),
        (quoted("abcd", 3), "'ab…'"),
        (truncate("", 5), ""),
        (truncate("abcde", 5), "abcde"),
        (truncate("abcdef", 5), "abcd…"),
        (one_line("a\n b\t\x1b[31mc", 10), "a b [31mc"),
        (one_line("a" * 20, 10), "a" * 9 + "…"),
        # What is far behind isn't looked at, whatever its size.
        (one_line(" " * 19 + "bc", 10), "b"),
        (one_line("\n\n", 10), ""),
        (printable_start("abcde", 5), "abcde"),
        (printable_start("abcdef", 5), "abcde…"),
        (printable_start("a\r\nb", 5), "a  b"),
        (some(["b", "a"], "namespaces"), "2 namespaces (a, b)"),
        (some(["a", "a"], "namespaces"), "1 namespaces (a)"),
        (some(["c", "b", "a"], "namespaces"), "3 namespaces (a, b, …)"),
    ],
)
def test_others_texts_are_bounded_and_printable(shown: str, wanted: str) -> None:
    assert shown == wanted


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("skip", "Skip"),
        ("Adpot", "Adopt"),
        ("Overwrites", "Overwrite"),
        ("x", None),
        ("", None),
        ("adopt" + "x" * 10**6, "Adopt"),
    ],
)
def test_a_suggestion_is_a_word_that_is_alike(word: str, wanted: str | None) -> None:
    said = f"; did you mean {wanted}?" if wanted else ""
    assert meant(word, ["Skip", "Adopt", "Overwrite"]) == said


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("replicas", ".replicas"),
        ("ca-bundle.crt", r".ca-bundle\.crt"),
        ("app.kubernetes.io/name", r".app\.kubernetes\.io/name"),
        ("two words", "['two words']"),
    ],
)
def test_a_key_is_written_as_in_kubectls_jsonpath(key: str, wanted: str) -> None:
    assert member(key) == wanted


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("500ms", 0.5),
        ("1h1m1s", 3661.0),
        ("0" * 31 + "s", 0.0),
        ("0" * 32 + "s", None),
        *((text, None) for text in ("", "5", "s", "5 m", "-5m", "5d", "5m\n", "1e3s", "٣s")),
    ],
)
def test_a_duration_is_read(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (1.5, "1.5s"), (60, "1m"), (5400, "1h30m"), (3601, "1h1s"), (1.23456, "1.235s")],
)
def test_a_duration_is_written_shortly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**7))
def test_what_is_written_is_read_alike(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_the_zone_of_the_machine_means_nothing() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 5, tzinfo=UTC).astimezone(timezone(timedelta(hours=3)))
    assert format_time(moment) == "2026-01-01T00:00:00Z"
    assert format_micro_time(moment) == "2026-01-01T00:00:00.000005Z"
    for text in ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00+09:00"):
        found = parse_time(text)
        assert found == datetime(2026, 1, 1, tzinfo=UTC)
        assert found.tzinfo is UTC


@pytest.mark.parametrize("junk", [None, 5, "", "yesterday", "0001-01-01T00:00:00+23:59", []])
def test_what_is_no_time_is_none(junk: object) -> None:
    assert parse_time(junk) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        (7, 7.0),
        ("-1", -1.0),
        ("inf", float("inf")),
        ("Wed, 25 Nov 2026 00:01:00 GMT", 60.0),
        ("Tue, 24 Nov 2026 23:59:00 GMT", -60.0),
        ("nan", None),
        ("soon", None),
        (None, None),
        ([], None),
        (10**400, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: object, seconds: float | None) -> None:
    assert parse_retry_after(value, {"Date": "Wed, 25 Nov 2026 00:00:00 GMT"}) == seconds


def test_without_the_answers_date_a_retry_after_date_says_nothing() -> None:
    assert parse_retry_after("Wed, 25 Nov 2026 00:01:00 GMT", {}) is None
