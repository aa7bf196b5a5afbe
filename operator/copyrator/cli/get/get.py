"""`copyrator get`: rules, Bundles and copies in a table, and their changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.freeze import Freeze, sentence
from copyrator.cli.core.cluster import Target, ahead, all_of, cluster_options, run
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import Installation, find_installation
from copyrator.cli.core.objects import (
    MANAGED,
    RESOURCES,
    ObjectReference,
    find_copies,
    listed,
    objects_arguments,
    one,
    skipped,
)
from copyrator.cli.core.output import (
    Format,
    Table,
    output_option,
    prose,
    show_all,
)
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import Resource

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


@dataclass(frozen=True, slots=True)
class Watched:
    """One watch of what changes from now on; the namespace None is the whole cluster."""

    resource: Resource
    namespace: str | None
    selector: str | None = None
    metadata_only: bool = False


async def changes_of(
    client: KubeClient, watched: Sequence[Watched]
) -> AsyncIterator[dict[str, Any]]:
    """Yield each changed object; ends by cancellation only.

    Raises:
        ApiError: it can't be watched.
    """
    changes: asyncio.Queue[dict[str, Any] | errors.ApiError] = asyncio.Queue()
    tasks = [asyncio.create_task(_follow(client, one, changes)) for one in watched]
    try:
        while True:
            change = await changes.get()
            if isinstance(change, errors.ApiError):
                raise change
            yield change
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(
    client: KubeClient, watched: Watched, changes: asyncio.Queue[dict[str, Any] | errors.ApiError]
) -> None:
    """Queue the changes of one watch, reopening it when it ends."""
    resource = watched.resource
    version: str | None = None
    try:
        while True:
            if version is None:
                pages = client.list_pages(
                    resource,
                    watched.namespace,
                    label_selector=watched.selector,
                    metadata_only=True,
                    limit=1,
                )
                version = (await anext(pages)).resource_version
                await pages.aclose()
            try:
                async for event in client.watch(
                    resource,
                    watched.namespace,
                    metadata_only=watched.metadata_only,
                    label_selector=watched.selector,
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


KINDS = ("rules", "bundles", "copies")
FEW: Final = 5
"""Namespaces up to which each is read for its freeze, and not all are listed."""


@dataclass(frozen=True, slots=True)
class _ListQuery:
    """What is listed: everything in the namespaces, or the objects of these names."""

    scopes: Sequence[str | None]
    """Namespaces; None is the whole cluster."""
    wanted: frozenset[tuple[str | None, str]] = frozenset()
    rule: str | None = None
    labels: str | None = None

    @classmethod
    def of(
        cls, target: Target, wanted: Sequence[str], rule: str | None, labels: str | None
    ) -> _ListQuery:
        """The choice of a command line; a name may include its namespace."""
        if not wanted:
            return cls([target.scope], rule=rule, labels=labels)
        here = target.scope if any("/" not in name for name in wanted) else None
        found = {target.locate(name) if "/" in name else (here, name) for name in wanted}
        scopes = sorted({scope for scope, _ in found}, key=str)
        return cls([None] if None in scopes else scopes, frozenset(found), rule, labels)

    def includes(self, body: rows.Body) -> bool:
        """Whether an object is one of those."""
        metadata = body["metadata"]
        named = {(metadata["namespace"], metadata["name"]), (None, metadata["name"])}
        return (not self.wanted or bool(self.wanted & named)) and (
            not self.rule or _is_of(rows.annotation(body, names.ANN_RULE), self.rule)
        )

    def missing(self, found: Sequence[rows.Body]) -> tuple[str | None, str] | None:
        """One of the names that aren't there."""
        there = {(body["metadata"]["namespace"], body["metadata"]["name"]) for body in found}
        anywhere = {(None, name) for _, name in there}
        return min(self.wanted - there - anywhere, key=str, default=None)


@dataclass(slots=True)
class _Found:
    """Objects of one kind, and how to watch them."""

    what: str
    bodies: list[dict[str, Any]]
    watched: list[Watched]
    denied: list[errors.Forbidden] = field(default_factory=list)


