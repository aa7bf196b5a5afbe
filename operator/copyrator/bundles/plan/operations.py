"""The operations of a deploy on objects, their risk, and what an approval covers. Pure.

An operation is written as ``TYPE NAMESPACE:GROUP:KIND:NAME``, with an empty namespace for the
release's own or none, and an empty group for the core API (docs/facts/werf.md, "bundle plan").

A plan Job prints its plan last in its log::

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
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

from copyrator.api.plan_status import OperationCounts
from copyrator.api.syntax import shown
from copyrator.bundles.deploy.identity import hash_of

PLAN_OPERATIONS: Final = 5_000  # limit: Bundles
"""Operations of one plan: a larger one is PlanFailed."""

PLAN_BYTES: Final = 1_000_000  # limit: Bundles
"""Bytes of a plan's list of operations: what is approved is kept in one Secret, which may have at
most 1 MiB."""


class OperationType(StrEnum):
    """The type of an operation, in werf's terms."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RECREATE = "recreate"
    APPLY = "apply"
    """A blind apply: its dry run was refused, so what it changes isn't known."""


def describe_counts(counts: OperationCounts) -> str:
    """``3 create, 1 blind apply``; empty without operations."""
    numbers = ((type_, getattr(counts, type_)) for type_ in OperationType)
    return ", ".join(
        f"{number} {'blind apply' if type_ is OperationType.APPLY else type_}"
        for type_, number in numbers
        if number
    )


OBJECT: Final = "[a-z0-9-]*:[a-z0-9.-]*:[A-Za-z][A-Za-z0-9-]*:[]-~ !#-.0-[]+"
"""An object's ID as a pattern for both ``re`` and ``grep -E``: a colon may be in the name only.

A name is ASCII without quotes, backslashes, slashes and control characters. werf escapes none of
them, and names of RBAC objects may have most.
"""
REVISION: Final = "[1-9][0-9]{0,9}"
"""A release's revision, as a pattern for both."""
_OPERATION: Final = re.compile(rf"({'|'.join(OperationType)}) ({OBJECT})")
_REVISION: Final = re.compile(f"revision ({REVISION})")
_RENDER: Final = re.compile("render (none|[0-9a-f]{64})")
_NO_REVISION: Final = 2**31

