"""`copyrator events`: the Events of rules and Bundles, as `kubectl events` and `flux events`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.api import names
from copyrator.cli import rows
from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.objects import RESOURCES, What, complete_names, one
from copyrator.cli.output import Column, Format, Table, dump, items, output_option, plain, reference
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import EVENTS

OURS = (names.RULE_KIND, names.BUNDLE_KIND)

Body = Mapping[str, Any]


@click.command()
@click.argument("what", type=What("rules", "bundles"), required=False)
@click.argument("name", metavar="[[NAMESPACE/]NAME]", required=False, shell_complete=complete_names)
@cluster_options(everywhere=True)
@output_option
@click.option("--no-headers", is_flag=True, help="Don't print headers.")
def events(
    target: Target, what: str | None, name: str | None, shape: Format, no_headers: bool
) -> None:
    """List the Events of rules and Bundles, newest last; all in the namespace, or of one object."""
    found = run(_events(target, what, name))
    if shape in (Format.JSON, Format.YAML):
        dump(items(found), shape)
    elif shape is Format.NAME:
        for event in found:
            click.echo(reference(event))
    elif not found:
        click.echo("No Events found; the API server keeps them for an hour.", err=True)
    else:
        columns = event_columns(datetime.now(UTC), namespaces=target.everywhere)
        wide = shape is Format.WIDE
        Table(columns, wide=wide, whole=True, heads=not no_headers).print(found)


async def _events(target: Target, what: str | None, name: str | None) -> list[dict[str, Any]]:
    async with target.connect() as client:
        if what and name:
            namespace, name = target.locate(name)
            return await events_of(client, await one(client, what, namespace, name))
        kinds = [RESOURCES[what].kind] if what else OURS
        found = await _listed(client, target.scope)
        return [event for event in found if event["involvedObject"].get("kind") in kinds]


async def events_of(client: KubeClient, body: Body) -> list[dict[str, Any]]:
    """The Events of an object, newest last."""
    metadata = body["metadata"]
    selector = f"involvedObject.uid={metadata['uid']}"
    return await _listed(client, metadata["namespace"], selector)


async def _listed(
    client: KubeClient, namespace: str | None, selector: str | None = None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    async for page in client.list_pages(EVENTS, namespace, field_selector=selector):
        found += [
            plain({**event, "apiVersion": "v1", "kind": "Event"})
            for event in page.items
            if isinstance(event.get("involvedObject"), Mapping)
        ]
    return sorted(found, key=last_seen)


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
