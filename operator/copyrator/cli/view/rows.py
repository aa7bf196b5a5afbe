"""The line of a rule, a Bundle and a copy: pure, from the object and the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from copyrator.api import names
from copyrator.api.bundle_status import BundleReason, HistoryEntry
from copyrator.api.conditions import ConditionStatus, ConditionType, conditions_by_type
from copyrator.api.health import HealthReason
from copyrator.api.rule_status import RuleReason
from copyrator.api.suspension import PAUSES
from copyrator.api.times import parse_time
from copyrator.cli.core.hints import hint
from copyrator.cli.core.output import Column

Body = Mapping[str, Any]


def ready(body: Body) -> Mapping[str, Any]:
    """The Ready condition; empty before the operator's first status."""
    return _condition(body, ConditionType.READY)


def _condition(body: Body, type_: ConditionType) -> Mapping[str, Any]:
    conditions = (body.get("status") or {}).get("conditions")
    return conditions_by_type(conditions).get(type_, {})


def age(stamp: object, now: datetime) -> str:
    """How long ago, in kubectl's format: 45s, 12m, 5h, 3d."""
    moment = parse_time(stamp)
    if moment is None:
        return "-"
    seconds = max(int((now - moment).total_seconds()), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def until(stamp: object, now: datetime) -> str:
    """How long until then: ``in 45s``; ``now`` where it is past."""
    moment = parse_time(stamp)
    if moment is None:
        return "-"
    seconds = int((moment - now).total_seconds())
    if seconds <= 0:
        return "now"
    if seconds < 120:
        return f"in {seconds}s"
    return f"in {seconds // 60}m" if seconds < 7200 else f"in {seconds // 3600}h"


def digest(value: object) -> str:
    """The first characters of a digest, enough to distinguish two."""
    text = str(value or "")
    return text.removeprefix("sha256:")[:12] or "-"


def trouble(body: Body) -> str:
    """The fault; empty where there is none."""
    if not ready(body):
        return f"not reconciled yet; see: {hint('doctor')}"
    condition = ready(body)
    fine = condition.get("status") == "True" and condition.get("reason") not in _TOLD
    return "" if fine else str(condition.get("message") or "")


_TOLD = (RuleReason.NO_TARGETS, *PAUSES)
"""Reasons for which the message is shown although Ready is True."""


def is_suspended(body: Body) -> bool:
    """Whether nothing is written or deployed for it: Ready keeps its status meanwhile."""
    return _reason(body) in PAUSES


_FOR_PEOPLE = (
    BundleReason.AWAITING_APPROVAL,
    BundleReason.PLAN_FAILED,
    BundleReason.PLAN_UNSTABLE,
    BundleReason.PROMOTION_HELD,
    BundleReason.PROMOTION_NOT_ALLOWED,
    BundleReason.FROZEN,
    BundleReason.FREEZE_UNREADABLE,
)
"""Reasons for which a version waits until a person does something, and faults of plans."""


def awaited(body: Body) -> str:
    """The reason why a Bundle's version waits for a person, or its plan failed; else empty."""
    pending = _condition(body, ConditionType.UPDATE_PENDING)
    waits = pending.get("status") == "True" and pending.get("reason") in _FOR_PEOPLE
    return str(pending["reason"]) if waits else ""


def failed_poll(body: Body) -> str:
    """The error of the last poll, where polls have failed and Ready is kept; else empty."""
    status = body.get("status") or {}
    failed, error = (status.get(name) or {} for name in ("failedPolls", "lastError"))
    if not failed.get("count") or ready(body).get("status") == ConditionStatus.FALSE:
        return ""
    return f"The last poll failed ({error.get('reason')}): {error.get('message')}"


def bundle_trouble(body: Body) -> str:
    """The fault, what isn't trusted, healthy or as deployed, or what a person has to do."""
    pending = _condition(body, ConditionType.UPDATE_PENDING)
    waits = awaited(body)
    healthy = _condition(body, ConditionType.HEALTHY)
    unseen = healthy.get("reason") in (HealthReason.FORBIDDEN, HealthReason.OTHER_MANAGER)
    verified = _condition(body, ConditionType.VERIFIED)
    doubted = verified.get("status") in ("False", "Unknown")
    if waits and trouble(body) and waits != _reason(body):
        return f"{trouble(body)}. {pending.get('message') or ''}"
    return (
        trouble(body)
        or failed_poll(body)
        or (str(verified.get("message") or "") if doubted else "")
        or (str(healthy.get("message")) if is_unhealthy(body) or unseen else "")
        or (str(_condition(body, ConditionType.DRIFTED).get("message")) if is_drifted(body) else "")
        or (str(pending.get("message") or "") if waits else "")
    )


def is_frozen(body: Body) -> bool:
    """Whether something waits for the end of a freeze."""
    gates = (body.get("status") or {}).get("gates") or []
    return any(
        isinstance(one, Mapping) and one.get("name") == "freeze" and one.get("state") != "Passed"
        for one in (gates if isinstance(gates, list) else [])
    )


def is_untrusted(body: Body) -> bool:
    """Whether a Bundle runs a version whose signatures aren't trusted, or not any more."""
    return bool(_condition(body, ConditionType.VERIFIED).get("status") == "False")


def is_drifted(body: Body) -> bool:
    """Whether objects of a Bundle's release aren't as they were deployed."""
    return bool(_condition(body, ConditionType.DRIFTED).get("status") == "True")


def is_unhealthy(body: Body) -> bool:
    """Whether objects of a Bundle's release aren't as their controllers want them."""
    return bool(_condition(body, ConditionType.HEALTHY).get("status") == "False")


def bundle_reason(body: Body) -> str:
    """The reason of Ready, and what else isn't well: ``Deployed,Unhealthy,Drifted``."""
    parts = [_reason(body)]
    told = (BundleReason.FROZEN, BundleReason.FREEZE_UNREADABLE)
    parts += ["Frozen"] if is_frozen(body) and parts[0] not in told else []
    parts += ["Untrusted"] if is_untrusted(body) else []
    parts += ["Unhealthy"] if is_unhealthy(body) else []
    parts += ["Drifted"] if is_drifted(body) else []
    return ",".join(parts)


def _reason(body: Body) -> str:
    return str(ready(body).get("reason") or "-")


def _at(*path: str) -> Any:
    def value(body: Body) -> str:
        found: Any = body
        for step in path:
            found = (found or {}).get(step) if isinstance(found, Mapping) else None
        return str(found) if found not in (None, "") else "-"

    return value


NAMESPACE = Column("NAMESPACE", _at("metadata", "namespace"))
NAME = Column("NAME", _at("metadata", "name"))


def common_columns(now: datetime, reason: Callable[[Body], str] = _reason) -> tuple[Column, ...]:
    """The columns that rules and Bundles have."""
    return (
        NAME,
        Column("READY", lambda body: str(ready(body).get("status") or "-")),
        Column("REASON", reason),
        Column("SINCE", lambda body: age(ready(body).get("lastTransitionTime"), now), spare=2),
    )


def bundle_columns(now: datetime) -> list[Column]:
    """The columns of `get bundles`."""
    return [
        *common_columns(now, bundle_reason),
        Column("DEPLOYED", _at("status", "deployed", "version")),
        Column("AVAILABLE", _at("status", "available", "version"), spare=1),
        Column(
            "WANTED", lambda body: str((body.get("spec") or {}).get("version") or "latest"), True
        ),
        Column(
            "FROM",
            lambda body: f"{_at('spec', 'registry')(body)}/{_at('spec', 'repo')(body)}",
            wide=True,
        ),
        Column(
            "DIGEST",
            lambda body: digest(((body.get("status") or {}).get("deployed") or {}).get("digest")),
            wide=True,
        ),
        Column("MESSAGE", bundle_trouble, below=True),
    ]


def annotation(body: Body, name: str) -> str:
    """An annotation's value, or a dash."""
    return str((body["metadata"].get("annotations") or {}).get(name) or "-")


def passed_over(attempt: Mapping[str, Any]) -> str:
    """The gates that a forced deploy skipped; empty for other attempts."""
    return ", ".join(str(one.name) for one in HistoryEntry.parse(attempt).passed_over)


def copy_columns(now: datetime) -> list[Column]:
    """The columns of `get copies`."""
    return [
        Column("KIND", lambda body: str(body["kind"])),
        NAME,
        Column("AGE", lambda body: age(body["metadata"].get("creationTimestamp"), now)),
        Column("RULE", lambda body: annotation(body, names.ANN_RULE)),
        Column("SOURCE", lambda body: annotation(body, names.ANN_SOURCE), wide=True),
    ]
