"""`copyrator get`: rules, Bundles and copies in a table."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.text import meant
from copyrator.cli.core.cluster import Target, ahead, all_of, cluster_options
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import (
    Installation,
    find_installation,
    operator_namespace_option,
)
from copyrator.cli.core.objects import (
    RESOURCES,
    Body,
    ObjectReference,
    find_copies,
    listed,
    listed_in,
    objects_arguments,
    one,
    skipped,
)
from copyrator.cli.core.output import (
    Column,
    Format,
    Table,
    output_option,
    prose,
    show_all,
)
from copyrator.cli.view import rows
from copyrator.cli.view.operator import read_downtime
from copyrator.kube import errors

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


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

    def includes(self, body: Body) -> bool:
        """Whether an object is one of those."""
        metadata, owner = body["metadata"], rows.annotation(body, names.ANN_RULE)
        named = {(metadata["namespace"], metadata["name"]), (None, metadata["name"])}
        return (not self.wanted or bool(self.wanted & named)) and (
            not self.rule or self.rule in (owner, owner.partition("/")[2])
        )

    def missing(self, found: Sequence[Body]) -> tuple[str | None, str] | None:
        """One of the names that aren't there."""
        there = {(body["metadata"]["namespace"], body["metadata"]["name"]) for body in found}
        anywhere = {(None, name) for _, name in there}
        return min(self.wanted - there - anywhere, key=str, default=None)


@dataclass(slots=True)
class _Found:
    """Objects of one kind."""

    what: str
    bodies: list[dict[str, Any]]
    denied: list[errors.Forbidden] = field(default_factory=list)
    is_read: bool = True


@click.command()
@objects_arguments(*KINDS, "all")
@cluster_options(everywhere=True)
@output_option
@click.option("-l", "--selector", "labels", metavar="LABELS", help="Label selector: a=b,c!=d.")
@click.option("--rule", metavar="[NAMESPACE/]NAME", help="Only this rule's copies.")
@operator_namespace_option
async def get(
    *,
    target: Target,
    what: str,
    wanted: tuple[ObjectReference, ...],
    shape: Format,
    labels: str | None,
    rule: str | None,
    home: str | None,
) -> None:
    """List rules, bundles or copies with their status and age; `all` lists the three.

    On a terminal the message of an object that isn't ready is printed below its row.
    """
    kinds = list(dict.fromkeys(kind for kind, _ in wanted)) or [what]
    if rule and kinds != ["copies"]:
        advice = hint("get", "copies", "--rule", rule)
        raise click.UsageError(f"--rule is only for copies: {advice}")
    if what == "all" and wanted:
        raise click.UsageError("all can't be combined with names; choose one kind")
    queries = {
        kind: _ListQuery.of(target, [name for one, name in wanted if one == kind], rule, labels)
        for kind in (KINDS if what == "all" else kinds)
    }
    scopes = {scope for query in queries.values() for scope in query.scopes}
    async with (
        target.connect() as client,
        ahead(find_installation(client, home)) as finding,
        ahead(read_downtime(client, finding, scopes)) as downtime,
    ):
        found = await _read_all(client, queries)
        for part in found:
            await _check(client, target, part, queries[part.what])
        note = skipped([error for part in found for error in part.denied])
        is_table = shape in (Format.TABLE, Format.WIDE)
        beside, remarks = await _read_beside(client, found, finding) if is_table else ((), [])
        prose(await downtime, err=True)
        if any(part.bodies for part in found):
            _show(found, queries, shape, beside)
        else:
            _nothing(target, queries, shape)
        prose([*([note] if note else []), *remarks], err=True)


