"""`copyrator describe`: one object with its state and Events.

Each part imports its own part of the operator, which takes as long as its requests.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.cli.core.cluster import Target, ahead, cluster_options, run
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import find_installation, operator_namespace_option
from copyrator.cli.core.objects import RESOURCES, copies, object_arguments, one
from copyrator.cli.core.output import (
    Detail,
    Format,
    Kind,
    answer_option,
    detail_lines,
    dump,
    plain,
    prose,
    typed,
)
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import EVENTS, Resource
from copyrator.kube.watch.store import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


Body = Mapping[str, Any]
EVENTS_SHOWN = 10
LONG = 60
"""Characters of an error that is printed only once."""


@click.command()
@object_arguments("rules", "bundles", "copies")
@click.option("--kind", metavar="KIND", help="Kind of the copy, if several kinds have that name.")
@cluster_options()
@operator_namespace_option
@answer_option
def describe(
    *,
    target: Target,
    what: str,
    name: str,
    kind: str | None,
    home: str | None,
    shape: Format | None,
) -> None:
    """Show details of a rule, Bundle or copy: spec, status and Events.

    For a copy: its rule, age, other field managers, and whether it is up to date, which
    a dry run determines. Values are never shown.
    """
    if kind and what != "copies":
        advice = hint("describe", "copy", name, "--kind", kind)
        raise click.UsageError(f"--kind is only for copies: {advice}")
    namespace, name = target.locate(name)
    work = (
        _copy(target, namespace, name, kind, home)
        if what == "copies"
        else _described(target, what, namespace, name, home)
    )
    found = run(work)
    if shape is None:
        prose(detail_lines(found.parts))
        return
    document = {"object": plain(found.body), "events": found.events}
    document |= {"state": found.state} if found.state else {}
    dump(typed(Kind.DESCRIPTION, document), shape)


@dataclass(frozen=True, slots=True)
class _Description:
    """The object, and the parts about it."""

    body: Body
    events: Sequence[Body]
    parts: Sequence[Detail]
    state: str = ""
    """Of a copy."""


async def _described(
    target: Target, what: str, namespace: str, name: str, home: str | None
) -> _Description:
    now = datetime.now(UTC)
    async with target.connect() as client:
        body = await one(client, what, namespace, name)
        async with ahead(_parts(client, what, body, now, home)) as described:
            events = await _events(client, RESOURCES[what].kind, body)
            parts = await described
    later = [*rows.describe_conditions(body, now), _describe_events(events, now)]
    if what == "bundles":
        later = list(refer_to_error(body, later))
    return _Description(body, events, [*parts, *later])


def refer_to_error(body: Body, parts: Iterable[Detail]) -> Iterator[Detail]:
    """Parts of a Bundle below "Last error", without the text of that, if it is long."""
    from copyrator.api.bundle_status import parse_status

    text = parse_status(body).last_error.message or ""
    for part in parts:
        if len(text) > LONG:
            yield replace(part, below=[one.replace(text, "see Last error") for one in part.below])
        else:
            yield part


async def _parts(
    client: KubeClient, what: str, body: Body, now: datetime, home: str | None
) -> Iterable[Detail]:
    """The parts about a rule or a Bundle."""
    if what == "rules":
        from copyrator.cli.view.rule import RuleView, describe_rule

        return describe_rule(RuleView(body, now))
    from copyrator.cli.bundles.freeze import freezes_for
    from copyrator.cli.view.bundle import BundleView, describe_bundle

    installation = await find_installation(client, home)
    found = await freezes_for(client, installation, body)
    view = BundleView(body, now, installation, found.in_force(now), found.gap)
    return describe_bundle(view)


async def _copy(
    target: Target, namespace: str, name: str, kind: str | None, home: str | None
) -> _Description:
    async with target.connect() as client:
        resource, body = await find_copy(client, namespace, name, kind)
        async with ahead(state_of(client, target, resource, body, home)) as known:
            events = await _events(client, resource.kind, body)
            state = await known
    now = datetime.now(UTC)
    parts = [*describe_copy(body, state, now), _describe_events(events, now)]
    return _Description(body, events, parts, state.text)


async def _events(client: KubeClient, kind: str, body: Body) -> list[dict[str, Any]]:
    """Newest last; empty without the permission to list Events."""
    with suppress(errors.Forbidden):
        return (await events_of(client, kind, body))[-EVENTS_SHOWN:]
    return []


def _describe_events(events: Sequence[Body], now: datetime) -> Detail:
    """The newest Events."""
    lines = [
        f"{rows.age(last_seen(event), now):>4}  {event.get('type')}  "
        f"{event.get('reason')}{times(event)}: {event.get('message')}"
        for event in events
    ]
    return Detail("Events", "" if lines else "none", lines)


async def find_copy(
    client: KubeClient, namespace: str, name: str, kind: str | None
) -> tuple[Resource, dict[str, Any]]:
    """The copy of that name, without its content.

    Raises:
        Fault: there is none, or there are several.
    """
    resources, found = await copies(client, namespace)
    mine = [body for body in found if name_of(body).name == name]
    if kind:
        mine = [body for body in mine if body["kind"].lower() == kind.lower()]
    if not mine:
        raise Fault(
            f"there is no copy {name} in the namespace {namespace}; "
            f"{hint('why', f'{namespace}/{name}')} explains why, "
            f"{hint('get', 'copies', '-A')} lists all"
        )
    if len(mine) > 1:
        kinds = [body["kind"] for body in mine]
        raise Fault(f"{name} is the name of a {' and of a '.join(kinds)}; add --kind {kinds[0]}")
    (body,) = mine
    return next(one for one in resources if one.kind == body["kind"]), body


@dataclass(frozen=True, slots=True)
class CopyState:
    """What the operator does about a copy now."""

    text: str
    """A sentence."""
    composed_of: str = ""
    """The sources of the template that made it: ``hub, private (3)``; empty where it has none."""


async def state_of(
    client: KubeClient, target: Target, resource: Resource, body: Body, home: str | None
) -> CopyState:
    """What the operator does about it now."""
    from copyrator.cli.rules.dry_run import actor_of, dry_running
    from copyrator.cli.rules.why import ExplainedObject, composed_of, verdict_of

    try:
        installation = await find_installation(client, home)
        actor = await actor_of(client, target, installation, name_of(body).namespace)
        async with dry_running(installation, actor) as dry_run:
            await dry_run.serve_all(resource.kind)
            asked = ExplainedObject(dry_run, resource, *name_of(body))
            owner = rows.annotation(body, names.ANN_RULE)
            if hidden := dry_run.hidden(owner):
                return CopyState(hidden)
            return CopyState((await verdict_of(asked)).text, composed_of(asked))
    except (errors.Forbidden, Fault) as error:
        return CopyState(f"unknown: {error}")


def describe_copy(body: Body, state: CopyState, now: datetime) -> Iterator[Detail]:
    """The parts about a copy."""
    yield Detail("Name", name_of(body))
    yield Detail("Kind", body["kind"])
    yield Detail("Rule", rows.annotation(body, names.ANN_RULE))
    source = rows.annotation(body, names.ANN_SOURCE)
    made_of = state.composed_of or "none: the rule's template"
    yield Detail("Source", source if source != "-" else made_of)
    yield from describe_writes(body, now)
    yield Detail("State", state.text)


def describe_writes(body: Body, now: datetime) -> Iterator[Detail]:
    """When it was created and written, and by whom else."""
    yield Detail("Age", rows.age(body["metadata"].get("creationTimestamp"), now))
    written = _writers(body)
    if ours := written.pop(names.FIELD_MANAGER, None):
        yield Detail("Written", f"{rows.age(ours, now)} ago")
    for manager, time in sorted(written.items()):
        yield Detail("Managers", f"{manager}, {rows.age(time, now)} ago")


def _writers(body: Body) -> dict[str, str]:
    """The time of each field manager's last write."""
    found: dict[str, str] = {}
    for entry in body["metadata"].get("managedFields") or ():
        manager, time = str(entry.get("manager")), str(entry.get("time") or "")
        found[manager] = max(found.get(manager, ""), time)
    return found


