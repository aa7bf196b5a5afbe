"""The overview in a terminal."""

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from rich.cells import cell_len
from rich.console import Console
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.cli.get.top import _KEY, Scroll, document, rendered

UP, DOWN, PAGE_UP, PAGE_DOWN = b"\x1b[A", b"\x1b[B", b"\x1b[5~", b"\x1b[6~"
HOME, END = b"\x1b[H", b"\x1b[F"


def shown(*bodies, width=80, scroll=None, **more):
    """The lines of a terminal."""
    out = Console(width=width, height=24, highlight=False, color_system=None)
    with out.capture() as captured:
        out.print(rendered(replace(seen(*bodies), **more), out, 24, scroll))
    lines = captured.get().splitlines()
    assert all(cell_len(line) <= width for line in lines)
    return lines


def test_that_the_operator_is_down_is_the_first_line():
    lines = shown(rule("a"), down=["The operator is down."], faults=["no answer"])
    assert lines[:2] == ["The operator is down.", "This may be out of date: no answer"]
    known = replace(seen(), down=["The operator is down."])
    assert document(known, datetime.now(UTC))["outdated"] == ["The operator is down."]


def test_the_certificate_that_ends_first_is_in_the_head():
    def ends(day):
        when = f"2020-02-{day}T00:00:00Z"
        return rule(f"r{day}", certificates=[{"source": "infra/tls", "key": "a", "notAfter": when}])

    head = shown(ends("02"), ends("01"), width=120)[1]
    said = "First certificate to expire: in infra/tls, key a expired 2020-02-01T00:00:00Z ("
    assert head.startswith(said)
    assert not any("certificate" in line for line in shown(rule("a")))


def test_what_is_suspended_is_counted_apart_where_there_is_any():
    text = "suspended; before: PartialFailure: quota"
    lines = shown(rule("a", "False", "Suspended", message=text), rule("b"), width=120)
    assert lines[0].startswith("0 Failing   0 Waiting   1 Suspended   1 Ready   ")
    (line,) = (line for line in lines if line.startswith("Suspended "))
    assert line.split()[:4] == ["Suspended", "rule", "infra/a", "Suspended"]
    assert line.endswith(text)
    assert shown(rule("b"))[0].startswith("0 Failing   0 Waiting   1 Ready   ")


def test_nothing_that_others_wrote_moves_the_cursor():
    lines = shown(rule("a", "False", "\x1b[2JGone", message="\x1b]0;title\x07 new\nline"))
    text = "".join(lines)
    assert "\x1b" not in text
    assert "\\x1b[2JGone" in text


MANY = [rule(f"r{number:03}") for number in range(100)]
ROOM = 20
"""Rows in 24 lines: the counts, an empty line, the heads and the last line are the others."""


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ([], 0),
        ([DOWN], 1),
        ([b"\x1bOB", b"j", UP], 1),
        ([UP, b"k", PAGE_UP], 0),
        ([PAGE_DOWN], ROOM),
        ([b" ", PAGE_DOWN, PAGE_UP], ROOM),
        ([END], 100 - ROOM),
        ([b"G", DOWN, PAGE_DOWN, UP], 99 - ROOM),
        ([END, HOME], 0),
        ([b"x", b"\x1b[C"], 0),
    ],
)
def test_keys_scroll_and_never_past_the_ends(keys, first):
    scroll = Scroll()
    lines = shown(*MANY, scroll=scroll)
    for key in keys:
        scroll.press(key)
        lines = shown(*MANY, scroll=scroll)
    found = [line.split()[2] for line in lines if line.startswith("Ready ")]
    assert found == [f"infra/r{number:03}" for number in range(first, first + ROOM)]
    assert len(lines) == 24
    assert lines[-1].startswith(f"{first + 1} to {first + ROOM} of 100")
    assert lines[-1].endswith("q quits")


def test_a_screen_with_room_for_all_only_says_how_to_quit():
    assert shown(rule("a"))[-1] == "q quits"


def test_rows_that_vanish_leave_no_empty_screen():
    scroll = Scroll()
    shown(*MANY, scroll=scroll)
    scroll.press(END)
    assert [line for line in shown(rule("a"), scroll=scroll) if line.startswith("Ready ")]


def test_keys_that_come_at_once_are_told_apart():
    assert _KEY.findall(b"j\x1b[B\x1b[6~\x1bOAq") == [b"j", DOWN, PAGE_DOWN, b"\x1bOA", b"q"]
    assert _KEY.findall(b"\x1b") == [], "a lone Escape is no key"


def test_programs_get_values():
    ends = {"source": "infra/tls", "key": "tls.crt", "notAfter": "2020-02-01T00:00:00Z"}
    snapshot = seen(
        rule("a", "False", "PartialFailure", message="quota", certificates=[ends]), bundle("b")
    )
    found = document(snapshot, datetime(2026, 1, 1, tzinfo=UTC))
    assert found["counts"] == {"failing": 1, "waiting": 0, "suspended": 0, "ready": 1}
    first, second = found["items"]
    assert (first["object"]["name"], first["state"], first["reason"]) == (
        "a", "Failing", "PartialFailure",
    )  # fmt: skip
    assert first["message"] == "quota"
    assert set(first["copies"]) == {"desired", "ready", "failed", "conflicts", "pending"}
    assert second["object"]["kind"] == "Bundle"
    assert second["deployed"] is None or set(second["deployed"]) == {"version", "digest"}
    (certificate,) = found["certificates"]
    assert certificate == {**ends, "rule": {"namespace": "infra", "name": "a"}, "state": "expired"}


LACKS = "the chart lacks dependencies that werf would download at each run"
LONG = "registry-pull-secrets-of-all-teams"


@pytest.mark.parametrize(
    ("names", "reason", "message", "lines"),
    [
        pytest.param(
            ["a"],
            "Synced",
            "quota",
            [
                "STATUS   NAME          REASON  SINCE  COPIES/VERSION  MESSAGE",
                "Failing  rule infra/a  Synced  AGE    0/0             quota",
            ],
            id="room-for-all",
        ),
        pytest.param(
            ["registry-pull-secrets", "registry-pull-secrets-team"],
            "Synced",
            LACKS,
            [
                "STATUS   NAME                                   REASON  MESSAGE",
                "Failing  rule infra/registry-pull-secrets       Synced  the chart lacks depende…",
                "Failing  rule infra/registry-pull-secrets-team  Synced  the chart lacks depende…",
            ],
            id="names-that-begin-alike",
        ),
        pytest.param(
            [f"{LONG}-a", f"{LONG}-b"],
            "DependenciesNotVendored",
            LACKS,
            [
                "STATUS   NAME                   REASON                  MESSAGE",
                "Failing  rule infra…ll-teams-a  Dependencie…otVendored  the chart lacks depende…",
                "Failing  rule infra…ll-teams-b  Dependencie…otVendored  the chart lacks depende…",
            ],
            id="long-names-and-reasons",
        ),
        pytest.param(
            [LONG],
            "秘密" * 30,
            "日本" * 40,
            [
                "STATUS   NAME                   REASON                  MESSAGE",
                "Failing  rule infra…-all-teams  秘密秘密秘 …密秘密秘密  日本日本日本日本日本日 …",
            ],
            id="wide-characters",
        ),
    ],
)
def test_on_80_columns_every_column_is_there(names, reason, message, lines):
    found = shown(*(rule(name, "False", reason, message=message) for name in names))
    assert [re.sub(r"\b\d+d ", "AGE  ", line) for line in found[2:-1]] == lines
