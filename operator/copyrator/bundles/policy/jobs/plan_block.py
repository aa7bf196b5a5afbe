"""The block in which a plan Job prints its plan, last in its log. Pure.

    copyrator-plan-begin NONCE COUNT SHA256
    revision REVISION
    OPERATION
    …
    copyrator-plan-end NONCE COUNT

COUNT is the number of operations, which are sorted; SHA256 is that of the lines between the first
and the last. A chart may print anything before it, blocks too: only the last block is read, and its
nonce must be the Job's. A chart that knows the nonce (``lookup`` may read the Job) still prints
before the script does, so a log is only read where the container ended with 0.
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
"""Lines of a block that aren't operations."""
MAX_LINES: Final = PLAN_OPERATIONS + FRAME_LINES
MAX_TEXT: Final = PLAN_BYTES + 512
"""Characters of the largest block; no more of a log is parsed."""
_BEGIN: Final = re.compile(rf"{BEGIN} ([0-9a-f]{{32}}) (0|[1-9][0-9]{{0,5}}) ([0-9a-f]{{64}})")
_END: Final = re.compile(rf"{END} ([0-9a-f]{{32}}) (0|[1-9][0-9]{{0,5}})")


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
    return int(found[2]) + FRAME_LINES


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
    count = int(found[2])
    if count > PLAN_OPERATIONS:
        return BlockFault(f"it has {count} operations; at most {PLAN_OPERATIONS} are accepted")
    if lines[count + 1 : count + 2] != [f"{END} {nonce} {count}"]:
        return BlockFault(f"its plan isn't whole: no end line follows the {count} operations")
    return _plan(lines[: count + 1], found[3])


def _plan(listed: list[str], wanted: str) -> Plan | BlockFault:
    text = "".join(f"{line}\n" for line in listed)
    if hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() != wanted:
        return BlockFault("its plan isn't what was printed: the hash of the lines is another")
    first, *lines = listed
    revision = read_revision(first)
    if revision is None:
        return BlockFault(f"its plan begins with {shown(first)} instead of the release's revision")
    if any(before >= after for before, after in pairwise(lines)):
        return BlockFault("its plan isn't sorted, or names an operation twice")
    operations: list[Operation] = []
    for line in lines:
        operation = read_operation(line)
        if operation is None:
            return BlockFault(f"its plan has {shown(line)}, which is no operation on an object")
        operations.append(operation)
    return Plan(revision, tuple(operations))
