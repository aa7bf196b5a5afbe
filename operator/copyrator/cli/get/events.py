"""`copyrator events`: the Events of rules and Bundles, as `kubectl events` and `flux events`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.objects import RESOURCES, object_arguments, one
from copyrator.cli.core.output import (
    Column,
    Format,
    Table,
    output_option,
    plain,
    show_all,
)
from copyrator.cli.get.get import Watched, changes_of
from copyrator.cli.view import rows
from copyrator.kube.resources import EVENTS

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

OURS = (names.RULE_KIND, names.BUNDLE_KIND)

Body = Mapping[str, Any]


@click.command()
@object_arguments("rules", "bundles", required=False)
@cluster_options(everywhere=True)
@output_option
@click.option("-w", "--watch", is_flag=True, help="Watch for further Events until Ctrl-C.")
@click.option("--no-headers", is_flag=True, help="Don't print headers.")
def events(
    *,
    target: Target,
    what: str | None,
    name: str | None,
    shape: Format,
    watch: bool,
    no_headers: bool,
) -> None:
    """List the Events of rules and Bundles, newest last; all in the namespace, or of one object."""
    columns = event_columns(datetime.now(UTC), namespaces=target.everywhere)
    wide = shape is Format.WIDE
    table = Table(columns, wide=wide, whole=True, heads=not no_headers)
    run(_events(target, what, name, _EventPrinter(shape, table), watch=watch))


@dataclass(frozen=True, slots=True)
class _EventQuery:
    """Events of these kinds in a namespace (None: in all), or of one object.

    Some Events are about several rules: their object is the Namespace.
    """

    kinds: Sequence[str]
    namespace: str | None
    uid: str | None = None
    name: str | None = None

    @property
    def selectors(self) -> list[str | None]:
        """The field selectors by which the API server chooses."""
        if self.uid is None:
            return [None]
        shared = ["involvedObject.kind=Namespace"] if names.RULE_KIND in self.kinds else []
        return [f"involvedObject.uid={self.uid}", *shared]

    def includes(self, event: Body) -> bool:
        involved = event.get("involvedObject")
        if not isinstance(involved, Mapping):
            return False
        rules = (event["metadata"].get("annotations") or {}).get(names.ANN_RULES)
        if involved.get("kind") == "Namespace" and rules is not None:
            return names.RULE_KIND in self.kinds and self.name in (None, *str(rules).split(","))
        return involved.get("kind") in self.kinds


@dataclass(frozen=True, slots=True)
class _EventPrinter:
    """Prints Events in the chosen shape."""

    shape: Format
    table: Table

    def print(self, found: Sequence[Body], *, single: bool = False) -> None:
        if self.shape in (Format.JSON, Format.YAML, Format.NAME):
            show_all(found, self.shape, single=single)
        else:
            self.table.print(found)


async def _events(
    target: Target, what: str | None, name: str | None, printer: _EventPrinter, *, watch: bool
) -> None:
    async with target.connect() as client:
        choice = await _choose(client, target, what, name)
        found, version = await _listed(client, choice)
        if found or watch or printer.shape in (Format.JSON, Format.YAML):
            printer.print(found)
        else:
            click.echo("No Events found; the API server keeps them for an hour.", err=True)
        if watch:
            watched = [
                Watched(
                    EVENTS,
                    choice.namespace,
                    metadata_only=False,
                    fields=selector,
                    version=version,
                    deletions=False,  # the API server deletes them after an hour
                )
                for selector in choice.selectors
            ]
            async for event in changes_of(client, watched):
                if choice.includes(event):
                    printer.print([event], single=True)


async def _choose(
    client: KubeClient, target: Target, what: str | None, name: str | None
) -> _EventQuery:
    kinds = [RESOURCES[what].kind] if what else OURS
    if not (what and name):
        return _EventQuery(kinds, target.scope)
    namespace, name = target.locate(name)
    body = await one(client, what, namespace, name)
    return _EventQuery(kinds, namespace, body["metadata"]["uid"], name)


async def events_of(client: KubeClient, kind: str, body: Body) -> list[dict[str, Any]]:
    """The Events of one object, newest last."""
    metadata = body["metadata"]
    place = metadata["namespace"], metadata["uid"], metadata["name"]
    found, _ = await _listed(client, _EventQuery([kind], *place))
    return found


async def _listed(
    client: KubeClient, choice: _EventQuery
) -> tuple[list[dict[str, Any]], str | None]:
    """The Events, newest last, and the version from which a watch continues."""

    async def listed(selector: str | None) -> tuple[list[dict[str, Any]], str | None]:
        found: list[dict[str, Any]] = []
        version: str | None = None
        async for page in client.list_pages(EVENTS, choice.namespace, field_selector=selector):
            version = page.resource_version
            found += [
                plain({**event, "apiVersion": "v1", "kind": "Event"})
                for event in page.items
                if choice.includes(event)
            ]
        return found, version

    lists = await asyncio.gather(*map(listed, choice.selectors))
    found = [event for events, _ in lists for event in events]
    return sorted(found, key=last_seen), lists[0][1]


def last_seen(event: Body) -> str:
    """The time of an Event, as the API server has it."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def event_columns(now: datetime, *, namespaces: bool) -> list[Column]:
    """The columns of `events`."""

    def of(event: Body) -> str:
        involved = event["involvedObject"]
        return f"{str(involved.get('kind')).lower()}/{involved.get('name')}"

    columns = [
        Column("LAST SEEN", lambda event: rows.age(last_seen(event), now)),
        Column("TYPE", lambda event: str(event.get("type"))),
        Column("REASON", lambda event: str(event.get("reason"))),
        Column("OBJECT", of),
        Column("MESSAGE", lambda event: str(event.get("message")), below=True),
    ]
    return [rows.NAMESPACE, *columns] if namespaces else columns


def times(event: Body) -> str:
    """How often it occurred, where more than once: `` (x3)``."""
    count = 1
    with suppress(TypeError, ValueError):
        count = int(event.get("count") or 1)
    return f" (x{count})" if count > 1 else ""
