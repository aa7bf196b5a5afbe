"""The result of a dry run for each target: pure, from what was written and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from copyrator.api.rollout import Rollout
from copyrator.api.rule_status import shared_message
from copyrator.api.structs import replace
from copyrator.api.text import count, format_duration, some
from copyrator.cli.core.objects import Body
from copyrator.cli.core.output import Column, Kind, typed
from copyrator.cli.view.rule import group_failures
from copyrator.copies.targets.transform import DATA_FIELDS


class RowAction(StrEnum):
    """What would happen to a target."""

    CREATE = "create"
    UPDATE = "update"
    ADOPT = "adopt"
    RECREATE = "recreate"
    DELETE = "delete"
    RELEASE = "release"
    """The object stays, our marks are removed."""
    CONFLICT = "conflict"
    """An unmanaged object exists there."""
    BLOCKED = "blocked"
    """The API server, an admission plugin or a webhook refuses it."""


class Keys(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changes of an object, by name; never by value."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __str__(self) -> str:
        signs = (("+", self.added), ("~", self.changed), ("-", self.removed))
        return " ".join(f"{sign}{key}" for sign, keys in signs for key in keys)


NO_KEYS: Final = Keys()


class PlanRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One target; as in ``-o json``."""

    action: RowAction
    kind: str
    namespace: str
    name: str
    reason: str = ""
    message: str = ""
    keys: Keys = NO_KEYS
    note: str = ""
    """What else is known of it."""
    group: str = ""
    """The kind's API group."""

    @property
    def reference(self) -> str:
        """As `kubectl -o name` prints it."""
        kind = f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()
        return f"{kind}/{self.name}"

    @property
    def what(self) -> str:
        """The last column."""
        said = f"{self.reason}: {self.message}" if self.reason else str(self.keys)
        return f"{said} {self.note}".strip()


COLUMNS = (
    Column("ACTION", lambda row: row.action.value),
    Column("NAMESPACE", lambda row: row.namespace),
    Column("NAME", lambda row: row.name or "-"),
    Column("WHAT", lambda row: row.what, signed=True),
)


@dataclass(frozen=True, slots=True)
class RulePlan:
    """The plan of one rule."""

    rule: str
    """``namespace/name``; of a rule that has a fault, where it is."""
    rows: Sequence[PlanRow] = ()
    right: int = 0
    """Copies that are up to date."""
    fault: str = ""
    """Why there is no plan."""
    notes: Sequence[str] = ()
    """What else to know before it is applied."""


def document(plan: RulePlan) -> dict[str, Any]:
    """As in -o json."""
    found = typed(Kind.PLAN, {"rule": plan.rule})
    if plan.fault:
        return {**found, "error": plan.fault}
    changes = msgspec.to_builtins(plan.rows)
    notes = {"notes": list(plan.notes)} if plan.notes else {}
    return {**found, "upToDate": plan.right, "changes": changes, **notes}


def merge_rows(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Rows with the same fault in several namespaces as one."""
    found = [row for row in rows if not row.reason]
    for group in group_failures(row for row in rows if row.reason):
        if len(group) == 1:
            found += group
            continue
        names = {row.name for row in group}
        shown = replace(group[0], name=names.pop() if len(names) == 1 else "*")
        spaces = some((row.namespace for row in group), "namespaces")
        found.append(
            replace(shown, namespace=spaces, message=shared_message(shown.namespace, shown.message))
        )
    return found


def action_of(methods: Sequence[str], *, unmanaged: bool) -> RowAction | None:
    """The action of the writes to one object; None where there were none."""
    if not methods:
        return None
    if "POST" in methods:
        return RowAction.CREATE
    if "PUT" in methods:
        return RowAction.ADOPT if unmanaged else RowAction.UPDATE
    return RowAction.RELEASE if "PATCH" in methods else RowAction.DELETE


def diff(live: Body | None, wanted: Body) -> Keys:
    """Which keys of an object differ; of other kinds, which top-level fields."""
    before = _flat(live) if live else {}
    after = _flat(wanted)
    found = Keys(
        added=tuple(sorted(after.keys() - before.keys())),
        changed=tuple(
            sorted(one for one in after.keys() & before.keys() if after[one] != before[one])
        ),
        removed=tuple(sorted(before.keys() - after.keys())),
    )
    return NO_KEYS if found == NO_KEYS else found


def _flat(body: Body) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in body.items():
        if name in ("apiVersion", "kind", "metadata", "status"):
            continue
        if name in DATA_FIELDS:
            found |= value or {}
        elif value not in (None, "Opaque"):  # the default type of a Secret isn't shown
            found[name] = value
    for part in ("labels", "annotations"):
        for key, value in (body["metadata"].get(part) or {}).items():
            if not key.startswith("copyrator.flant.com/") and not _is_noise(key):
                found[f"{part}/{key}"] = value
    return found


def _is_noise(key: str) -> bool:
    return key == "app.kubernetes.io/managed-by" or key.startswith("kubectl.kubernetes.io/")


def summary(rows: Iterable[PlanRow], right: int) -> str:
    """One line: the number of each."""
    counts = Counter(row.action for row in rows)
    if not counts:
        text = count(right, "copy is", "copies are")
        return f"No changes: {text} up to date."
    parts = [f"{counts[action]} to {action}" for action in RowAction if counts[action]]
    text = ", ".join(parts)
    for words, good in (("to conflict", "in conflict"), ("to blocked", "blocked")):
        text = text.replace(words, good)
    return f"Plan: {text}; {count(right, 'is', 'are')} up to date."


def in_steps(rollout: Rollout, targets: int) -> str:
    """A sentence: changes of existing copies aren't made at once."""
    pause = format_duration(rollout.pause)
    return (
        f"Existing copies are changed in steps (spec.rollout): {rollout.to_string(targets)} of "
        f"{targets} namespaces, {pause} after each; new ones are created at once."
    )
