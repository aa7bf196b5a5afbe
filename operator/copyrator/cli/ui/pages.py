"""The pages' HTML, from what is known of the objects.

Every text is escaped where it is inserted: messages come from registries, from werf and from those
who may write a status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from copyrator import __version__
from copyrator.api.keys import ObjectName
from copyrator.api.text import count, format_time, printable, said
from copyrator.bundles.words import Banner
from copyrator.cli.core.installation import Installation
from copyrator.cli.ui import rule_page
from copyrator.cli.ui.bundle_page import Readings, bundle_parts, bundle_values
from copyrator.cli.ui.parts import SIGNS, STATE_TONES, address, certificate_tone, segment
from copyrator.cli.ui.promotion_path import PromotionGraph
from copyrator.cli.ui.rule_page import RulePage
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.lists import Listing, Matrix, Query, Search, View, matrix
from copyrator.cli.view.overview import Overview, Snapshot
from copyrator.cli.view.rule import RuleView
from copyrator.cli.view.why_copy import count_rules, group_answers

FIRST: Final = 25
"""Rules and Bundles of a list of the overview."""
DETAILED: Final = 500
"""Rules, and Bundles, of which a report has the details."""
LONGEST: Final = 2000
"""Characters of a message in a report."""
EVERYTHING: Final = Query()
_HERE: Final = Path(__file__).parent


def _plain(value: Any) -> Any:
    """A value as it is inserted: text without what hides or reorders it."""
    return printable(value) if type(value) is str else value


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
            finalize=_plain,
        )
        self._templates.filters |= {
            "segment": segment,
            "short": said,
            "counted": count,
            "printable": printable,
            "copy_page": rule_page.copy_page,
            "rule_path": rule_page.rule_path,
            "count_rules": count_rules,
            "group_answers": group_answers,
            "place_on_line": rule_page.place_on_line,
            "certificate_tone": certificate_tone,
        }
        self._templates.globals |= {
            "address": address,
            "state_tones": STATE_TONES,
            "signs": SIGNS,
            "looks": rule_page.LOOKS,
            "copies_address": rule_page.copies_address,
            "ticks": rule_page.TICKS,
            "time_width": rule_page.TIME_WIDTH,
        }
        self._common = {"cluster": cluster, "user": user, "version": __version__}

    def page(self, content: str, *, fragment: bool = False, **values: Any) -> str:
        """A page, or only its main part; ``title`` is required.

        ``here``: its path, where the menu has it; ``within``: that of the list that it belongs to.
        ``notice``: what was done, above the main part, where it stays while that is updated;
        ``notice_tone``: of it.
        """
        defaults = {"live": True, "actions": (), "back": "", "here": "", "within": "", "asked": ""}
        defaults |= {"notice": "", "notice_tone": "good", "barred": ""}
        values = {**defaults, **values, **self._common}
        template = content if fragment else "base.html"
        return self._templates.get_template(template).render(content=content, **values)

    def overview(
        self, seen: Snapshot, view: Overview, query: Query = EVERYTHING, **how: Any
    ) -> str:
        """The first page, of what a query chooses."""
        failing = view.number(rows.State.FAILING)
        title = f"Overview ({failing} Failing)" if failing else "Overview"
        values: dict[str, Any] = {"seen": seen, "view": view, "query": query, "most": FIRST}
        return self.page("overview.html", title=title, here="/", **values, **how)

    def list_objects(
        self,
        what: str,
        seen: Snapshot,
        listing: Listing,
        banners: Sequence[Banner] = (),
        **how: Any,
    ) -> str:
        """All rules, or all Bundles, a page at a time."""
        values: dict[str, Any] = {
            "seen": seen,
            "what": what,
            "listing": listing,
            "banners": banners,
        }
        return self.page("list.html", title=what.capitalize(), here=f"/{what}", **values, **how)

    def search(self, seen: Snapshot, found: Search, **how: Any) -> str:
        """What was looked for in everything."""
        text = found.query.text
        title = f"Search: {text}" if text else "Search"
        return self.page("search.html", title=title, seen=seen, found=found, asked=text, **how)

    def matrix(self, seen: Snapshot, table: Matrix, **how: Any) -> str:
        """Rules and namespaces."""

        def turned(name: str, number: int) -> str:
            view = table.view
            numbers = {"rules": view.row_page, "namespaces": view.column_page, name: number}
            query = {"rules": view.rules, "namespaces": view.namespaces}
            query |= {"faults": "1"} if view.only_faults else {}
            query |= {"page": str(numbers["namespaces"]), "from": str(numbers["rules"])}
            return f"/matrix?{urlencode(query)}"

        values: dict[str, Any] = {"seen": seen, "table": table, "turned": turned}
        return self.page("matrix.html", title="Namespaces", here="/matrix", **values, **how)

    def bundle(self, seen: Snapshot, view: BundleView, found: Readings, **how: Any) -> str:
        """A Bundle, with what was read for its page."""
        return self.page("bundle.html", **bundle_values(seen, view, found), **how)

    def report(
        self, seen: Snapshot, view: Overview, installation: Installation, now: datetime
    ) -> str:
        """All of it in one file, which needs no other and runs no code."""
        rules = [seen.rules[ObjectName(row.namespace, row.name)] for row in view.rules]
        bundles = [seen.bundles[ObjectName(row.namespace, row.name)] for row in view.bundles]
        graph = PromotionGraph(seen.bundles, now)
        style = (_HERE / "assets" / "style.css").read_text()
        listed = {(row.what, row.shown) for row in (*view.attention, *view.moving)}
        return self._templates.get_template(
            "report.html"
        ).render(
            title="Rules and Bundles",
            time=format_time(now),
            style=Markup(style),  # noqa: S704 - our own file
            seen=seen,
            view=view,
            table=matrix(seen, View(), now),
            other_rules=[row for row in view.rules if (row.what, row.shown) not in listed],
            other_bundles=[row for row in view.bundles if (row.what, row.shown) not in listed],
            rules=[
                RulePage(RuleView(body, now), seen, static=True, name=f"rule-{number}")
                for number, body in enumerate(rules[:DETAILED])
            ],
            bundles=[
                _reported_bundle(BundleView(body, now, installation), graph, number)
                for number, body in enumerate(bundles[:DETAILED])
            ],
            left=max(len(rules) - DETAILED, 0) + max(len(bundles) - DETAILED, 0),
            **self._common,
        )

    def texts(self, title: str, parts: Sequence[tuple[str, str]], **how: Any) -> str:
        """A page of texts below heads; it isn't updated."""
        shown = [(head, printable(text)) for head, text in parts]
        return self.page("lines.html", title=title, parts=shown, live=False, **how)

    def confirm(self, title: str, **values: Any) -> str:
        """The question before something is written."""
        return self.page("confirm.html", title=title, live=False, **values)

    def decision(self, seen: Snapshot, plan: Mapping[str, Any], **values: Any) -> str:
        """A plan, and the form by which it is decided; it isn't updated while it is read."""
        values |= {"within": "/bundles", "live": False, "seen": seen, **plan}
        return self.page("decision.html", title=f"Plan of Bundle {plan['bundle']}", **values)


def _reported_bundle(view: BundleView, graph: PromotionGraph, number: int) -> dict[str, Any]:
    """What a report shows of a Bundle; a file has many, so its message is shortened."""
    found = bundle_parts(view, graph, suffix=f"-{number}")
    return found | {"sentence": said(found["sentence"], LONGEST)}
