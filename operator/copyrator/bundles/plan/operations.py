"""The operations of a deploy on objects, their risk, and what an approval covers. Pure.

An operation is written as ``TYPE NAMESPACE:GROUP:KIND:NAME``, with an empty namespace for the
release's own or none, and an empty group for the core API (docs/facts/werf.md, "bundle plan").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from copyrator.api.plan_status import OperationCounts
from copyrator.bundles.deploy.identity import hash_of


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
