"""The pages' HTML, from what is known of the objects.

Every text is escaped where it is inserted: messages come from registries, from werf and from those
who may write a status.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from textwrap import dedent
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from markupsafe import Markup

from copyrator import __version__
from copyrator.api.bundle_status import parse_status
from copyrator.api.counts import count
from copyrator.api.keys import ObjectName
from copyrator.api.times import format_time
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.output import printable
from copyrator.cli.get.describe import bundle_lines, condition_lines, rule_lines
from copyrator.cli.get.events import last_seen, times
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import awaits_decision, said
from copyrator.cli.view.matrix import Matrix
from copyrator.cli.view.overview import Overview, Snapshot, State, bundle_row, rule_row
from copyrator.cli.view.rule import RuleView
from copyrator.cli.view.why_bundle import explain_bundle

LISTED: Final = 100
"""Rules, Bundles or copies of a list that a page shows."""
DETAILED: Final = 500
"""Rules, and Bundles, of which a report has the details."""
_HERE: Final = Path(__file__).parent
_LABEL: Final = re.compile(r"(\w[\w ]*): {2,}(.*)", re.DOTALL)

Body = Mapping[str, Any]


def segment(text: str) -> str:
    """A name as a segment of a path."""
    return quote(str(text), safe="")


@dataclass(frozen=True, slots=True)
class PageAction:
    """An action that a page offers."""

    verb: str
    text: str
    path: str


def fields(lines: Iterable[str]) -> list[tuple[str, str]]:
    """The lines of `describe` as labels and texts; a line without a label belongs to the last."""
    found: list[tuple[str, str, list[str]]] = []
    for line in lines:
        if match := _LABEL.fullmatch(line):
            found.append((match[1], match[2], []))
        elif line.endswith(":") and not line.startswith(" "):
            found.append((line[:-1], "", []))
        elif found:
            found[-1][2].append(line)
    return [
        (label, "\n".join([text, dedent("\n".join(more))]).strip()) for label, text, more in found
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


def history_rows(body: Body, now: datetime) -> list[dict[str, str]]:
    """A Bundle's last deploys as a table."""
    return [
        {
            "age": rows.age(entry.get("time"), now),
            "version": said(entry.get("version")),
            "digest": rows.digest(entry.get("digest")),
            "outcome": said(entry.get("outcome")),
            "approved_by": said(entry.get("approvedBy")),
            "reason": said(entry.get("reason")),
        }
        for entry in (body.get("status") or {}).get("history") or ()
        if isinstance(entry, Mapping)
    ]


def actions_of(what: str, body: Body, now: datetime) -> list[PageAction]:
    """What can be done to a rule or Bundle."""
    return list(_actions(what, body, now))


def _actions(what: str, body: Body, now: datetime) -> Iterator[PageAction]:
    spec = body.get("spec")
    verbs = ["reconcile"]
    if isinstance(spec, Mapping):  # the old form has no suspend
        verbs.append("resume" if spec.get("suspend") else "suspend")
    if what == "bundles" and awaits_decision(body, now):
        verbs += ["approve", "reject"]
    metadata = body["metadata"]
    place = f"{what}/{segment(metadata['namespace'])}/{segment(metadata['name'])}"
    for verb in verbs:
        yield PageAction(verb, f"{verb.capitalize()} …", f"/do/{verb}/{place}")


