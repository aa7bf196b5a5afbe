"""`copyrator get`: rules, Bundles and copies in a table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.api import names
from copyrator.cli import rows
from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.faults import Fault
from copyrator.cli.objects import (
    MANAGED,
    RESOURCES,
    What,
    complete_names,
    copies,
    listed,
    one,
)
from copyrator.cli.output import Column, Format, Table, dump, items, output_option, plain, reference
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import Resource


@click.command()
@click.argument("what", type=What("rules", "bundles", "copies"))
@click.argument("wanted", metavar="[NAME]...", nargs=-1, shell_complete=complete_names)
@cluster_options(everywhere=True)
@output_option
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until Ctrl-C.")
@click.option("--rule", metavar="[NAMESPACE/]NAME", help="Only this rule's copies.")
def get(
    *,
    target: Target,
    what: str,
    wanted: tuple[str, ...],
    shape: Format,
    watch: bool,
    rule: str | None,
) -> None:
    """List rules, bundles or copies with their status and age."""
    if rule and what != "copies":
        raise click.UsageError("--rule is only for copies: copyrator get copies --rule NAME")
    run(_get(target, what, wanted, shape, watch=watch, rule=rule))


async def _get(
    target: Target,
    what: str,
    wanted: Sequence[str],
    shape: Format,
    *,
    watch: bool,
    rule: str | None,
) -> None:
    async with target.connect() as client:
        resources, found = await _read(client, target, what)
        chosen = _chosen(found, wanted, rule)
        if wanted and what != "copies" and (missing := set(wanted) - _names(chosen)):
            await one(client, what, target.namespace, min(missing))  # its message says where it is
        printer = _Printer(target, what, shape)
        if not chosen and not watch:
            _nothing(target, what, printer)
            return
        printer.print(chosen, single=len(wanted) == 1 and len(chosen) == 1)
        if watch:
            await _watch(client, target, resources, printer, (wanted, rule))


async def _read(
    client: KubeClient, target: Target, what: str
) -> tuple[list[Resource], list[dict[str, Any]]]:
    if what == "copies":
        return await copies(client, target.scope)
    return [RESOURCES[what]], await listed(client, RESOURCES[what], target.scope)


def _chosen(
    found: Sequence[dict[str, Any]], wanted: Sequence[str], rule: str | None
) -> list[dict[str, Any]]:
    return [
        body
        for body in found
        if (not wanted or body["metadata"]["name"] in wanted)
        and (not rule or _is_of(rows.annotation(body, names.ANN_RULE), rule))
    ]


def _is_of(owner: str, rule: str) -> bool:
    return owner == rule or ("/" not in rule and owner.partition("/")[2] == rule)


def _names(found: Sequence[dict[str, Any]]) -> set[str]:
    return {body["metadata"]["name"] for body in found}


def _nothing(target: Target, what: str, printer: _Printer) -> None:
    if printer.shape in (Format.JSON, Format.YAML):
        dump(items([]), printer.shape)
        return
    where = "in any namespace" if target.everywhere else f"in the namespace {target.namespace}"
    hint = "" if target.everywhere else "; -A searches all namespaces"
    click.echo(f"No {what} found {where}{hint}.", err=True)


class _Printer:
    """Prints objects of one kind in the chosen shape."""

    def __init__(self, target: Target, what: str, shape: Format) -> None:
        now = datetime.now(UTC)
        makers = {
            "rules": rows.rule_columns,
            "bundles": rows.bundle_columns,
            "copies": rows.copy_columns,
        }
        columns: list[Column] = makers[what](now)
        if target.everywhere:
            columns.insert(0, rows.NAMESPACE)
        self.shape = shape
        self._table = Table(columns, wide=shape is Format.WIDE)

    def print(self, found: Sequence[dict[str, Any]], *, single: bool = False) -> None:
        match self.shape:
            case Format.JSON | Format.YAML:
                dump(plain(found[0]) if single else items(found), self.shape)
            case Format.NAME:
                for body in found:
                    click.echo(reference(body))
            case _:
                self._table.print(found)


async def _watch(
    client: KubeClient,
    target: Target,
    resources: Sequence[Resource],
    printer: _Printer,
    choice: tuple[Sequence[str], str | None],
) -> None:
    """Print each change until the user interrupts it."""
    changes: asyncio.Queue[dict[str, Any] | errors.ApiError] = asyncio.Queue()
    selector = MANAGED if len(resources) > 1 else None
    tasks = [
        asyncio.create_task(_follow(client, resource, target.scope, selector, changes))
        for resource in resources
    ]
    try:
        while True:
            change = await changes.get()
            if isinstance(change, errors.ApiError):
                raise change
            if _chosen([change], *choice):
                printer.print([change], single=True)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    client: KubeClient,
    resource: Resource,
    namespace: str | None,
    selector: str | None,
    changes: asyncio.Queue[dict[str, Any] | errors.ApiError],
) -> None:
    """Queue the changes of one kind, reopening watches that end."""
    version: str | None = None
    try:
        while True:
            if version is None:
                pages = client.list_pages(
                    resource, namespace, label_selector=selector, metadata_only=True, limit=1
                )
                version = (await anext(pages)).resource_version
                await pages.aclose()
            try:
                async for event in client.watch(
                    resource,
                    namespace,
                    label_selector=selector,
                    metadata_only=selector is not None,
                    resource_version=version,
                ):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
                        changes.put_nowait({**event.object, **kind})
            except errors.Gone:
                version = None
    except errors.ApiError as error:
        changes.put_nowait(error)
    except Fault:
        raise
