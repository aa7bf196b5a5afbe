"""What pages of several kinds have in common, as values for ``templates/parts.html``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, urlencode

from copyrator.api.conditions import ConditionType
from copyrator.cli.core.output import Detail, printable
from copyrator.cli.get.events import last_seen, times
from copyrator.cli.view import rows
from copyrator.cli.view.lists import Query
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import Validity

STATE_TONES: Final[Mapping[str, str]] = {
    State.FAILING: "fault",
    State.WAITING: "waiting",
    State.SUSPENDED: "suspended",
    State.READY: "good",
}
"""The class of the state of a rule or Bundle."""
SIGNS: Final = {"good": "✓", "waiting": "…", "suspended": "‖", "fault": "✕", "": "○"}
"""By the class, the sign beside the state's word."""
CONDITIONS: Final = 20
"""Conditions of an object that a page shows; the operator writes fewer."""

Body = Mapping[str, Any]


def segment(text: str) -> str:
    """A name as a segment of a path."""
    return quote(str(text), safe="")


def address(path: str, query: Query, **changes: Any) -> str:
    """The address of a list with a query, changed."""
    found = urlencode(replace(query, **changes).parameters)
    return f"{path}?{found}" if found else path


def certificate_tone(validity: Validity) -> str:
    """The class of a certificate."""
    return {Validity.EXPIRED: "fault", Validity.VALID: "good"}.get(validity, "waiting")


@dataclass(frozen=True, slots=True)
class PageAction:
    """An action that a page offers."""

    verb: str
    text: str
    path: str


def fields(parts: Iterable[Detail]) -> list[tuple[str, str]]:
    """The parts of a description as labels and texts."""
    return [(part.label, part.text) for part in parts]


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition."""

    type: str
    status: str
    reason: str
    since: str
    message: str
    """Empty where Ready has the same: it is the page's first sentence."""


def condition_rows(body: Body, now: datetime) -> list[ConditionRow]:
    """The conditions of a rule or Bundle, at most CONDITIONS."""
    found = rows.conditions_of(body)
    told = found.get(ConditionType.READY, {}).get("message")

    def text(one: Mapping[str, Any], part: str) -> str:
        return printable(str(one.get(part) or ""))

    return [
        ConditionRow(
            text(one, "type"),
            text(one, "status"),
            text(one, "reason"),
            rows.age(one.get("lastTransitionTime"), now),
            text(one, "message") if one.get("message") != told else "",
        )
        for one in islice(found.values(), CONDITIONS)
    ]


def event_rows(events: Sequence[Body], now: datetime) -> list[dict[str, str]]:
    """Events as a table, the newest first."""
    return [
        {
            "age": rows.age(last_seen(event), now),
            "type": str(event.get("type")),
            "reason": f"{event.get('reason')}{times(event)}",
            "message": printable(str(event.get("message"))),
        }
        for event in reversed(events)
    ]


def actions_of(what: str, body: Body, *, decides: bool = False) -> list[PageAction]:
    """What can be done to a rule or Bundle; a decision about a plan comes first."""
    spec, metadata = body.get("spec"), body["metadata"]
    verbs = ["reconcile"]
    if isinstance(spec, Mapping):  # the old form has no suspend
        verbs.append("resume" if spec.get("suspend") else "suspend")
    place = f"{what}/{segment(metadata['namespace'])}/{segment(metadata['name'])}"
    review = PageAction("review", "Review the plan …", f"/do/approve/{place}")
    asked = [PageAction(verb, f"{verb.capitalize()} …", f"/do/{verb}/{place}") for verb in verbs]
    return [review, *asked] if decides else asked
