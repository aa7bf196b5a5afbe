"""`copyrator tree`: what a rule or Bundle makes, and from what.

Each of both imports its own part of the operator, which takes as long as its requests.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.api.fields import InvalidSpec
from copyrator.cli.core.cluster import Target, ahead, all_of, cluster_options, run
from copyrator.cli.core.objects import (
    find_copies,
    jobs_of,
    listed,
    object_arguments,
    one,
    skipped,
)
from copyrator.cli.core.output import (
    Format,
    Kind,
    answer_option,
    dump,
    identity,
    prose,
    said,
    typed,
)
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import (
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    STATEFULSETS,
    Discovery,
    Resource,
)
from copyrator.kube.watch.store import name_of

if TYPE_CHECKING:
    from copyrator.api.health import Result
    from copyrator.api.rule_spec import RuleSpec
    from copyrator.cli.view.bundle import BundleView
    from copyrator.cli.view.rule import RuleView
    from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]
MESSAGE = 200
"""Characters of an object's message that are shown."""


@dataclass(frozen=True, slots=True)
class Node:
    """A line, and what is below it."""

    text: str
    values: Mapping[str, Any]
    """As in -o json."""
    below: Sequence[Node] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """As in -o json."""
        return {**self.values, "below": [one.to_dict() for one in self.below]}

    def lines(self, lead: str = "") -> Iterator[str]:
        """The tree as `tree` and `flux tree` draw it; without the line itself."""
        for index, node in enumerate(self.below):
            last = index + 1 == len(self.below)
            yield f"{lead}{'└── ' if last else '├── '}{node.text}"
            yield from node.lines(f"{lead}{'    ' if last else '│   '}")


@click.command()
@object_arguments("rules", "bundles")
@cluster_options()
@answer_option
def tree(target: Target, what: str, name: str, shape: Format | None) -> None:
    """Show a rule's sources and copies, or a Bundle's release, Jobs and referenced objects.

    Of the release: its objects in its namespace, with the health of Deployments, StatefulSets,
    DaemonSets and Jobs by the rules of kstatus.
    """
    root, note = run(_tree(target, what, name))
    if shape is not None:
        dump(typed(Kind.TREE, root.to_dict()), shape)
    else:
        for line in (root.text, *root.lines()):
            click.echo(line)
    if note:
        prose([note], err=True)


async def _tree(target: Target, what: str, name: str) -> tuple[Node, str]:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        if what == "bundles":
            return await _bundle(client, namespace, name)
        async with ahead(find_copies(client, [None])) as found:
            body = await one(client, what, namespace, name)
            copies = await found
    from copyrator.cli.view.rule import RuleView, rule_kind

    view = RuleView(body, datetime.now(UTC))
    return rule_tree(view, copies.bodies), skipped(copies.denied_of([rule_kind(body)]))


def rule_tree(rule: RuleView, copies: Sequence[Body]) -> Node:
    """A rule, its sources, and the copies of each; a template's sources have theirs together."""
    owner = str(rule.name)
    by_source: dict[tuple[str, str], list[Node]] = {}
    for body in copies:
        if rows.annotation(body, names.ANN_RULE) == owner:
            key = body["kind"], rows.annotation(body, names.ANN_SOURCE)
            by_source.setdefault(key, []).append(_object_node("copy", body))
    sources = [_source_node(rule, *key, below) for key, below in by_source.items()]
    return Node(
        f"{names.RULE_KIND} {owner}  {_state(rule)}",
        _root_values("rule", rule.body),
        [*_composed_nodes(rule.spec), *sorted(sources, key=lambda node: node.text)],
    )


def _composed_nodes(spec: RuleSpec | InvalidSpec) -> Iterator[Node]:
    """The entries of spec.sources."""
    from copyrator.cli.view.rule import source_lines

    entries = () if isinstance(spec, InvalidSpec) else spec.sources
    for entry, line in zip(entries, source_lines(spec), strict=True):
        source = entry.source
        found = {"kind": source.kind, "namespace": entry.namespace, "name": source.name}
        chosen = {"selector": source.selector.to_string()} if source.selector else {}
        yield Node(
            line,
            {
                "role": "source",
                "as": entry.alias,
                "object": found,
                **chosen,
                "optional": entry.optional,
            },
        )


def _source_node(rule: RuleView, kind: str, source: str, copies: Sequence[Node]) -> Node:
    """A source with its copies, or the template of a rule with them."""
    if source == "-":
        text = f"{kind} from {rule.composed_of or 'template'}"
        return Node(text, {"role": "template", "kind": kind}, copies)
    namespace, _, name = source.partition("/")
    found = {"kind": kind, "namespace": namespace, "name": name}
    return Node(f"{kind} {source}", {"role": "source", "object": found}, copies)


async def _bundle(client: KubeClient, namespace: str, name: str) -> tuple[Node, str]:
    async with (
        ahead(jobs_of(client, namespace, name)) as jobs,
        ahead(Discovery(client).find_listable()) as kinds,
    ):
        body = await one(client, "bundles", namespace, name)
        found, note = await release_objects(client, body, kinds)
        return bundle_tree(body, await jobs, found), note


_JUDGED = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, JOBS)
"""The kinds that have a health."""
SIDE_BY_SIDE = 16
"""Kinds that are listed at the same time."""