@click.command()
@objects_arguments(*KINDS, "all")
@cluster_options(everywhere=True)
@output_option
@click.option("-l", "--selector", "labels", metavar="LABELS", help="Label selector: a=b,c!=d.")
@click.option("-w", "--watch", is_flag=True, help="Watch for changes until Ctrl-C.")
@click.option("--rule", metavar="[NAMESPACE/]NAME", help="Only this rule's copies.")
@click.option("--no-headers", is_flag=True, help="Don't print headers.")
def get(
    *,
    target: Target,
    what: str,
    wanted: tuple[ObjectReference, ...],
    shape: Format,
    labels: str | None,
    watch: bool,
    rule: str | None,
    no_headers: bool,
) -> None:
    """List rules, bundles or copies with their status and age; `all` lists the three.

    On a terminal the message of an object that isn't ready is printed below its row.
    """
    kinds = list(dict.fromkeys(kind for kind, _ in wanted)) or [what]
    if rule and kinds != ["copies"]:
        advice = hint("get", "copies", "--rule", rule)
        raise click.UsageError(f"--rule is only for copies: {advice}")
    if what == "all" and (wanted or watch):
        raise click.UsageError("all can't be combined with names or --watch; choose one kind")
    if len(kinds) > 1 and watch:
        raise click.UsageError("--watch is for objects of one kind")
    queries = {
        kind: _ListQuery.of(target, [name for one, name in wanted if one == kind], rule, labels)
        for kind in (KINDS if what == "all" else kinds)
    }
    run(_get(target, queries, _Style(shape, heads=not no_headers), watch=watch))


@dataclass(frozen=True, slots=True)
class _Style:
    """How lists are printed."""

    shape: Format
    heads: bool = True


async def _get(
    target: Target, queries: Mapping[str, _ListQuery], style: _Style, *, watch: bool
) -> None:
    shows_freezes = "bundles" in queries and style.shape in (Format.TABLE, Format.WIDE)
    async with (
        target.connect() as client,
        ahead(_operator(client, is_needed=shows_freezes)) as operator,
    ):
        found = await _read_all(client, queries)
        for part in found:
            await _check(client, target, part, queries[part.what])
        note = skipped([error for part in found for error in part.denied])
        freezes, gap = await _freezes(client, found, operator)
        if any(part.bodies for part in found) or watch:
            printers = _show(found, queries, style, freezes)
        else:
            _nothing(target, queries, style)
        if note:
            prose([note], err=True)
        if freezes:
            prose([f"No deploy begins: {sentence(one)}." for one in freezes], err=True)
        if gap:
            prose([f"{gap[0].upper()}{gap[1:]}."], err=True)
        if watch:
            (part,) = found
            async for change in changes_of(client, part.watched):
                if queries[part.what].includes(change):
                    printers[part.what].print([change], single=True)


async def _operator(client: KubeClient, *, is_needed: bool) -> Installation | None:
    return await find_installation(client) if is_needed else None


async def _freezes(
    client: KubeClient, found: Sequence[_Found], operator: Awaitable[Installation | None]
) -> tuple[tuple[Freeze, ...], str]:
    """The freezes in force for the Bundles that are shown, and what isn't known about them."""
    bodies = [body for part in found if part.what == "bundles" for body in part.bodies]
    if not bodies:
        return (), ""
    from copyrator.cli.bundles.freeze import (  # noqa: PLC0415 - only for Bundles
        Frozen,
        find_all_freezes,
        find_freezes,
    )
    from copyrator.cli.view.bundle import freezes_of  # noqa: PLC0415 - the same

    now = datetime.now(UTC)
    places = {body["metadata"]["namespace"] for body in bodies}
    places |= {str(one) for body in bodies if (one := _release_of(body))}
    try:
        installation = await operator
        if installation is None:
            return (), ""
        if len(places) > FEW:
            read = await find_all_freezes(client, installation)
        else:
            read = await find_freezes(client, installation, sorted(places))
    except errors.ApiError as error:
        return (), Frozen(denied=(f"where the operator is ({error.message})",)).gap
    concerned = {one for body in bodies for one in freezes_of(body, read.freezes, now)}
    return tuple(one for one in read.freezes if one in concerned), read.gap


def _release_of(body: rows.Body) -> object:
    return (body.get("spec") or {}).get("project_namespace")


async def _read_all(client: KubeClient, queries: Mapping[str, _ListQuery]) -> list[_Found]:
    async def read(kind: str, query: _ListQuery) -> _Found:
        try:
            return await _read(client, kind, query)
        except errors.Forbidden as error:
            if query.wanted:
                raise
            return _Found(kind, [], [], [error])

    found = await all_of(starmap(read, queries.items()))
    if all(part.denied and not part.watched for part in found):
        raise found[0].denied[0]
    return found


