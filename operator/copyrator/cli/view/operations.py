"""A plan's operations as commands, pages and programs show them; each is worded here. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.plan_status import OperationCounts
from copyrator.bundles.plan.operations import (
    AT_ROLLBACK,
    AT_UNINSTALL,
    Operation,
    OperationType,
    StagedOperation,
)
from copyrator.cli.core.output import Column

_VERBS: Final = {
    OperationType.CREATE: "create",
    OperationType.UPDATE: "update",
    OperationType.DELETE: "delete",
    OperationType.RECREATE: "recreate",
    OperationType.APPLY: "blindly apply",
}
_OCCASIONS: Final = {"": "deploy", AT_ROLLBACK: "rollback", AT_UNINSTALL: "uninstall"}
AS_ACCOUNT: Final = "as the deploying account"


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operation as it is read, and whether it is risky."""

    staged: StagedOperation
    is_risky: bool = False

    @property
    def operation(self) -> Operation:
        """On which object it is."""
        return self.staged.operation

    @property
    def verb(self) -> str:
        """``create``, ``blindly apply``."""
        return _VERBS[self.operation.type]

    @property
    def when(self) -> str:
        """``at rollback``, ``at uninstall``; empty: the deploy does it."""
        return f"at {_OCCASIONS[self.staged.when]}" if self.staged.when else ""

    @property
    def role(self) -> str:
        """``as the deploying account``; else empty."""
        return AS_ACCOUNT if self.staged.as_account else ""

    @property
    def reference(self) -> str:
        """``deployment.apps/shop``, as in ``-o name``."""
        one = self.operation
        return f"{one.kind.lower()}{f'.{one.group}' if one.group else ''}/{one.name}"

    def to_dict(self) -> dict[str, Any]:
        """As in ``-o json``."""
        one = self.operation
        return {
            "type": str(one.type),
            "when": _OCCASIONS[self.staged.when],
            "group": one.group,
            "kind": one.kind,
            "namespace": one.namespace,
            "name": one.name,
            "asDeployingAccount": self.staged.as_account,
            "risky": self.is_risky,
        }


def columns(shown: Sequence[OperationRow]) -> list[Column]:
    """The columns of these rows; what no row has is left out."""
    found = [
        Column("RISK", lambda row: "risky" if row.is_risky else ""),
        Column("OPERATION", lambda row: str(row.operation.type)),
        Column("WHEN", lambda row: row.when),
        Column("GROUP", lambda row: row.operation.group or "-", wide=True),
        Column("KIND", lambda row: row.operation.kind),
        Column("NAMESPACE", lambda row: row.operation.namespace or "-"),
        Column("NAME", lambda row: row.operation.name),
        Column("ROLE", lambda row: row.role),
    ]
    return [one for one in found if any(map(one.value, shown))]


def describe_effect(counts: OperationCounts) -> str:
    """``create 3 objects and delete 1, and at uninstall create 1``."""
    numbers = [(verb, getattr(counts, type_) or 0) for type_, verb in _VERBS.items()]
    parts = [f"{verb} {number}" for verb, number in numbers if number]
    if parts:
        parts[0] += " object" if parts[0].endswith(" 1") else " objects"
    text = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:]))) or "change nothing"
    further = [("rollback", counts.at_rollback), ("uninstall", counts.at_uninstall)]
    return text + "".join(f", and at {when} create {number}" for when, number in further if number)