async def release_objects(
    client: KubeClient, body: Body, kinds: Awaitable[Sequence[Resource]]
) -> tuple[list[Body], str]:
    """The objects of a Bundle's release in its namespace, and what couldn't be read of them."""
    from copyrator.bundles.health.judge import find_deploy_fault, other_manager, release_of
    from copyrator.cli.view.bundle import BundleView, target_cluster

    view = BundleView(body, datetime.now(UTC))
    spec = view.spec
    if isinstance(spec, InvalidSpec) or find_deploy_fault(spec, view.status) is not None:
        return [], ""
    if spec.kube_config is not None:
        return [], f"The release's objects aren't shown: they are in {target_cluster(view)}."
    manager = other_manager(body["metadata"].get("labels") or {}, spec.env) or names.HELM
    selector = f"{names.LABEL_MANAGED_BY}={manager}"
    place, limit = spec.project_namespace, asyncio.Semaphore(SIDE_BY_SIDE)
    denied: list[errors.Forbidden] = []
    failed: list[str] = []

    async def read(resource: Resource) -> list[dict[str, Any]]:
        only = resource not in _JUDGED
        try:
            async with limit:
                return await listed(client, resource, place, selector=selector, metadata_only=only)
        except errors.Forbidden as error:
            denied.append(error)
        except errors.ApiError as error:
            failed.append(f"{resource.key}: {error}")
        return []

    try:
        lists = await all_of(map(read, await kinds))
    except errors.ApiError as error:
        return [], f"The release's objects aren't shown: the discovery of kinds failed: {error}"
    name = view.name.name
    found = [one for part in lists for one in part if release_of(one["metadata"]) == name]
    notes = [skipped(denied), *(f"Not shown: {text}." for text in failed)]
    unique = {str(one["metadata"].get("uid")): one for one in found}
    return list(unique.values()), " ".join(filter(None, notes))


def bundle_tree(body: Body, jobs: Sequence[Body], objects: Sequence[Body] = ()) -> Node:
    """A Bundle, what it reads, its release with these objects, and the Jobs that exist."""
    from copyrator.bundles.inputs.watches import references_of
    from copyrator.cli.view.bundle import BundleView, target_cluster

    name = name_of(body).name
    view = BundleView(body, datetime.now(UTC))
    spec, found = view.spec, view.status.deployed
    version = f"{found.version} ({rows.digest(found.digest)})" if found.version else "not deployed"
    below = []
    if not isinstance(spec, InvalidSpec):
        where = {"registry": spec.registry, "repo": spec.repo, "version": str(spec.version)}
        below.append(
            Node(f"{spec.registry}/{spec.repo}:{spec.version}", {"role": "registry", **where})
        )
        for ref in sorted(references_of(spec), key=str):
            kind = {"apiVersion": ref.resource.api_version, "kind": ref.resource.kind}
            named = {**kind, "namespace": ref.namespace, "name": ref.name}
            below.append(Node(str(ref), {"role": "input", "object": named}))
        place = spec.project_namespace
        release = {"namespace": place, "name": name}
        elsewhere = ""
        if spec.kube_config is not None:
            release["server"] = found.server or view.status.server or ""
            elsewhere = f" in {target_cluster(view)}"
        below.append(
            Node(
                f"Release {place}/{name}{elsewhere}  {version}",
                {"role": "release", **release, "deployed": rows.version(found)},
                sorted(map(_health_node, objects), key=lambda node: node.text),
            )
        )
    jobs = sorted(jobs, key=lambda job: str(job["metadata"].get("creationTimestamp")))
    below += map(_job_node, jobs)
    return Node(
        f"{names.BUNDLE_KIND} {view.name}  {_state(view)}", _root_values("bundle", body), below
    )


def health_of(body: Body) -> Result | None:
    """The health of an object of a release; None where its kind has none."""
    from copyrator.api.health import Result, Status, compute

    kind = (body["apiVersion"], body["kind"])
    if any(kind == (one.api_version, one.kind) for one in _JUDGED):
        return compute(str(body["kind"]), body)
    if "deletionTimestamp" in body["metadata"]:
        return Result(Status.TERMINATING, "it is being deleted")
    return None


def _health_node(body: Body) -> Node:
    """An object of a release, with its health."""
    node, health = _object_node("object", body), health_of(body)
    if health is None:
        return Node(node.text, {**node.values, "health": None})
    message = said(health.message, MESSAGE) if health.message else ""
    text = f"{node.text}  {health.status}{f': {message}' if message else ''}"
    found = {"status": str(health.status), "message": health.message}
    return Node(text, {**node.values, "health": found})


def _job_node(job: Body) -> Node:
    purpose = str((job["metadata"].get("labels") or {}).get(names.LABEL_JOB_KIND) or "")
    words = {"plan": "plan, ", "drift": "check for drift, "}.get(purpose, "")
    ended, node = _outcome(job), _object_node("job", job)
    text = f"{node.text}  {words}{ended}"
    return Node(text, {**node.values, "purpose": purpose or None, "state": ended})


def _outcome(job: Body) -> str:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return "Running"


def _object_node(role: str, body: Body) -> Node:
    return Node(f"{body['kind']} {name_of(body)}", {"role": role, "object": identity(body)})


def _root_values(role: str, body: Body) -> dict[str, Any]:
    condition = rows.ready(body)
    state = {"ready": condition.get("status"), "reason": condition.get("reason")}
    return {"role": role, "object": identity(body), **state}


def _state(view: RuleView | BundleView) -> str:
    condition = rows.ready(view.body)
    return f"{view.state} ({condition.get('reason') if condition else 'not reconciled yet'})"
