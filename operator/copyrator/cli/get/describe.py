"""`copyrator describe`: one object with its state and Events.

Each part imports its own part of the operator, which takes as long as its requests.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.api.text import Detail, detail_lines, printable, time_since
from copyrator.cli.core.cluster import ahead, all_of
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    operator_namespace_option,
)
from copyrator.cli.core.objects import (
    RESOURCES,
    Body,
    ObjectOptions,
    annotations_of,
    object_options,
)
from copyrator.cli.core.output import Kind, answer_option, dump, plain, prose, typed
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import EVENTS

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

EVENTS_SHOWN = 10
LONG = 60
"""Characters of an error that is printed only once."""


@click.command()
@object_options("rules", "bundles")
@operator_namespace_option
@answer_option
async def describe(options: ObjectOptions, home: str | None) -> None:
    """Show details of a rule or Bundle: spec, status and Events.

    A copy is explained by `why`. Values are never shown.
    """
    now, what = datetime.now(UTC), options.what
    from copyrator.cli.view.operator import read_downtime

    place, _ = options.target.locate(options.name)
    async with (
        options.target.connect() as client,
        ahead(find_installation(client, home)) as finding,
        ahead(read_downtime(client, finding, [place])) as downtime,
    ):
        body = await options.read(client)
        events: list[dict[str, Any]] = []
        async with ahead(_parts(client, what, body, now, finding)) as described:
            with suppress(errors.Forbidden):
                events = (await events_of(client, RESOURCES[what].kind, body))[-EVENTS_SHOWN:]
            parts = await described
        prose(await downtime, err=True)
    if options.shape is not None:
        dump(typed(Kind.DESCRIPTION, {"object": plain(body), "events": events}), options.shape)
        return
    lines = [
        f"{row['age']:>4}  {row['type']}  {row['reason']}: {row['message']}"
        for row in event_rows(events, now)
    ]
    told = Detail("Events", "" if lines else "none", lines)
    later = [*rows.describe_conditions(what, body, now), told]
    if what == "bundles":
        later = list(refer_to_error(body, later))
    prose(detail_lines([*parts, *later]))


def refer_to_error(body: Body, parts: Iterable[Detail]) -> Iterator[Detail]:
    """Parts of a Bundle below "Last error", without the text of that, if it is long."""
    from copyrator.bundles.fields import parse_status

    text = parse_status(body).last_error.message or ""
    for part in parts:
        if len(text) > LONG:
            yield replace(part, below=[one.replace(text, "see Last error") for one in part.below])
        else:
            yield part


async def _parts(
    client: KubeClient, what: str, body: Body, now: datetime, finding: Awaitable[Installation]
) -> Iterable[Detail]:
    """The parts about a rule or a Bundle."""
    if what == "rules":
        from copyrator.cli.view.rule import RuleView, describe_rule

        return describe_rule(RuleView(body, now))
    from copyrator.cli.core.beside import read_for
    from copyrator.cli.view.bundle import BundleView, describe_bundle

    installation = await finding
    found = await read_for(client, installation, body)
    view = BundleView(body, now, installation, found.values, found.unread)
    return describe_bundle(view)


async def events_of(client: KubeClient, kind: str, body: Body) -> list[dict[str, Any]]:
    """The Events of one object, newest last.

    Some are about several rules: their object is the Namespace.
    """
    metadata, is_rule = body["metadata"], kind == names.RULE_KIND
    selectors = [f"involvedObject.uid={metadata['uid']}"]
    selectors += ["involvedObject.kind=Namespace"] if is_rule else []

    def is_about_it(event: Body) -> bool:
        involved = event.get("involvedObject")
        if not isinstance(involved, Mapping):
            return False
        rules = annotations_of(event).get(names.ANN_RULES)
        if involved.get("kind") == "Namespace" and rules is not None:
            return is_rule and metadata["name"] in str(rules).split(",")
        return bool(involved.get("kind") == kind)

    async def listed(selector: str) -> list[dict[str, Any]]:
        pages = client.list_pages(EVENTS, metadata["namespace"], field_selector=selector)
        return [
            plain({**event, "apiVersion": "v1", "kind": "Event"})
            async for page in pages
            for event in page.items
            if is_about_it(event)
        ]

    lists = await all_of(map(listed, selectors))
    return sorted((event for events in lists for event in events), key=_last_seen)


def event_rows(events: Iterable[Body], now: datetime) -> list[dict[str, str]]:
    """Events as a table; the reason with how often it occurred, where more than once."""
    found = []
    for event in events:
        times = 1
        with suppress(TypeError, ValueError):
            times = int(event.get("count") or 1)
        row = {
            "age": time_since(_last_seen(event), now),
            "type": str(event.get("type")),
            "reason": f"{event.get('reason')}{f' (x{times})' if times > 1 else ''}",
            "message": printable(str(event.get("message"))),
        }
        found.append(row)
    return found


def _last_seen(event: Body) -> str:
    """The time of an Event, as the API server has it."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