@dataclass(frozen=True, slots=True)
class _EventQuery:
    """Events of one object. Some Events are about several rules: their object is the Namespace."""

    kind: str
    namespace: str
    uid: str
    name: str

    @property
    def selectors(self) -> list[str]:
        """The field selectors by which the API server chooses."""
        shared = ["involvedObject.kind=Namespace"] if self.kind == names.RULE_KIND else []
        return [f"involvedObject.uid={self.uid}", *shared]

    def includes(self, event: Body) -> bool:
        involved = event.get("involvedObject")
        if not isinstance(involved, Mapping):
            return False
        rules = (event["metadata"].get("annotations") or {}).get(names.ANN_RULES)
        if involved.get("kind") == "Namespace" and rules is not None:
            return self.kind == names.RULE_KIND and self.name in str(rules).split(",")
        return involved.get("kind") == self.kind


async def events_of(client: KubeClient, kind: str, body: Body) -> list[dict[str, Any]]:
    """The Events of one object, newest last."""
    metadata = body["metadata"]
    query = _EventQuery(kind, metadata["namespace"], metadata["uid"], metadata["name"])

    async def listed(selector: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async for page in client.list_pages(EVENTS, query.namespace, field_selector=selector):
            found += [
                plain({**event, "apiVersion": "v1", "kind": "Event"})
                for event in page.items
                if query.includes(event)
            ]
        return found

    lists = await asyncio.gather(*map(listed, query.selectors))
    return sorted((event for events in lists for event in events), key=last_seen)


def last_seen(event: Body) -> str:
    """The time of an Event, as the API server has it."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def times(event: Body) -> str:
    """How often it occurred, where more than once: `` (x3)``."""
    count = 1
    with suppress(TypeError, ValueError):
        count = int(event.get("count") or 1)
    return f" (x{count})" if count > 1 else ""
