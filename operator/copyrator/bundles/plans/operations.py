"""The operations of a deploy on objects, their risk, and what an approval covers. Pure.

An operation is written as ``TYPE NAMESPACE:GROUP:KIND:NAME``, with an empty namespace for the
release's own or none, and an empty group for the core API (docs/facts/werf.md, "bundle plan").

A plan Job prints its plan last in its log::

    copyrator-plan-begin NONCE COUNT OBJECTS HIDDEN SHA256 RENDER EXACT
    revision REVISION
    OPERATION
    …
    LINE OF AN OBJECT
    …
    hidden KIND/NAME
    …
    copyrator-plan-end NONCE COUNT OBJECTS HIDDEN

COUNT is the number of operations, which are sorted; OBJECTS is that of the lines about the chart's
objects, sorted too (``RenderedObjects``); HIDDEN is the number of objects of which the chart hides
contents from the diff, the first MAX_HIDDEN of them listed; SHA256 is that of the line ``RENDER
HIDDEN EXACT`` and the lines between the first and the last; RENDER is the salted hash of what an
apply writes, or ``none``; EXACT is that of the plan that werf saved, or why there is none
(``Inexact``). A chart may print anything before it, blocks too: only the last block is read, and
its nonce must be the Job's. A chart that knows the nonce (``lookup`` may read the Job) still prints
before the script does, so a log is only read where the container ended with 0.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import Final

from copyrator.api.text import quoted
from copyrator.bundles.jobs.checks import (
    AS_ACCOUNT,
    AT_ROLLBACK,
    AT_UNINSTALL,
    HAS,
    HOOK,
    Inexact,
)
from copyrator.bundles.plans.fields import OperationCounts

PLAN_OPERATIONS: Final = 5_000
"""Operations of one plan: a larger one is PlanFailed."""

PLAN_BYTES: Final = 1_000_000
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
    """``3 create, 1 blind apply, 1 at uninstall``; empty without operations."""
    blind = {OperationType.APPLY: "blind apply"}
    numbers = [(getattr(counts, one), blind.get(one, str(one))) for one in OperationType]
    numbers += [(counts.at_rollback, "at rollback"), (counts.at_uninstall, "at uninstall")]
    return ", ".join(f"{number} {what}" for number, what in numbers if number)


OBJECT: Final = "[a-z0-9-]*:[a-z0-9.-]*:[A-Za-z][A-Za-z0-9-]*:[]-~ !#-.0-[]+"
"""An object's ID as a pattern for both ``re`` and ``grep -E``: a colon may be in the name only.

A name is ASCII without quotes, backslashes, slashes and control characters. werf escapes none of
them, and names of RBAC objects may have most.
"""
REVISION: Final = "[1-9][0-9]{0,9}"
"""A release's revision, as a pattern for both."""
EXACT: Final = "exact "
"""How the line with the hash of a saved plan begins."""
_OPERATION: Final = re.compile(rf"({'|'.join(OperationType)}) ({OBJECT})")
_REVISION: Final = re.compile(f"revision ({REVISION})")
_OBJECT: Final = re.compile(rf"({AS_ACCOUNT}|{HOOK}|{HAS})({OBJECT})")
_HOOK_OPERATION: Final = re.compile(rf"({AT_ROLLBACK}|{AT_UNINSTALL})create ({OBJECT})")
_TYPES: Final = {str(one): one for one in OperationType}
_STORED: Final = re.compile(
    r"(revision .*)\nrender (none|[0-9a-f]{64})\n(?:exact ([0-9a-f]{64})\n)?"
)
_NO_REVISION: Final = 2**31

WRITES: Final = tuple(one for one in OperationType if one is not OperationType.DELETE)
"""Operations on objects that the chart has."""

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

    @property
    def object(self) -> str:
        """The object's ID."""
        return f"{self.namespace}:{self.group}:{self.kind}:{self.name}"

    def __str__(self) -> str:
        return f"{self.type} {self.object}"


