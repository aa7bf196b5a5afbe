"""Parses werf's output: its deploy report and the digest lines of its log.

A report is the termination message, which the kubelet truncates at 4,096 bytes; where
werf failed before it wrote one, the message is the end of the log. So all functions accept partial
texts (docs/facts/werf.md, "Result channel").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.bundle_status import MAX_LOG_TAIL
from copyrator.api.counts import count
from copyrator.api.json_text import read_json
from copyrator.settings.limits import BUNDLE_TERMINATION_MESSAGE

_DIGEST_LINE: Final = re.compile(
    r"^[^\w\n]*digest:[ \t]+(?:sha256:)?([0-9a-f]{64})[ \t\r]*$", re.MULTILINE
)
"""No part of it matches across lines, so time grows linearly with the text's length."""
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FIELD: Final = r'"{}"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)'
_SHOWN_OPERATIONS: Final = 5
_TEMPLATE_TEXT: Final = re.compile(
    r"error calling (?!include: (?:template|execution error))[A-Za-z_][A-Za-z0-9_]{0,60}: "
    r"|execution error at \([^()\n]{1,400}\): "
    r"|range can't iterate over "
    r"|cannot unmarshal !![a-z]{1,20} "
    r"|cannot decode !![a-z]{1,20} "
    r"|unknown anchor "
    r"|mapping key "
    r"|don't meet the specifications of the schema\(s\)"
)
"""Go's and Helm's words before a text that isn't theirs."""
IN_LOG: Final = "<see the pod's log>"
_NO_REVISION: Final = 2**63
"""The API server accepts no such number in a status."""
_CAUSE: Final = 400
"""Characters of an error that go into a condition."""


@dataclass(frozen=True, slots=True)
class DeployReport:
    """werf's report of a deploy. ``status`` is ``deployed``, ``skipped`` or ``failed``."""

    status: str
    revision: int | None = None
    completed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the bundle was deployed (also with "non-critical errors", exit code 1)."""
        return self.status in ("deployed", "skipped", "succeeded")

    def describe(self) -> str:
        """One sentence for a condition."""
        if self.succeeded:
            done = (
                count(len(self.completed), "operation") if self.completed else ("nothing to change")
            )
            return f"revision {self.revision}, {done}" if self.revision else done
        if not self.failed:
            return "werf reports that the release failed"
        named = ", ".join(self.failed[:_SHOWN_OPERATIONS])
        more = len(self.failed) - _SHOWN_OPERATIONS
        return named + (f" and {more} more failed" if more > 0 else " failed")


def parse_report(message: str | None) -> DeployReport | None:
    """Parse a termination message; None where it has no report."""
    text = (message or "")[:BUNDLE_TERMINATION_MESSAGE].strip()
    if not text.startswith("{"):
        return None
    try:
        return _from_map(read_json(text))
    except ValueError:
        return _from_fragment(text)


def _from_map(found: Any) -> DeployReport | None:
    if not isinstance(found, dict) or not isinstance(found.get("status"), str):
        return None
    revision = found.get("revision")
    return DeployReport(
        status=found["status"],
        revision=revision if type(revision) is int and 0 < revision < _NO_REVISION else None,
        completed=_texts(found.get("completedOperations")),
        failed=_texts(found.get("failedOperations")),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, Sequence) else ()


def _from_fragment(text: str) -> DeployReport | None:
    """A truncated report: its short fields come first."""
    found: dict[str, Any] = {}
    for name in ("status", "revision"):
        if match := re.search(_FIELD.format(name), text):
            with suppress(ValueError):  # not JSON: a line break in it, or 5,000 digits
                found[name] = read_json(match[1])
    return _from_map(found)


def printed_digests(log: str) -> tuple[str, ...]:
    """The manifest digests that werf pulled by its log, ``sha256:…``, in order."""
    return tuple(f"sha256:{found}" for found in _DIGEST_LINE.findall(plain(log)))


def plain(log: str) -> str:
    """A log without colour sequences."""
    return _ANSI.sub("", log)


def log_tail(log: str) -> str:
    """The end of a log, short enough for a status, from the start of a line where possible."""
    text = plain(log).strip()
    if len(text) <= MAX_LOG_TAIL:
        return text
    tail = text[-MAX_LOG_TAIL:]
    _, newline, rest = tail.partition("\n")
    return rest if newline and rest else tail


def without_template_text(text: str, literals: Collection[str] = ()) -> str:
    """Werf's error, or the end of its log, without what a template or a value gave to it.

    Kept are the template, its line and the function; what follows may have values, in any number of
    lines, so it ends there. ``include`` gives no text of its own: what follows it is read on.

    Args:
        text: one or more lines.
        literals: texts of ``required`` and ``fail`` that stand in the chart itself, which may pass.
    """
    found = _TEMPLATE_TEXT.search(text)
    if found is None:
        return text
    line = text[found.end() :].partition("\n")[0]
    return text[: found.end()] + (line if line in literals else IN_LOG)


def cause(log: str) -> str:
    """The end of werf's ``Error: …``, which has the cause; empty where there is none."""
    line = last_error_line(log)
    if not line.startswith("Error:"):
        return ""
    text = line.removeprefix("Error:").strip()
    return text if len(text) <= _CAUSE else "…" + text[-_CAUSE:]


def last_error_line(log: str, most: int = 1024) -> str:
    """The line with the error: werf's last ``Error: …``, else the last line."""
    lines = [line.strip() for line in plain(log).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("Error:")]
    return (errors or lines or [""])[-1][:most]