async def _read(client: KubeClient, what: str, choice: _ListQuery) -> _Found:
    labels = choice.labels
    if what == "copies":
        there = await find_copies(client, choice.scopes, labels)
        labels = f"{MANAGED},{labels}" if labels else MANAGED
        bodies, read, denied = there.bodies, there.read, there.denied_of(there.named)
        if not any(map(choice.includes, bodies)):
            denied = [error for _, error in there.denied]  # perhaps that is why
    else:
        read, denied = [(RESOURCES[what], scope) for scope in choice.scopes], []
        lists = await all_of(listed(client, *place, selector=labels) for place in read)
        bodies = [body for found in lists for body in found]
    only = what == "copies"
    watched = [Watched(resource, scope, labels, metadata_only=only) for resource, scope in read]
    return _Found(what, [body for body in bodies if choice.includes(body)], watched, denied)


async def _check(client: KubeClient, target: Target, part: _Found, choice: _ListQuery) -> None:
    """Refuse names that don't exist.

    Raises:
        Fault: there is no such object, or no such rule.
    """
    if part.what in RESOURCES and (missing := choice.missing(part.bodies)):
        place, absent = missing
        await one(client, part.what, place or target.namespace, absent)  # says where it is
    if not choice.rule or part.bodies:
        return
    namespace, _, name = choice.rule.rpartition("/")
    if namespace:
        await one(client, "rules", namespace, name)
        return
    rules = await listed(client, RESOURCES["rules"], None, metadata_only=True)
    if name not in {body["metadata"]["name"] for body in rules}:
        advice = hint("get", "rules", "-A")
        raise Fault(f"there is no CopyratorRule {name} in any namespace; {advice} lists all")


def _is_of(owner: str, rule: str) -> bool:
    return owner == rule or ("/" not in rule and owner.partition("/")[2] == rule)


def _show(
    found: Sequence[_Found],
    queries: Mapping[str, _ListQuery],
    style: _Style,
    freezes: Sequence[Freeze],
) -> dict[str, _Printer]:
    """Print all; return the printers, which print further objects in the same columns."""
    scopes = {scope for query in queries.values() for scope in query.scopes}
    everywhere = None in scopes or len(scopes) > 1
    printers = {
        part.what: _Printer(part.what, style, freezes, namespaces=everywhere) for part in found
    }
    if style.shape in (Format.JSON, Format.YAML):
        bodies = [body for part in found for body in part.bodies]
        wanted = sum(len(query.wanted) for query in queries.values())
        single = wanted == 1 == len(bodies)
        show_all(bodies, style.shape, single=single)
        return printers
    shown = [part for part in found if part.bodies or len(found) == 1]
    for index, part in enumerate(shown):
        if index and style.shape is not Format.NAME:
            click.echo()
        printers[part.what].print(part.bodies)
    return printers


def _nothing(target: Target, queries: Mapping[str, _ListQuery], style: _Style) -> None:
    if style.shape in (Format.JSON, Format.YAML):
        show_all([], style.shape)
        return
    *kinds, last = queries
    shown = f"{', '.join(kinds)} or {last}" if kinds else last
    is_named = any(query.wanted for query in queries.values())
    where = "in any namespace" if target.everywhere else f"in the namespace {target.namespace}"
    hint_ = "" if target.everywhere or is_named else "; -A searches all namespaces"
    click.echo(f"No {shown} found {where}{hint_}.", err=True)


class _Printer:
    """Prints objects of one kind in the chosen shape."""

    def __init__(
        self, what: str, style: _Style, freezes: Sequence[Freeze], *, namespaces: bool
    ) -> None:
        now = datetime.now(UTC)
        self._row: Callable[[dict[str, Any]], object] = lambda body: body
        if what == "bundles":
            from copyrator.cli.view.bundle import (  # noqa: PLC0415 - what it imports is large
                BundleView,
                bundle_columns,
                freezes_of,
            )

            self._row = lambda body: BundleView(body, now, freezes=freezes_of(body, freezes, now))
            columns = bundle_columns(now, namespaces=namespaces)
        elif what == "rules":
            from copyrator.cli.view.rule import rule_columns  # noqa: PLC0415 - as above

            columns = rule_columns(now)
        else:
            columns = rows.copy_columns(now)
        if what != "bundles" and namespaces:
            columns.insert(0, rows.NAMESPACE)
        self._shape = style.shape
        self._table = Table(columns, wide=style.shape is Format.WIDE, heads=style.heads)

    def print(self, found: Sequence[dict[str, Any]], *, single: bool = False) -> None:
        if self._shape in (Format.JSON, Format.YAML, Format.NAME):
            show_all(found, self._shape, single=single)
        else:
            self._table.print(map(self._row, found))
