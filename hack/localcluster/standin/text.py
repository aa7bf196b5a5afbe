"""A plan as text, for people: each change with a diff, and how many there are; and as a graph."""

from __future__ import annotations

import difflib
import json
import random
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import groupby, pairwise, zip_longest
from pathlib import Path
from typing import Any

from . import manifests
from .errors import WerfError
from .manifests import VERSION, Object
from .planning import STAGES, TYPES, Operation, Plan, significant
from .settings import Deploy

_CONTEXT = 3
_NAMES = {"apply": "blind apply"}
_SENSITIVE = "werf.io/sensitive"
_PATH = re.compile(r"(?:[\w-]+|\*)(?:\.(?:[\w-]+|\*))*")
_OF_SECRETS = ("data.*", "stringData.*")


def show(plan: Plan, deploy: Deploy) -> None:
    """Print a plan.

    Raises:
        WerfError: it isn't known how werf prints a part of it.
    """
    name = f'release "{deploy.release}" (namespace: "{deploy.namespace}")'
    print(f"Planning release install {name.removeprefix('release ')}")
    if plan.useless:
        print(f"No changes planned for {name}")
    elif not plan.operations:
        print(f"No resource changes planned, but still must install {name}")
    print()
    if not plan.operations:
        return
    for operation in _ordered(plan.operations, deploy):
        then = ", then delete" if operation.passing else ""
        change = _NAMES.get(operation.type, operation.type)
        title = f"{change.capitalize()} {manifests.titled(operation.key)}{then}"
        print(f"┌ {title}")
        for line in _difference(operation, deploy):
            print(f"│ {line}")
        if operation.reason:
            print(f"│ <{change} reason: error: {operation.reason}>")
        print(f"└ {title}\n")
    print(f"Planned changes summary for {name}:")
    for each in TYPES:
        if count := sum(operation.type == each for operation in plan.operations):
            print(f"- {_NAMES.get(each, each)}: {count} resources")
    print()


def _ordered(operations: list[Operation], deploy: Deploy) -> list[Operation]:
    """By type, stage and name; werf 2 reads what it creates side by side, and prints it so."""
    found = sorted(operations, key=lambda one: (TYPES.index(one.type), one.stage_number, one.key))
    created = [one for one in found if one.type == "create"]
    if deploy.random_order:
        random.shuffle(created)
    return [*created, *(one for one in found if one.type != "create")]


def _difference(operation: Operation, deploy: Deploy) -> Iterator[str]:
    """The lines of a diff; words in their place for what is secret, or too long."""
    paths = () if deploy.shown.sensitive else _sensitive(operation.body, deploy)
    one_sided = operation.before is None or operation.after is None
    if paths is None:
        yield "<hidden sensitive changes>"
    elif operation.key[0] == "CustomResourceDefinition" and one_sided and not deploy.shown.crds:
        yield "<hidden verbose CRD changes>"
    else:
        before, after = (
            _lines(body, paths, deploy, with_fields=one_sided)
            for body in (operation.before, operation.after)
        )
        found = difflib.unified_diff(before, after, n=_CONTEXT, lineterm="")
        for number, line in enumerate(found):
            # After the names of two files; hunks follow each other without a mark.
            if number > 1 and not line.startswith("@@"):
                yield f"{line[0]} {line[1:]}"


def _sensitive(body: Object, deploy: Deploy) -> tuple[str, ...] | None:
    """The paths whose values are hidden; None for the whole object.

    Raises:
        WerfError: a path has another form than docs/facts/werf.md tells of.
    """
    told = body["metadata"].get("annotations") or {}
    if given := manifests.find_annotation(told, f"{_SENSITIVE}-paths"):
        paths = tuple(path.strip() for path in given.split(","))
        if not all(map(_PATH.fullmatch, paths)):
            raise WerfError(f"{_SENSITIVE}-paths: the stand-in doesn't know the form of {given}")
        return paths
    is_secret = (body["apiVersion"], body["kind"]) == ("v1", "Secret")
    if (manifests.find_annotation(told, _SENSITIVE) or str(is_secret)).lower() != "true":
        return ()
    return _OF_SECRETS if deploy.newest else None


def _lines(
    body: Object | None, paths: tuple[str, ...], deploy: Deploy, *, with_fields: bool
) -> list[str]:
    if body is None:
        return []
    shown = significant(body, more=deploy.shown.insignificant)
    if not with_fields:
        # After an update helm owns more fields than werf would.
        shown["metadata"].pop("managedFields", None)
    if deploy.shown.insignificant:
        shown["metadata"]["annotations"][VERSION] = deploy.version
    for path in paths:
        shown = _hidden(shown, path.split("."))
    return manifests.dump(shown).removesuffix("\n").split("\n")


def _hidden(value: Any, path: list[str]) -> Any:
    """A value with what a path leads to replaced by its length and its hash."""
    if not path:
        many = isinstance(value, dict | list)
        text = value if isinstance(value, str) else _json(value)
        count = (
            f"{len(value)} sensitive entries" if many else f"{len(text.encode())} sensitive bytes"
        )
        return f"<hidden {count}, hash {sha256(text.encode()).hexdigest()[:12]}>"
    if not isinstance(value, dict):
        return value
    first, *rest = path
    return {k: _hidden(v, rest) if first in ("*", k) else v for k, v in value.items()}


def _json(value: Any) -> str:
    """JSON as Go's library writes it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", text)


Line = Sequence[str]
"""Nodes, each with an edge to the next."""


def write_graph(plan: Plan, deploy: Deploy, path: Path) -> None:
    """Write a plan as a DOT graph: names aren't escaped, contents aren't in it."""
    after: dict[str, dict[str, None]] = {}
    for line in _graph_lines(plan, deploy):
        for node, following in zip_longest(line, line[1:]):
            after.setdefault(node, {}).update({following: None} if following else {})
    statements = ['rankdir="LR";', ""]
    for node, followers in after.items():
        statements.append(f'"{node}" [  weight=0 ];')
        statements += [f'"{node}" -> "{each}" [  weight=0 ];' for each in followers]
    text = "".join(f"\t{statement}\n\n" if statement else "\n" for statement in statements)
    path.write_text(f"strict digraph {{\n\n{text}}}\n")


def _graph_lines(plan: Plan, deploy: Deploy) -> Iterator[Line]:
    """The plan as lines of nodes that share those of the stages."""
    release = f"{deploy.namespace}:{deploy.release}"
    done = [plan.new.revision, *(each.revision for each in plan.superseded)]
    stages = ["init"]
    yield (*_start("init"), f"create-release/1/0/{release}:{plan.new.revision}", *_end("init"))
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
