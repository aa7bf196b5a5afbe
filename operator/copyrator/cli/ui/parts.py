"""What pages of several kinds have in common, as values for ``templates/parts.html``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from copyrator.cli.core.output import Detail, printable
from copyrator.cli.get.events import last_seen, times
from copyrator.cli.view import rows
from copyrator.cli.view.lists import Query

Body = Mapping[str, Any]


def segment(text: str) -> str:
    """A name as a segment of a path."""
    return quote(str(text), safe="")


def address(path: str, query: Query, **changes: Any) -> str:
    """The address of a list with a query, changed."""
    found = urlencode(replace(query, **changes).parameters)
    return f"{path}?{found}" if found else path


@dataclass(frozen=True, slots=True)
class PageAction:
    """An action that a page offers."""

    verb: str
    text: str
    path: str


def fields(parts: Iterable[Detail]) -> list[tuple[str, str]]:
    """The parts of a description as labels and texts."""
    return [(part.label, part.text) for part in parts]


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
