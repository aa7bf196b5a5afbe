"""No callback of an operator may hold its event loop for long: what its log says, test by test.

Whoever starts an operator calls `follow`; a fixture in conftest.py looks after each test.
"""

import re
from pathlib import Path

_LINE = re.compile(rb"^.*The event loop was blocked for .*$", re.MULTILINE)
_read: dict[Path, int] = {}
"""How far each log has been looked through, in bytes."""


def follow(log: Path) -> None:
    """Look through this log after each test from now on; it may not be there yet."""
    _read.setdefault(log, 0)


def new_ones() -> list[str]:
    """The operators' lines about stalls since the last call."""
    found = []
    for log, offset in list(_read.items()):
        if not log.exists():
            continue
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(offset if size >= offset else 0)  # it was begun anew
            text = file.read()
        whole = text.rfind(b"\n") + 1
        _read[log] = size - len(text) + whole
        found += [line.decode(errors="replace") for line in _LINE.findall(text[:whole])]
    return found


def forget() -> None:
    """Let go of the logs of operators that have ended with their module."""
    _read.clear()
