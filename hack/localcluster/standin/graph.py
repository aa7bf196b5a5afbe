"""A plan as the DOT graph that werf writes: names aren't escaped, contents aren't in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, zip_longest
from pathlib import Path

from .planning import STAGES, Operation, Plan

Line = Sequence[str]
"""Nodes, each with an edge to the next."""


def write(plan: Plan, path: Path) -> None:
    """Write a plan's graph to a file."""
    after: dict[str, dict[str, None]] = {}
    for line in _lines(plan):
        for node, following in zip_longest(line, line[1:]):
            after.setdefault(node, {}).update({following: None} if following else {})
    statements = ['rankdir="LR";', ""]
    for node, followers in after.items():
        statements.append(f'"{node}" [  weight=0 ];')
        statements += [f'"{node}" -> "{each}" [  weight=0 ];' for each in followers]
    text = "".join(f"\t{statement}\n\n" if statement else "\n" for statement in statements)
    path.write_text(f"strict digraph {{\n\n{text}}}\n")


def _lines(plan: Plan) -> Iterator[Line]:
    """The plan as lines of nodes that share those of the stages."""
    release = f"{plan.namespace}:{plan.release}"
    done = [plan.revision, *([plan.superseded] if plan.superseded else [])]
    stages = ["init"]
    yield (*_start("init"), f"create-release/1/0/{release}:{plan.revision}", *_end("init"))
    for stage in STAGES:
        inside = [one for one in [*plan.operations, *plan.waited] if one.stage == stage]
        if inside:
            stages.append(stage)
            yield from _stage(stage, inside)
    stages.append("final")
    for revision in done:
        yield (*_start("final"), f"update-release/1/0/{release}:{revision}", *_end("final"))
    for before, after in pairwise(stages):
        yield (*_end(before), *_start(after))


def _stage(stage: str, operations: list[Operation]) -> Iterator[Line]:
    """One stage; what is deployed is in sub-stages, ordered by weight."""
    if stage == "pre-pre-uninstall":
        for one in operations:
            yield (*_start(stage), *_nodes(one), *_end(stage))
        return
    border = _start(stage)
    for weight, inside in groupby(sorted(operations, key=_weight), _weight):
        part = f"{stage}/weight:{weight}"
        yield (*border, *_start(part))
        for one in inside:
            yield (*_start(part), *_nodes(one), *_end(part))
        border = _end(part)
    yield (*border, *_end(stage))


def _nodes(operation: Operation) -> Line:
    """What is done to one object, in turn."""
    kind, namespace, name = operation.key
    group = operation.body["apiVersion"].rpartition("/")[0]
    steps = [operation.type] if operation.type else []
    if operation.type == "delete":
        steps.append("track-absence")
    elif kind != "CustomResourceDefinition":
        steps.append("track-readiness")
    if operation.passing:
        steps += ["delete", "track-absence"]
    return [f"{step}/1/0/{namespace}:{group}:{kind}:{name}" for step in steps]


def _weight(operation: Operation) -> int:
    return operation.weight


def _start(stage: str) -> tuple[str]:
    return (f"noop/1/0/stage/{stage}/start",)


def _end(stage: str) -> tuple[str]:
    return (f"noop/1/0/stage/{stage}/end",)
