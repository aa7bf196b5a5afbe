"""`copyrator describe copy`: its rule, its writers, and whether it is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from copyrator.api import names
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint
from copyrator.cli.core.installation import find_installation
from copyrator.cli.core.objects import copies
from copyrator.cli.core.output import labelled
from copyrator.cli.rules.dry_run import actor_of, dry_running
from copyrator.cli.rules.why import ExplainedObject, composed_of, verdict_of
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import Resource

Body = Mapping[str, Any]


async def find_copy(
    client: KubeClient, namespace: str, name: str, kind: str | None
) -> tuple[Resource, dict[str, Any]]:
    """The copy of that name, without its content.

    Raises:
        Fault: there is none, or there are several.
    """
    resources, found = await copies(client, namespace)
    mine = [body for body in found if body["metadata"]["name"] == name]
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
    metadata = body["metadata"]
    try:
        installation = await find_installation(client, home)
        actor = await actor_of(client, target, installation, metadata["namespace"])
        async with dry_running(installation, actor) as dry_run:
            await dry_run.serve_all(resource.kind)
            asked = ExplainedObject(dry_run, resource, metadata["namespace"], metadata["name"])
            owner = rows.annotation(body, names.ANN_RULE)
            if hidden := dry_run.hidden(owner):
                return CopyState(hidden)
            return CopyState(await verdict_of(asked), composed_of(asked))
    except (errors.Forbidden, Fault) as error:
        return CopyState(f"unknown: {error}")


def copy_lines(body: Body, state: CopyState, now: datetime) -> Iterator[str]:
    """The lines about a copy."""
    metadata = body["metadata"]
    yield labelled("Name", f"{metadata['namespace']}/{metadata['name']}")
    yield labelled("Kind", body["kind"])
    yield labelled("Rule", rows.annotation(body, names.ANN_RULE))
    source = rows.annotation(body, names.ANN_SOURCE)
    made_of = state.composed_of or "none: the rule's template"
    yield labelled("Source", source if source != "-" else made_of)
    yield labelled("Age", rows.age(metadata.get("creationTimestamp"), now))
    written = _writers(body)
    if ours := written.pop(names.FIELD_MANAGER, None):
        yield labelled("Written", f"{rows.age(ours, now)} ago")
    for manager, time in sorted(written.items()):
        yield labelled("Managers", f"{manager}, {rows.age(time, now)} ago")
    yield labelled("State", state.text)


def _writers(body: Body) -> dict[str, str]:
    """The time of each field manager's last write."""
    found: dict[str, str] = {}
    for entry in body["metadata"].get("managedFields") or ():
        manager, time = str(entry.get("manager")), str(entry.get("time") or "")
        found[manager] = max(found.get(manager, ""), time)
    return found
