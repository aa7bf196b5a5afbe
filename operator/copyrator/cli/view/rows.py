"""What lists and descriptions of rules, Bundles and copies have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from copyrator.api import names
from copyrator.api.conditions import NO_CONDITION, PAUSES, Condition, ConditionType, read_conditions
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.text import Detail, time_since
from copyrator.cli.core.faults import hint
from copyrator.cli.core.objects import Body, annotations_of
from copyrator.cli.core.output import Column
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.api.bundle_status import Available, BundleStatus, Deployed


class State(StrEnum):
    """The state of a rule or Bundle; the most severe first."""

    FAILING = "Failing"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    READY = "Ready"


def state_of(condition: Condition, message: str) -> State:
    """The state by the Ready condition, and by what is to be said of the object."""
    if condition.reason in PAUSES:
        return State.SUSPENDED
    if condition.is_false:
        return State.FAILING
    return State.READY if condition.is_true and not message else State.WAITING


def ready(body: Body) -> Condition:
    """The Ready condition; empty before the operator's first status."""
    return read_conditions(body).get(ConditionType.READY, NO_CONDITION)


def version(found: Available | Deployed) -> dict[str, str | None] | None:
    """A version for documents; None where there is none."""
    return {"version": found.version, "digest": found.digest} if found.digest else None


def trouble(body: Body) -> str:
    """The fault; empty where there is none."""
    return fault_of(ready(body))


def fault_of(condition: Condition) -> str:
    """The fault by the Ready condition; empty where there is none."""
    if not condition:
        return f"not reconciled yet; see: {hint('doctor')}"
    fine = condition.is_true and condition.reason not in _TOLD
    return "" if fine else condition.message or ""


_TOLD = (RuleReason.NO_TARGETS, *PAUSES)
"""Reasons for which the message is shown although Ready is True."""


def failed_poll(body: Body) -> str:
    """The error of the last poll, where polls have failed and Ready is kept; else empty."""
    from copyrator.bundles.fields import parse_status  # noqa: PLC0415 - not for rules

    return poll_fault(parse_status(body))


def poll_fault(status: BundleStatus) -> str:
    """The same by the status."""
    if not status.failed_polls.count or status.is_unready:
        return ""
    error = status.last_error
    return f"The last poll failed ({error.reason}): {error.message}"


def reason_of(condition: Condition) -> str:
    """The reason of a condition, or a dash."""
    return condition.reason or "-"


COMMON = (
    Column("NAMESPACE", lambda view: view.name.namespace),
    Column("NAME", lambda view: view.name.name),
    Column("STATUS", lambda view: view.state),
    Column("REASON", lambda view: view.reason),
    Column("SINCE", lambda view: time_since(view.since, view.now), spare=2),
    Column("READY", lambda view: str(view.ready.status or "-"), wide=True),
)
"""The first columns of rules and Bundles; that of namespaces only where several are listed."""
AGE = Column("AGE", lambda view: time_since(created(view.body), view.now), wide=True)
MESSAGE = Column("MESSAGE", lambda view: view.trouble, below=True)


def created(body: Body) -> object:
    """The time at which the object was created."""
    return body["metadata"].get("creationTimestamp")


def annotation(body: Body, name: str) -> str:
    """An annotation's value, or a dash."""
    return str(annotations_of(body).get(name) or "-")


def describe_head(body: Body, now: datetime, state: State, reason: str) -> Iterator[Detail]:
    """The first parts of a description of a rule or Bundle."""
    metadata = body["metadata"]
    yield Detail("Name", name_of(body))
    yield Detail("Age", time_since(metadata.get("creationTimestamp"), now))
    yield Detail("Status", f"{state} ({reason if ready(body) else 'not reconciled yet'})")
    if "deletionTimestamp" in metadata:
        yield Detail(
            "Deleted", f"{time_since(metadata['deletionTimestamp'], now)} ago, not removed yet"
        )


def describe_conditions(what: str, body: Body, now: datetime) -> Iterator[Detail]:
    """The conditions, each with its message where that is in no other part."""
    alone = {ConditionType.READY, ConditionType.SETTINGS_WITHHELD}
    if what == "bundles":  # of a rule another part has the certificates
        alone.add(ConditionType.CERTIFICATE_EXPIRING)
    found = read_conditions(body)
    width = max(map(len, found), default=0)
    lines: list[str] = []
    for kind, one in found.items():
        since = time_since(one.since, now)
        status = str(one.status)
        lines.append(f"{kind:<{width}}  {status:<7}  {one.reason} (for {since})")
        waits = kind == ConditionType.UPDATE_PENDING and one.is_true
        if one.message and (kind in alone or waits):
            lines.append(f"  {one.message}")
    if lines:
        yield Detail("Conditions", below=lines)


def copy_columns(now: datetime) -> list[Column]:
    """The columns of `get copies`, with that of namespaces; a row is an object."""
    return [
        Column("NAMESPACE", lambda body: name_of(body).namespace),
        Column("KIND", lambda body: str(body["kind"])),
        Column("NAME", lambda body: name_of(body).name),
        Column("AGE", lambda body: time_since(created(body), now)),
        Column("RULE", lambda body: annotation(body, names.ANN_RULE)),
        Column("SOURCE", lambda body: annotation(body, names.ANN_SOURCE), wide=True),
    ]