@dataclass(frozen=True, slots=True)
class RenderedObjects:
    """What a chart has, also what no operation of its deploy names, by the objects' IDs.

    As text a line each: ``has ID`` or, of a hook or what has a delete policy, ``hook ID``; ``at
    rollback: create ID`` and ``at uninstall: create ID`` of what is made then only; ``as the
    deploying account: ID``.
    """

    inventory: frozenset[str] = frozenset()
    """All of them."""
    hooks: frozenset[str] = frozenset()
    """Those that werf may delete and make again in any deploy."""
    rollback_hooks: tuple[Operation, ...] = ()
    uninstall_hooks: tuple[Operation, ...] = ()
    """Those of tests count with them."""
    as_account: frozenset[str] = frozenset()
    """Those that run, or make a token, as the Job's service account."""

    @property
    def head(self) -> str:
        """The line before all others."""
        return f"objects {len(self.inventory)}"

    def lines(self, written: Collection[str] = ()) -> list[str]:
        """The lines, sorted, but for objects that are known from an operation."""
        has = self.inventory - self.hooks
        found = [f"{HAS}{one}" for one in has.difference(written)]
        found += (f"{HOOK}{one}" for one in self.hooks)
        found += (f"{AT_ROLLBACK}{one}" for one in self.rollback_hooks)
        found += (f"{AT_UNINSTALL}{one}" for one in self.uninstall_hooks)
        found += (f"{AS_ACCOUNT}{one}" for one in self.as_account)
        return sorted(found)

    def untouched(self) -> tuple[Operation, ...]:
        """Its objects that are no hooks, as updates: what a plan leaves alone is among them."""
        hooks = {one.object for _, one in self.operations()} | self.hooks
        found = (read_operation(f"{OperationType.UPDATE} {one}") for one in self.inventory - hooks)
        return tuple(one for one in found if one is not None)

    def operations(self) -> tuple[tuple[str, Operation], ...]:
        """The operations at rollback and at uninstall, each with how its text begins."""
        return (
            *((AT_ROLLBACK, one) for one in self.rollback_hooks),
            *((AT_UNINSTALL, one) for one in self.uninstall_hooks),
        )


NO_OBJECTS: Final = RenderedObjects()


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
    objects: RenderedObjects = NO_OBJECTS
    """What the chart has."""
    exact: str | None = None
    """The salted hash of the plan that werf saved; None where there is none."""
    inexact: Inexact | None = None
    """Why there is none; None with one; not in the text."""

    @property
    def text(self) -> str:
        """The plan as text, as the operator stores it and a deploy Job mounts it.

        What an operation writes is an object of the chart, and isn't listed once more: so most of a
        first install's objects have one line.
        """
        first = f"revision {self.revision}", f"render {self.render or 'none'}"
        lines = [*first, *((f"{EXACT}{self.exact}",) if self.exact else ())]
        lines += map(str, self.operations)
        lines += (self.objects.head, *self.objects.lines(self.written))
        return "".join(f"{line}\n" for line in lines)

    @property
    def written(self) -> frozenset[str]:
        """The objects that its operations write."""
        return frozenset(one.object for one in self.operations if one.type in WRITES)

    @property
    def hooks(self) -> frozenset[Operation]:
        """The operations on hooks, whose delete policies may delete them."""
        return self._of(self.objects.hooks)

    @property
    def as_account(self) -> frozenset[Operation]:
        """The operations, at rollback and at uninstall too, as the deploying account."""
        return self._of(self.objects.as_account)

    def _of(self, objects: Collection[str]) -> frozenset[Operation]:
        every = (*self.operations, *(one for _, one in self.objects.operations()))
        return frozenset(one for one in every if one.object in objects)


def read_operation(line: str) -> Operation | None:
    """Parse an operation's text; None where it isn't one."""
    found = _OPERATION.fullmatch(line)
    return Operation(_TYPES[found[1]], *found[2].split(":", 3)) if found else None


def read_revision(line: str) -> int | None:
    """Parse the line ``revision N``; None where it isn't one."""
    found = _REVISION.fullmatch(line)
    return int(found[1]) if found and int(found[1]) < _NO_REVISION else None


def read_plan(text: str) -> Plan | None:
    """Parse ``Plan.text``; None where it isn't one."""
    head = _STORED.match(text)
    if head is None or (revision := read_revision(head[1])) is None:
        return None
    lines = text[head.end() :].splitlines()
    operations = tuple(takewhile(bool, map(read_operation, lines)))
    rest = lines[len(operations) :]
    render = head[2] if head[2] != "none" else None
    plan = Plan(revision, tuple(one for one in operations if one), render, exact=head[3])
    objects = read_objects(rest[1:], plan.written)
    if objects is None or rest[:1] != [objects.head]:
        return None
    return replace(plan, objects=objects)


