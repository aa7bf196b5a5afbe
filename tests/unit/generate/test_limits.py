"""The page of limits: every constant that is marked is on it, with its unit and its reason."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from demo.chart import ROOT
from generate import limits

ONE = '''\
BYTES: Final = 2 * 1024  # limit: rules
"""Bytes of a thing: more is
never needed."""

SECONDS: Final = 0.05  # limit: webhook
"""Seconds."""

OTHER: Final = 1
"""No limit."""
'''
TWO = '''\
COUNT: Final = 1_000  # limit: rules
"""Things | others."""
'''


def page(*sources: str) -> str:
    values: Any = SimpleNamespace(BYTES=2048, COUNT=1000, SECONDS=0.05)
    return limits.document((source, values) for source in sources)


def test_each_topic_has_a_table_of_its_limits_with_value_and_reason() -> None:
    assert page(ONE, TWO).splitlines()[-12:] == [
        "## Rules",
        "",
        "| limit | value | what it is, and why |",
        "|---|---|---|",
        "| `BYTES` | 2 KiB | Bytes of a thing: more is never needed. |",
        "| `COUNT` | 1,000 | Things \\| others. |",
        "",
        "## Webhook",
        "",
        "| limit | value | what it is, and why |",
        "|---|---|---|",
        "| `SECONDS` | 0.05 | Seconds. |",
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("A: Final = 1  # limit: rules\nB: Final = 2\n", "A.* has no docstring"),
        ("A: Final = 1  # limit: rules\n", "A.* has no docstring"),
        ('A = 1  # limit: rules\n"""One."""\n', "A = 1 has no docstring"),
        ('A: Final = 1  # limit: stars\n"""One."""\n', "no topic 'stars'"),
        ("def a():\n    return 1  # limit: rules\n    return 2", "line 2 isn't a constant"),
        (ONE + ONE, "two limits BYTES"),
    ],
)
def test_a_limit_that_would_be_missing_or_without_reason_is_refused(
    source: str, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        page(source)


def test_no_limit_is_missing() -> None:
    """Neither one that is marked in other words, nor one of those that modules share."""
    marked = [
        found[1]
        for path in (ROOT / "operator").rglob("*.py")
        for found in re.finditer(r"^\s*(\w+)\b.* = .*#.*\blimits?:", path.read_text(), re.MULTILINE)
    ]
    shared = (ROOT / "operator/copyrator/settings/limits.py").read_text()
    (build,) = limits.FILES.values()
    on_page = re.findall(r"^\| `(\w+)`", build(), re.MULTILINE)
    assert sorted(on_page) == sorted(marked)
    assert set(re.findall(r"^(\w+): Final", shared, re.MULTILINE)) <= set(on_page)
