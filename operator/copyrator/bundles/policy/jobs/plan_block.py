"""The block in which a plan Job prints its plan, last in its log. Pure.

    copyrator-plan-begin NONCE COUNT SHA256 RENDER HIDDEN
    revision REVISION
    OPERATION
    …
    hidden KIND/NAME
    …
    copyrator-plan-end NONCE COUNT HIDDEN

COUNT is the number of operations, which are sorted; SHA256 is that of the line ``RENDER HIDDEN``
and the lines between the first and the last; RENDER is the salted hash of what an apply writes, or
``none``; HIDDEN is the number of objects of which the chart hides contents from the diff, the first
MAX_HIDDEN of them listed. A chart may print anything before it, blocks too: only the last block is
read, and its nonce must be the Job's. A chart that knows the nonce (``lookup`` may read the Job)
still prints before the script does, so a log is only read where the container ended with 0.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from copyrator.api.syntax import shown
from copyrator.bundles.policy.plans.operations import Operation, Plan, read_operation, read_revision
from copyrator.settings.limits import PLAN_BYTES, PLAN_OPERATIONS

BEGIN: Final = "copyrator-plan-begin"
END: Final = "copyrator-plan-end"
FRAME_LINES: Final = 3
"""Lines of a block that are neither operations nor hidden objects."""
MAX_HIDDEN: Final = 20
"""Hidden objects that a block lists."""
HIDDEN_LENGTH: Final = 330
"""Characters of such a line."""
MAX_LINES: Final = PLAN_OPERATIONS + MAX_HIDDEN + FRAME_LINES
MAX_TEXT: Final = PLAN_BYTES + MAX_HIDDEN * (HIDDEN_LENGTH + 1) + 512
"""Characters of the largest block; no more of a log is parsed."""
_NUMBER: Final = "(0|[1-9][0-9]{0,5})"
_BEGIN: Final = re.compile(
    rf"{BEGIN} ([0-9a-f]{{32}}) {_NUMBER} ([0-9a-f]{{64}}) (none|[0-9a-f]{{64}}) {_NUMBER}"
)
_END: Final = re.compile(rf"{END} ([0-9a-f]{{32}}) {_NUMBER} {_NUMBER}")
_HIDDEN: Final = re.compile(r"hidden ([A-Za-z0-9?]+/[A-Za-z0-9.:_?-]+)")


@dataclass(frozen=True, slots=True)
class BlockFault:
    """Why a log has no plan. The message quotes at most one line of the list, shortened."""

    message: str


def block_lines(last_line: str, nonce: str) -> int | BlockFault:
    """How many lines from the end of a log have to be read for its block.

    Args:
        last_line: of the log, read by itself: others may be of any length.
        nonce: the Job's.
    """
    found = _END.fullmatch(last_line.rstrip("\n"))
    if found is None:
        return BlockFault("its log doesn't end with a plan")
    if found[1] != nonce:
        return BlockFault("its log ends with a plan that has another Job's nonce")
    if int(found[2]) > PLAN_OPERATIONS:
        return BlockFault(f"it has {found[2]} operations; at most {PLAN_OPERATIONS} are accepted")
    return int(found[2]) + min(int(found[3]), MAX_HIDDEN) + FRAME_LINES


def read_block(log: str, nonce: str) -> Plan | BlockFault:
    """Parse the last block of a log, or of a log's tail.

    Args:
        log: of the planning container, which ended with 0.
        nonce: the Job's: 32 hexadecimal digits.
    """
    text = "\n" + log[-MAX_TEXT:]
    start = text.rfind(f"\n{BEGIN}")
    if start < 0:
        return BlockFault("its log has no plan at its end")
    begin, *lines = text[start + 1 :].split("\n", MAX_LINES)
    found = _BEGIN.fullmatch(begin)
    if found is None:
        return BlockFault("the first line of its last plan can't be read")
    if found[1] != nonce:
        return BlockFault("the last plan in its log has another Job's nonce")
    if int(found[2]) > PLAN_OPERATIONS:
        return BlockFault(f"it has {found[2]} operations; at most {PLAN_OPERATIONS} are accepted")
    return _read_lines(lines, found)


def _read_lines(lines: list[str], begin: re.Match[str]) -> Plan | BlockFault:
    """Parse the lines after the first one, with what that says of them."""
    count, hidden = int(begin[2]), int(begin[5])
    size = 1 + count + min(hidden, MAX_HIDDEN)
    if lines[size : size + 1] != [f"{END} {begin[1]} {count} {hidden}"]:
        return BlockFault(f"its plan isn't whole: no end line follows the {count} operations")
    text = "".join(f"{line}\n" for line in (f"{begin[4]} {hidden}", *lines[:size]))
    if hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() != begin[3]:
        return BlockFault("its plan isn't what was printed: the hash of the lines is another")
    render = begin[4] if begin[4] != "none" else None
    return _plan(lines[: count + 1], lines[count + 1 : size], render, hidden)


def _plan(
    listed: list[str], hidden: list[str], render: str | None, hidden_objects: int
) -> Plan | BlockFault:
    first, *lines = listed
    revision = read_revision(first)
    if revision is None:
        return BlockFault(f"its plan begins with {shown(first)} instead of the release's revision")
    for sorted_lines in (lines, hidden):
        if any(before >= after for before, after in pairwise(sorted_lines)):
            return BlockFault("its plan isn't sorted, or names something twice")
    operations: list[Operation] = []
    for line in lines:
        operation = read_operation(line)
        if operation is None:
            return BlockFault(f"its plan has {shown(line)}, which is no operation on an object")
        operations.append(operation)
    names: list[str] = []
    for line in hidden:
        found = _HIDDEN.fullmatch(line)
        if found is None or len(line) > HIDDEN_LENGTH:
            return BlockFault(f"its plan has {shown(line)}, which is no hidden object")
        names.append(found[1])
    return Plan(revision, tuple(operations), render, hidden_objects, tuple(names))