def read_objects(
    lines: Iterable[str], written: frozenset[str] = frozenset()
) -> RenderedObjects | None:
    """Parse ``RenderedObjects.lines``; None where one of them isn't such.

    ``written``: the objects that are known from an operation.
    """
    objects: dict[str, set[str]] = {AS_ACCOUNT: set(), HOOK: set(), HAS: set(written)}
    further: dict[str, list[Operation]] = {AT_ROLLBACK: [], AT_UNINSTALL: []}
    for line in lines:
        if found := _OBJECT.fullmatch(line):
            objects[found[1]].add(found[2])
        elif found := _HOOK_OPERATION.fullmatch(line):
            one = Operation(OperationType.CREATE, *found[2].split(":", 3))
            further[found[1]].append(one)
        else:
            return None
    return RenderedObjects(
        frozenset(objects[HAS] | objects[HOOK]),
        frozenset(objects[HOOK]),
        tuple(further[AT_ROLLBACK]),
        tuple(further[AT_UNINSTALL]),
        frozenset(objects[AS_ACCOUNT]),
    )


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


def count_all(operations: Iterable[Operation], objects: RenderedObjects) -> OperationCounts:
    """The number of operations by type, and of those at rollback and at uninstall."""
    found = Counter(str(one.type) for one in operations)
    found["atRollback"] = len(objects.rollback_hooks)
    found["atUninstall"] = len(objects.uninstall_hooks)
    return OperationCounts.parse({name: number for name, number in found.items() if number})


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


@dataclass(frozen=True, slots=True)
class StagedOperation:
    """An operation of a plan, and when and as whom it is done."""

    operation: Operation
    when: str = ""
    """Empty, AT_ROLLBACK or AT_UNINSTALL."""
    as_account: bool = False
    """Whether its object runs, or makes a token, as the deploying account."""

    def __str__(self) -> str:
        return f"{AS_ACCOUNT if self.as_account else ''}{self.when}{self.operation}"


def read_planned(text: str) -> StagedOperation | None:
    """Parse the text of a planned operation; None where it isn't one."""
    rest = text.removeprefix(AS_ACCOUNT)
    when = next((one for one in (AT_ROLLBACK, AT_UNINSTALL) if rest.startswith(one)), "")
    operation = read_operation(rest.removeprefix(when))
    return StagedOperation(operation, when, rest != text) if operation is not None else None


def all_planned(operations: Iterable[Operation], objects: RenderedObjects) -> list[StagedOperation]:
    """A plan's operations, then those at rollback and at uninstall.

    Args:
        operations: its ``effects``.
        objects: of its chart.
    """
    every = (*(("", one) for one in operations), *objects.operations())
    return [
        StagedOperation(one, when, one.object in objects.as_account and one.type in WRITES)
        for when, one in every
    ]


def list_risky(
    planned: Collection[StagedOperation], baseline: Collection[Operation] = ()
) -> tuple[str, ...]:
    """Those that are risky, as texts; what runs as the deploying account always is.

    ``baseline``: see ``risky``.
    """
    named = frozenset(risky((one.operation for one in planned), baseline))
    return tuple(str(one) for one in planned if one.as_account or one.operation in named)


def has_further_objects(approved: Plan, found: Plan) -> bool:
    """Whether another plan has an object or a hook that the approved one doesn't have."""
    return not set(found.objects.lines()) <= set(approved.objects.lines())


def covers(approved: Collection[Operation], found: Iterable[Operation]) -> bool:
    """Whether an approval also covers another plan.

    After a failed attempt an approved create covers an update or recreate of the same object, which
    that attempt may have created. The first attempt's Job accepts only what was approved itself.
    """
    created = [one for one in approved if one.type is OperationType.CREATE]
    further = (OperationType.UPDATE, OperationType.RECREATE)
    covered = {*approved, *(replace(one, type=type_) for one in created for type_ in further)}
    return covered.issuperset(found)


