"""A plan as text, for people: each change with a diff, and how many there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from . import manifests
from .manifests import Object
from .planning import TYPES, Operation, Plan, significant

_CONTEXT = 3
_NAMES = {"apply": "blind apply"}


def show(plan: Plan) -> None:
    """Print a plan."""
    name = f'release "{plan.release}" (namespace: "{plan.namespace}")'
    print(f"Planning release install {name.removeprefix('release ')}")
    if plan.useless:
        print(f"No changes planned for {name}")
    elif not plan.operations:
        print(f"No resource changes planned, but still must install {name}")
    if not plan.operations:
        return
    print()
    for operation in plan.operations:
        then = ", then delete" if operation.passing else ""
        change = _NAMES.get(operation.type, operation.type)
        print(f"{change.capitalize()} {manifests.titled(operation.key)}{then}")
        for line in _difference(operation):
            print(f"  {line}".rstrip())
        if operation.reason:
            print(f"  <{change} reason: error: {operation.reason}>")
        print()
    print(f"Planned changes summary for {name}:")
    for each in TYPES:
        if count := sum(operation.type == each for operation in plan.operations):
            print(f"- {_NAMES.get(each, each)}: {count} resources")
    print()


def _difference(operation: Operation) -> Iterator[str]:
    """The lines of a diff; words in their place for what is secret, or too long."""
    one_sided = operation.before is None or operation.after is None
    match operation.key[0]:
        case "Secret":
            yield "<hidden sensitive changes>"
        case "CustomResourceDefinition" if one_sided:
            yield "<hidden verbose CRD changes>"
        case _:
            before, after = (_lines(body) for body in (operation.before, operation.after))
            found = difflib.unified_diff(before, after, n=_CONTEXT, lineterm="")
            for number, line in enumerate(found):
                if number > 2:  # after the names of two files, and where the first part is
                    yield "  ..." if line.startswith("@@") else f"{line[0]} {line[1:]}"


def _lines(body: Object | None) -> list[str]:
    return manifests.dump(significant(body)).removesuffix("\n").split("\n") if body else []
