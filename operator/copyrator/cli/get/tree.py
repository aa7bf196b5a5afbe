"""`copyrator tree`: what a rule or Bundle makes, and from what.

Each of both imports its own part of the operator, which takes as long as its requests.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.api.fields import InvalidSpec
from copyrator.cli.core.cluster import Target, ahead, cluster_options, run
from copyrator.cli.core.objects import find_copies, listed, object_arguments, one, skipped
from copyrator.cli.core.output import Format, answer_option, dump, prose
from copyrator.cli.view import rows
from copyrator.kube.resources import JOBS
from copyrator.kube.watch.store import name_of

if TYPE_CHECKING:
    from copyrator.cli.view.rule import RuleView
    from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Node:
    """A line, and what is below it."""

    text: str
    below: Sequence[Node] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """As in -o json."""
        found: dict[str, Any] = {"object": self.text}
        return {**found, "below": [one.to_dict() for one in self.below]} if self.below else found

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
    """Show a rule's sources and copies, or a Bundle's release, Jobs and referenced objects."""
    root, note = run(_tree(target, what, name))
    if shape is not None:
        dump(root.to_dict(), shape)
    else:
        for line in (root.text, *root.lines()):
            click.echo(line)
    if note:
        prose([note], err=True)


async def _tree(target: Target, what: str, name: str) -> tuple[Node, str]:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        if what == "bundles":
            return await _bundle(client, namespace, name), ""
        async with ahead(find_copies(client, [None])) as found:
            body = await one(client, what, namespace, name)
            copies = await found
    from copyrator.cli.view.rule import RuleView

    view = RuleView(body, datetime.now(UTC))
    return rule_tree(view, copies.bodies), skipped(copies.denied)


def rule_tree(rule: RuleView, copies: Sequence[Body]) -> Node:
    """A rule, its sources, and the copies of each; a template's sources have theirs together."""
    from copyrator.cli.view.rule import source_lines

    made_of = rule.composed_of or "template"
    owner = str(rule.name)
    by_source: dict[str, list[Node]] = {}
    for body in copies:
        if rows.annotation(body, names.ANN_RULE) == owner:
            source = rows.annotation(body, names.ANN_SOURCE)
            text = f"{body['kind']} {source}" if source != "-" else f"{body['kind']} from {made_of}"
            by_source.setdefault(text, []).append(Node(_shown(body)))
    return Node(
        f"{names.RULE_KIND} {owner}  {_state(rule.body)}",
        [
            *map(Node, source_lines(rule.spec)),
            *(Node(source, below) for source, below in sorted(by_source.items())),
        ],
    )


async def _bundle(client: KubeClient, namespace: str, name: str) -> Node:
    selector = f"{names.LABEL_BUNDLE}={name}"
    async with ahead(listed(client, JOBS, namespace, selector=selector)) as jobs:
        body = await one(client, "bundles", namespace, name)
        return bundle_tree(body, await jobs)


def bundle_tree(body: Body, jobs: Sequence[Body]) -> Node:
    """A Bundle, what it reads, its release and the Jobs that exist."""
    from copyrator.bundles.inputs.reader import references_of
    from copyrator.cli.view.bundle import BundleView

    name = name_of(body).name
    view = BundleView(body, datetime.now(UTC))
    spec, found = view.spec, view.status.deployed
    version = f"{found.version} ({rows.digest(found.digest)})" if found.version else "not deployed"
    below = []
    if not isinstance(spec, InvalidSpec):
        below.append(Node(f"{spec.registry}/{spec.repo}:{spec.version}"))
        below += [Node(str(ref)) for ref in sorted(references_of(spec), key=str)]
        below.append(Node(f"Release {spec.project_namespace}/{name}  {version}"))
    jobs = sorted(jobs, key=lambda job: str(job["metadata"].get("creationTimestamp")))
    below += [Node(f"{_shown(job)}  {_purpose(job)}{_outcome(job)}") for job in jobs]
    return Node(f"{names.BUNDLE_KIND} {view.name}  {_state(body)}", below)


def _purpose(job: Body) -> str:
    kind = (job["metadata"].get("labels") or {}).get(names.LABEL_JOB_KIND)
    return {"plan": "plan, ", "drift": "check for drift, "}.get(str(kind), "")


def _outcome(job: Body) -> str:
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return "Running"


def _shown(body: Body) -> str:
    return f"{body['kind']} {name_of(body)}"


def _state(body: Body) -> str:
    condition = rows.ready(body)
    if not condition:
        return "not reconciled yet"
    return f"{condition.get('reason')} (Ready={condition.get('status')})"
