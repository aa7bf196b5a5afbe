"""The page of limits: every constant is on it, with its unit and its reason."""

import inspect
from types import SimpleNamespace

import pytest

from copyrator.settings import limits as ours
from generate import limits

SOURCE = '''\
# --- one part -----

BYTES: Final = 2 * 1024
"""Bytes of a thing: more is
never needed."""

# --- another part -----

COUNT: Final = 1_000
"""Things | others."""

SECONDS: Final = 0.05
"""Seconds."""
'''
VALUES = SimpleNamespace(BYTES=2048, COUNT=1000, SECONDS=0.05)


def test_each_part_has_a_table_of_its_limits_with_value_and_reason() -> None:
    page = limits.document(VALUES, SOURCE)
    assert page.splitlines()[-12:] == [
        "## One part",
        "",
        "| limit | value | what it is, and why |",
        "|---|---|---|",
        "| `BYTES` | 2 KiB | Bytes of a thing: more is never needed. |",
        "",
        "## Another part",
        "",
        "| limit | value | what it is, and why |",
        "|---|---|---|",
        "| `COUNT` | 1,000 | Things \\| others. |",
        "| `SECONDS` | 0.05 | Seconds. |",
    ]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("# --- part ---\nA: Final = 1\nB: Final = 2\n", "A has no docstring"),
        ("# --- part ---\nA: Final = 1\n", "A has no docstring"),
        ('A: Final = 1\n"""One."""\n', "A stands above the first"),
    ],
)
def test_a_limit_without_reason_or_part_is_refused(source: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        limits.document(SimpleNamespace(A=1, B=2), source)


def test_no_limit_is_missing() -> None:
    found = [limit.name for limit in limits.read(inspect.getsource(ours))]
    assert found == [name for name in vars(ours) if name.isupper()]