BEGIN: Final = "copyrator-plan-begin"
END: Final = "copyrator-plan-end"
FRAME_LINES: Final = 3
"""Lines of a block that are neither operations nor hidden objects."""
MAX_HIDDEN: Final = 20
"""Hidden objects that a block lists."""
HIDDEN_LENGTH: Final = 330
"""Characters of such a line."""
MOST_OBJECT_LINES: Final = 2 * PLAN_OPERATIONS
"""Lines about objects: one of each, and as many of hooks and of the deploying account."""
MAX_LINES: Final = PLAN_OPERATIONS + MOST_OBJECT_LINES + MAX_HIDDEN + FRAME_LINES
MAX_TEXT: Final = 2 * PLAN_BYTES + MAX_HIDDEN * (HIDDEN_LENGTH + 1) + 512
"""Characters of the largest block; no more of a log is parsed."""
_NUMBER: Final = "(0|[1-9][0-9]{0,5})"
_BEGIN: Final = re.compile(
    rf"{BEGIN} ([0-9a-f]{{32}}) {_NUMBER} {_NUMBER} {_NUMBER} ([0-9a-f]{{64}}) "
    rf"(none|[0-9a-f]{{64}}) ([0-9a-f]{{64}}|{'|'.join(Inexact)})"
)
_END: Final = re.compile(rf"{END} ([0-9a-f]{{32}}) {_NUMBER} {_NUMBER} {_NUMBER}")
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
    if fault := _find_excess(found):
        return fault
    count, objects, hidden = (int(found[group]) for group in (2, 3, 4))
    return count + objects + min(hidden, MAX_HIDDEN) + FRAME_LINES


def _find_excess(found: re.Match[str]) -> BlockFault | None:
    count, objects = int(found[2]), int(found[3])
    if count > PLAN_OPERATIONS:
        return BlockFault(f"it has {count} operations; at most {PLAN_OPERATIONS} are accepted")
    if objects > MOST_OBJECT_LINES:
        text = f"it has {objects} lines about objects; at most {MOST_OBJECT_LINES} are accepted"
        return BlockFault(text)
    return None


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
    if fault := _find_excess(found):
        return fault
    return _read_lines(lines, found)


def _read_lines(lines: list[str], begin: re.Match[str]) -> Plan | BlockFault:
    """Parse the lines after the first one, with what that says of them."""
    count, objects, hidden = (int(begin[group]) for group in (2, 3, 4))
    listed, named = 1 + count, 1 + count + objects
    size = named + min(hidden, MAX_HIDDEN)
    if lines[size : size + 1] != [f"{END} {begin[1]} {count} {objects} {hidden}"]:
        return BlockFault(f"its plan isn't whole: no end line follows the {count} operations")
    head = f"{begin[6]} {hidden} {begin[7]}"
    text = "".join(f"{line}\n" for line in (head, *lines[:size]))
    if hashlib.sha256(text.encode("utf-8", "replace")).hexdigest() != begin[5]:
        return BlockFault("its plan isn't what was printed: the hash of the lines is another")
    render = begin[6] if begin[6] != "none" else None
    parts = (lines[1:listed], lines[listed:named], lines[named:size])
    plan = _plan(lines[0], *parts)
    if isinstance(plan, BlockFault):
        return plan
    inexact = next((one for one in Inexact if one == begin[7]), None)
    exact = begin[7] if inexact is None else None
    plan = replace(plan, render=render, hidden=hidden, exact=exact, inexact=inexact)
    # Those that the stored text has as well: all are ASCII.
    known = {f"{HAS}{one}" for one in plan.written}
    stored = [line for line in lines[:named] if line not in known]
    size = sum(map(len, stored)) + len(stored)
    if size > PLAN_BYTES:
        text = f"its operations and objects have {size} bytes; at most {PLAN_BYTES} are accepted"
        return BlockFault(text)
    return plan


def _plan(
    first: str, operations: list[str], objects: list[str], hidden: list[str]
) -> Plan | BlockFault:
    revision = read_revision(first)
    if revision is None:
        return BlockFault(f"its plan begins with {quoted(first)} instead of the release's revision")
    for sorted_lines in (operations, objects, hidden):
        if any(before >= after for before, after in pairwise(sorted_lines)):
            return BlockFault("its plan isn't sorted, or names something twice")
    found: list[Operation] = []
    for line in operations:
        operation = read_operation(line)
        if operation is None:
            return BlockFault(f"its plan has {quoted(line)}, which is no operation on an object")
        found.append(operation)
    names: list[str] = []
    for line in hidden:
        named = _HIDDEN.fullmatch(line)
        if named is None or len(line) > HIDDEN_LENGTH:
            return BlockFault(f"its plan has {quoted(line)}, which is no hidden object")
        names.append(named[1])
    plan = Plan(revision, tuple(found), hidden_names=tuple(names))
    rendered = read_objects(objects, plan.written)
    if rendered is None:
        wrong = next(line for line in objects if read_objects([line]) is None)
        return BlockFault(f"its plan has {quoted(wrong)}, which is no object of the chart")
    return replace(plan, objects=rendered)