async def _read_beside(
    client: KubeClient, found: Sequence[_Found], finding: Awaitable[Installation]
) -> tuple[Sequence[object], list[str]]:
    """What concerns the Bundles that are shown, and the remarks about it and what isn't known."""
    bodies = [body for part in found if part.what == "bundles" for body in part.bodies]
    if not bodies:
        return (), []
    from copyrator.cli.core.beside import (  # noqa: PLC0415 - only for Bundles
        FoundBeside,
        concerning,
        read_all_beside,
        read_beside,
        remarks,
    )

    now = datetime.now(UTC)
    places = {body["metadata"]["namespace"] for body in bodies}
    releases = ((body.get("spec") or {}).get("project_namespace") for body in bodies)
    places |= set(map(str, filter(None, releases)))
    try:
        installation = await finding
        if len(places) > FEW:
            read = await read_all_beside(client, installation)
        else:
            read = await read_beside(client, installation, sorted(places))
    except errors.ApiError as error:
        read = FoundBeside(unread=(f"where the operator is ({error.message})",))
    near = concerning(read.values, now)
    concerned = {one for body in bodies for one in near(body)}
    values = [one for one in read.values if one in concerned]
    return values, list(remarks(values, read.unread))


async def _read_all(client: KubeClient, queries: Mapping[str, _ListQuery]) -> list[_Found]:
    async def read(what: str, query: _ListQuery) -> _Found:
        denied: list[errors.Forbidden] = []
        try:
            if what == "copies":
                there = await find_copies(client, query.scopes, query.labels)
                bodies, found_any = there.bodies, any(map(query.includes, there.bodies))
                denied = [
                    error
                    for resource, error in there.denied
                    if resource.kind in there.named or not found_any  # perhaps that is why
                ]
            else:
                bodies = await listed_in(client, RESOURCES[what], query.scopes, query.labels)
        except errors.Forbidden as error:
            if query.wanted:
                raise
            return _Found(what, [], [error], is_read=False)
        return _Found(what, [body for body in bodies if query.includes(body)], denied)

    found = await all_of(starmap(read, queries.items()))
    if not any(part.is_read for part in found):
        raise found[0].denied[0]
    return found


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
    known = {body["metadata"]["name"] for body in rules}
    if name not in known:
        text = f"there is no CopyratorRule {name} in any namespace{meant(name, sorted(known))}"
        raise Fault(f"{text}; {hint('get', 'rules', '-A')} lists all")


def _show(
    found: Sequence[_Found],
    queries: Mapping[str, _ListQuery],
    shape: Format,
    beside: Sequence[object],
) -> None:
    scopes = {scope for query in queries.values() for scope in query.scopes}
    everywhere = None in scopes or len(scopes) > 1
    if shape in (Format.JSON, Format.YAML, Format.NAME):
        bodies = [body for part in found for body in part.bodies]
        wanted = sum(len(query.wanted) for query in queries.values())
        show_all(bodies, shape, single=wanted == 1 == len(bodies))
        return
    for index, part in enumerate(part for part in found if part.bodies):
        if index:
            click.echo()
        columns, listed = _table(part, beside)
        Table(columns if everywhere else columns[1:], wide=shape is Format.WIDE).print(listed)


def _nothing(target: Target, queries: Mapping[str, _ListQuery], shape: Format) -> None:
    if shape in (Format.JSON, Format.YAML):
        show_all([], shape)
        return
    *kinds, last = queries
    shown = f"{', '.join(kinds)} or {last}" if kinds else last
    is_named = any(query.wanted for query in queries.values())
    where = "in any namespace" if target.everywhere else f"in the namespace {target.namespace}"
    hint_ = "" if target.everywhere or is_named else "; -A searches all namespaces"
    click.echo(f"No {shown} found {where}{hint_}.", err=True)


def _table(part: _Found, values: Sequence[object]) -> tuple[Sequence[Column], Sequence[Any]]:
    """The columns, with that of namespaces, and the rows."""
    now = datetime.now(UTC)
    if part.what == "bundles":
        from copyrator.cli.core.beside import concerning  # noqa: PLC0415 - only for Bundles
        from copyrator.cli.view.bundle import (  # noqa: PLC0415 - what it imports is large
            BundleView,
            bundle_columns,
        )

        near = concerning(values, now)
        return bundle_columns(), [BundleView(one, now, beside=near(one)) for one in part.bodies]
    if part.what == "rules":
        from copyrator.cli.view.rule import RULE_COLUMNS, RuleView  # noqa: PLC0415 - as above

        return RULE_COLUMNS, [RuleView(body, now) for body in part.bodies]
    return rows.copy_columns(now), part.bodies