class Pages:
    """Renders the pages for one cluster and user."""

    def __init__(self, *, cluster: str, user: str) -> None:
        loader = jinja2.FileSystemLoader(_HERE / "templates")
        self._templates = jinja2.Environment(
            loader=loader,
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        self._templates.filters["segment"] = segment
        self._common = {"cluster": cluster, "user": user, "version": __version__}

    def page(self, content: str, *, fragment: bool = False, **values: Any) -> str:
        """A page, or only its main part; ``title`` and ``here`` (its path) are required."""
        values = {"live": True, "actions": (), "back": "", **values, **self._common}
        template = content if fragment else "base.html"
        return self._templates.get_template(template).render(content=content, **values)

    def overview(self, seen: Snapshot, view: Overview, *, fragment: bool) -> str:
        """The first page."""
        return self.page(
            "overview.html",
            fragment=fragment,
            title=_title("Overview", view),
            here="/",
            seen=seen,
            view=view,
            most=LISTED,
        )

    def matrix(self, seen: Snapshot, table: Matrix, *, fragment: bool) -> str:
        """Rules and namespaces."""

        def turned(name: str, number: int) -> str:
            view = table.view
            numbers = {"rules": view.row_page, "namespaces": view.column_page, name: number}
            query = {"rules": view.rules, "namespaces": view.namespaces}
            query |= {"faults": "1"} if view.only_faults else {}
            query |= {"page": str(numbers["namespaces"]), "from": str(numbers["rules"])}
            return f"/matrix?{urlencode(query)}"

        return self.page(
            "matrix.html",
            fragment=fragment,
            title="Namespaces",
            here="/matrix",
            seen=seen,
            table=table,
            turned=turned,
        )

    def rule(
        self,
        seen: Snapshot,
        body: Body,
        events: Sequence[Body],
        place: str,
        now: datetime,
        *,
        fragment: bool,
    ) -> str:
        """A rule with its copies, in one namespace or in all."""
        row = rule_row(RuleView(body, now))
        found = seen.copies.of(row.shown)
        places = [place] if place else sorted(found)
        copies: list[dict[str, str]] = []
        for one in places:
            if len(copies) >= LISTED:
                break
            copies += [
                {"namespace": one, "kind": kind, "name": name}
                for kind, name in sorted(found.get(one, ()))
            ]
        return self.page(
            "rule.html",
            fragment=fragment,
            title=f"Rule {row.shown}",
            here="",
            seen=seen,
            row=row,
            path=f"/rules/{segment(row.namespace)}/{segment(row.name)}",
            place=place,
            copies=copies[:LISTED],
            expected=next((one for names in found.values() for one in sorted(names)), None),
            total=sum(len(found.get(one, ())) for one in places),
            fields=fields([*rule_lines(body, now), *condition_lines(body, now)]),
            events=event_rows(events, now),
            actions=actions_of("rules", body, now),
        )

    def bundle(
        self,
        seen: Snapshot,
        body: Body,
        events: Sequence[Body],
        installation: Installation,
        now: datetime,
        *,
        fragment: bool,
    ) -> str:
        """A Bundle with its gates and history."""
        row = bundle_row(body, now)
        lines = [*bundle_lines(body, now, installation), *condition_lines(body, now)]
        return self.page(
            "bundle.html",
            fragment=fragment,
            title=f"Bundle {row.shown}",
            here="",
            seen=seen,
            row=row,
            path=f"/bundles/{segment(row.namespace)}/{segment(row.name)}",
            gates=parse_status(body).gates,
            why=list(explain_bundle(body, installation, now)),
            fields=fields(lines),
            history=history_rows(body, now),
            events=event_rows(events, now),
            actions=actions_of("bundles", body, now),
        )

    def report(
        self, seen: Snapshot, view: Overview, installation: Installation, now: datetime
    ) -> str:
        """All of it in one file, which needs no other and runs no code."""
        rules = [seen.rules[ObjectName(row.namespace, row.name)] for row in view.rules]
        bundles = [seen.bundles[ObjectName(row.namespace, row.name)] for row in view.bundles]
        style = (_HERE / "assets" / "style.css").read_text()
        return self._templates.get_template(
            "report.html"
        ).render(
            title="Rules and Bundles",
            time=format_time(now),
            style=Markup(style),  # noqa: S704 - our own file
            seen=seen,
            view=view,
            rules=[_reported_rule(body, seen, now) for body in rules[:DETAILED]],
            bundles=[_reported_bundle(body, installation, now) for body in bundles[:DETAILED]],
            left=max(len(rules) - DETAILED, 0) + max(len(bundles) - DETAILED, 0),
            **self._common,
        )

    def texts(
        self,
        title: str,
        parts: Sequence[tuple[str, str]],
        *,
        back: str = "",
        fragment: bool = False,
    ) -> str:
        """A page of texts below heads; it isn't updated."""
        shown = [(head, printable(text)) for head, text in parts]
        return self.page(
            "lines.html",
            fragment=fragment,
            title=title,
            here="",
            parts=shown,
            back=back,
            live=False,
        )

    def confirm(self, **values: Any) -> str:
        """The question before something is written."""
        return self.page("confirm.html", title=values["question"], here="", live=False, **values)


def _reported_rule(body: Body, seen: Snapshot, now: datetime) -> dict[str, Any]:
    shown = rule_row(RuleView(body, now)).shown
    copies = seen.copies.of(shown)
    number = count(sum(map(len, copies.values())), "copy", "copies")
    return {
        "shown": shown,
        "fields": fields([*rule_lines(body, now), *condition_lines(body, now)]),
        "copies": f"There are {number} in {count(len(copies), 'namespace')}.",
    }


def _reported_bundle(body: Body, installation: Installation, now: datetime) -> dict[str, Any]:
    lines = [*bundle_lines(body, now, installation), *condition_lines(body, now)]
    return {
        "shown": bundle_row(body, now).shown,
        "fields": fields(lines),
        "gates": parse_status(body).gates,
        "history": history_rows(body, now),
    }


def _title(text: str, view: Overview) -> str:
    faults = view.number(State.FAULT)
    return f"{text} ({faults} with a fault)" if faults else text
