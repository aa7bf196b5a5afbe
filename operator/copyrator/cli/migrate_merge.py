"""Merges the requests of several annotations into rules: no two of one name or target. Pure.

One rule has one list of globs and one selector, which both must match; so the requests of several
annotations on one source become one rule where possible, and else rules that exclude each other's
namespaces.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from copyrator.api.selectors import LabelSelector, Operator, Requirement
from copyrator.cli.migrate_tools import NOWHERE, RequestedCopies

_NEGATED = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}


@dataclass(frozen=True, slots=True)
class Migration:
    """A rule to be printed, and the comments above it."""

    request: RequestedCopies
    name: str

    def rule(self, home: str) -> dict[str, Any]:
        """Its manifest, in the namespace of trusted rules."""
        return self.request.rule(home, self.name)


def migrations(requests: Iterable[RequestedCopies]) -> list[Migration]:
    """The rules that together do what the annotations request, each with a name of its own."""
    by_copy: dict[tuple[str, ...], list[RequestedCopies]] = {}
    for request in requests:
        by_copy.setdefault(_copied(request), []).append(request)
    taken = Counter(group[0].base_name for group in by_copy.values())
    found: list[Migration] = []
    for copied, group in by_copy.items():
        name = group[0].base_name
        if taken[name] > 1:  # a-b/c and a/b-c: the same names in every run
            name += f"-{hashlib.sha256('/'.join(copied).encode()).hexdigest()[:6]}"
        for number, request in enumerate(_disjoint(list(_united(group)), name), start=1):
            found.append(Migration(request, name if number == 1 else f"{name}-{number}"))
    return found


def _copied(request: RequestedCopies) -> tuple[str, ...]:
    """What is copied, and its name."""
    return (request.kind, request.namespace, request.name, request.copy_name or request.name)


def _united(group: Sequence[RequestedCopies]) -> Iterator[RequestedCopies]:
    """Equal requests once, lists of namespaces as one; the whole cluster includes all others."""
    if all_of_it := [request for request in group if request.everywhere]:
        yield _together(all_of_it[0], group)
        return
    listed = [request for request in group if not request.exclude and request.selector.empty]
    if listed:
        globs = dict.fromkeys(glob for request in listed for glob in request.namespaces)
        if len(globs) > 1:
            globs.pop(NOWHERE, None)
        yield replace(_together(listed[0], listed), namespaces=tuple(globs))
    others: dict[tuple[Any, ...], list[RequestedCopies]] = {}
    for request in group:
        if request not in listed:
            where = (tuple(request.namespaces), tuple(request.exclude), request.selector)
            others.setdefault(where, []).append(request)
    for same in others.values():
        yield _together(same[0], same)


def _together(first: RequestedCopies, group: Sequence[RequestedCopies]) -> RequestedCopies:
    """`first`, with the tools and remarks of all."""
    tools = dict.fromkeys(request.tool for request in group)
    remarks = dict.fromkeys(remark for request in group for remark in request.remarks)
    return replace(first, tool=", ".join(tools), remarks=tuple(remarks))


def _disjoint(requests: Sequence[RequestedCopies], name: str) -> Iterator[RequestedCopies]:
    """Each without the namespaces of those before it: two rules for one copy are a conflict."""
    for position, request in enumerate(requests):
        for number, earlier in enumerate(requests[:position], start=1):
            request = _without(request, earlier, name if number == 1 else f"{name}-{number}")  # noqa: PLW2901
        yield request


def _without(request: RequestedCopies, earlier: RequestedCopies, name: str) -> RequestedCopies:
    requirements = earlier.selector.requirements
    if not requirements and not earlier.exclude:
        globs = [glob for glob in earlier.namespaces if glob != NOWHERE]
        return replace(request, exclude=(*request.exclude, *globs))
    if len(requirements) == 1 and not earlier.namespaces and not earlier.exclude:
        (one,) = requirements
        negated = Requirement(one.key, _NEGATED[one.operator], one.values)
        return replace(
            request, selector=LabelSelector.of((*request.selector.requirements, negated))
        )
    remark = (
        f"in a namespace that the rule {name} also targets, one of the two rules reports a conflict"
    )
    return replace(request, remarks=(*request.remarks, remark))