_RISKY_TYPES: Final = frozenset({OperationType.DELETE, OperationType.RECREATE, OperationType.APPLY})
_RISKY_KINDS: Final = frozenset(
    {
        "CustomResourceDefinition",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "StatefulSet",
        "Namespace",
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
        "ServiceAccount",
        "APIService",
        "CertificateSigningRequest",
        "CopyratorRule",
        "Bundle",
    }
)
"""In any group: some distributions have roles in groups of their own."""
_RISKY_GROUPS: Final = frozenset({"admissionregistration.k8s.io", "rbac.authorization.k8s.io"})
"""All of their kinds: webhooks, admission policies and their bindings, roles and theirs."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on one object."""

    type: OperationType
    namespace: str
    """Empty for the release's own, and for objects that are in no namespace."""
    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.namespace}:{self.group}:{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The operations of a deploy, sorted by their text, and the release's revision it would make.

    A namespace that the deploy would create isn't in it: see ``effects``.
    """

    revision: int
    operations: tuple[Operation, ...]
    render: str | None = None
    """The salted hash of what an apply writes: 64 hexadecimal digits; None where two renders
    differed.
    """
    hidden: int = 0
    """Objects of which the chart hides contents from werf's diff, beside Secrets; not in the text.
    """
    hidden_names: tuple[str, ...] = ()
    """The first of them, as ``KIND/NAME``."""
    image: str | None = None
    """werf's image by digest, as the pod ran it; None where that isn't known; not in the text."""
    drawn: tuple[str, ...] = ()
    """What in the chart may render differently another time, or why that isn't known; likewise."""

    @property
    def text(self) -> str:
        """The plan as text, as the operator stores it and a deploy Job mounts it."""
        first = f"revision {self.revision}", f"render {self.render or 'none'}"
        return "".join(f"{line}\n" for line in (*first, *self.operations))


def read_operation(line: str) -> Operation | None:
    """Parse an operation's text; None where it isn't one."""
    found = _OPERATION.fullmatch(line)
    return Operation(OperationType(found[1]), *found[2].split(":", 3)) if found else None


def read_revision(line: str) -> int | None:
    """Parse the line ``revision N``; None where it isn't one."""
    found = _REVISION.fullmatch(line)
    return int(found[1]) if found and int(found[1]) < _NO_REVISION else None


def read_plan(text: str) -> Plan | None:
    """Parse ``Plan.text``, also without the line of the render; None where it isn't one."""
    first, *lines = text.splitlines() or [""]
    revision, render = read_revision(first), None
    if lines and (bound := _RENDER.fullmatch(lines[0])):
        render = bound[1] if bound[1] != "none" else None
        del lines[0]
    found = [read_operation(line) for line in lines]
    operations = tuple(one for one in found if one is not None)
    if revision is None or len(operations) != len(found):
        return None
    return Plan(revision, operations, render)


def effects(plan: Plan, missing_namespace: str | None) -> tuple[Operation, ...]:
    """All operations of a deploy; an approval is of these.

    Args:
        plan: werf's.
        missing_namespace: the release's, where it doesn't exist: werf creates it, but doesn't plan
            that.
    """
    found = {str(one): one for one in plan.operations}
    if missing_namespace is not None:
        namespace = Operation(OperationType.CREATE, "", "", "Namespace", missing_namespace)
        found[str(namespace)] = namespace
    return tuple(found[line] for line in sorted(found))


def counts(operations: Iterable[Operation]) -> dict[OperationType, int]:
    """The number of operations by type; only types that occur, in a stable order."""
    found = Counter(one.type for one in operations)
    return {type_: found[type_] for type_ in OperationType if type_ in found}


def risky(
    operations: Iterable[Operation], baseline: Collection[Operation]
) -> tuple[Operation, ...]:
    """The operations for which ``approval: OnRisk`` requires an approval.

    Args:
        operations: the plan's.
        baseline: those of the plan made right after the last successful deploy, which has what a
            chart does every time, such as recreating its hooks; empty where there is none.
    """
    usual = frozenset(baseline)
    return tuple(
        one
        for one in operations
        if one.kind in _RISKY_KINDS
        or one.group in _RISKY_GROUPS
        or (one.type in _RISKY_TYPES and one not in usual)
    )


def plan_id(
    *,
    digest: str,
    values_hash: str | None,
    job: Mapping[str, Any],
    revision: int,
    operations: Iterable[Operation],
    render: str | None,
    rejections: int = 0,
) -> str:
    """The ID that an approval names: equal for equal effects of equal content.

    Args:
        digest: the manifest's, ``sha256:…``.
        values_hash: of all values; None where there are none.
        job: everything else that the Job gets, as JSON: what the spec, the labels and annotations
            that are passed on, the image and the operator's settings make of it. Nothing that
            differs between two Jobs for the same deploy, such as their names and nonces.
        revision: of the release, that the deploy would make.
        operations: the plan's ``effects``, in any order.
        render: the hash of what is written; None where it isn't known.
        rejections: how many plans of the Bundle were rejected, so that no rejected ID returns.

    Returns:
        32 hexadecimal digits.
    """
    listed = sorted(map(str, operations))
    return hash_of(digest, values_hash, job, revision, listed, render, rejections)


def find_uncovered(
    approved: Iterable[Operation], found: Iterable[Operation]
) -> tuple[Operation, ...]:
    """The operations of another plan that weren't approved.

    After a failed attempt an approved create covers an update or recreate of the same object, which
    that attempt may have created. The first attempt's Job accepts only what was approved itself.
    """
    covered = {str(one) for one in approved}
    for one in tuple(covered):
        type_, _, rest = one.partition(" ")
        if type_ == OperationType.CREATE:
            covered |= {f"{OperationType.UPDATE} {rest}", f"{OperationType.RECREATE} {rest}"}
    return tuple(one for one in found if str(one) not in covered)


def covers(approved: Iterable[Operation], found: Iterable[Operation]) -> bool:
    """Whether an approval also covers another plan."""
    return not find_uncovered(approved, found)


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
