"""Merges the wishes of several annotations into rules: no two of one name or target. Pure.

One rule has one list of globs and one selector, which both must match; so the wishes of several
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
from copyrator.cli.migrate_tools import NOWHERE, Wish

_NEGATED = {
    Operator.IN: Operator.NOT_IN,
    Operator.NOT_IN: Operator.IN,
    Operator.EXISTS: Operator.DOES_NOT_EXIST,
    Operator.DOES_NOT_EXIST: Operator.EXISTS,
}


@dataclass(frozen=True, slots=True)
class Migration:
    """A rule to be printed, and the comments above it."""

    wish: Wish
    name: str

    def rule(self, home: str) -> dict[str, Any]:
        """Its manifest, in the namespace of trusted rules."""
        return self.wish.rule(home, self.name)


def migrations(wishes: Iterable[Wish]) -> list[Migration]:
    """The rules that together do what the annotations request, each with a name of its own."""
    by_copy: dict[tuple[str, ...], list[Wish]] = {}
    for wish in wishes:
        by_copy.setdefault(_copied(wish), []).append(wish)
    taken = Counter(group[0].base_name for group in by_copy.values())
    found: list[Migration] = []
    for copied, group in by_copy.items():
        name = group[0].base_name
        if taken[name] > 1:  # a-b/c and a/b-c: the same names in every run
            name += f"-{hashlib.sha256('/'.join(copied).encode()).hexdigest()[:6]}"
        for number, wish in enumerate(_disjoint(list(_united(group)), name), start=1):
            found.append(Migration(wish, name if number == 1 else f"{name}-{number}"))
    return found


def _copied(wish: Wish) -> tuple[str, ...]:
    """What is copied, and its name."""
    return (wish.kind, wish.namespace, wish.name, wish.copy_name or wish.name)


def _united(group: Sequence[Wish]) -> Iterator[Wish]:
    """Equal wishes once, lists of namespaces as one; the whole cluster includes all others."""
    if all_of_it := [wish for wish in group if wish.everywhere]:
        yield _together(all_of_it[0], group)
        return
    listed = [wish for wish in group if not wish.exclude and wish.selector.empty]
    if listed:
        globs = dict.fromkeys(glob for wish in listed for glob in wish.namespaces)
        if len(globs) > 1:
            globs.pop(NOWHERE, None)
        yield replace(_together(listed[0], listed), namespaces=tuple(globs))
    others: dict[tuple[Any, ...], list[Wish]] = {}
    for wish in group:
        if wish not in listed:
            where = (tuple(wish.namespaces), tuple(wish.exclude), wish.selector)
            others.setdefault(where, []).append(wish)
    for same in others.values():
        yield _together(same[0], same)


def _together(first: Wish, group: Sequence[Wish]) -> Wish:
    """`first`, with the tools and remarks of all."""
    tools = dict.fromkeys(wish.tool for wish in group)
    remarks = dict.fromkeys(remark for wish in group for remark in wish.remarks)
    return replace(first, tool=", ".join(tools), remarks=tuple(remarks))


def _disjoint(wishes: Sequence[Wish], name: str) -> Iterator[Wish]:
    """Each without the namespaces of those before it: two rules for one copy are a conflict."""
    for position, wish in enumerate(wishes):
        for number, earlier in enumerate(wishes[:position], start=1):
            wish = _without(wish, earlier, name if number == 1 else f"{name}-{number}")  # noqa: PLW2901
        yield wish


def _without(wish: Wish, earlier: Wish, name: str) -> Wish:
    requirements = earlier.selector.requirements
    if not requirements and not earlier.exclude:
        globs = [glob for glob in earlier.namespaces if glob != NOWHERE]
        return replace(wish, exclude=(*wish.exclude, *globs))
    if len(requirements) == 1 and not earlier.namespaces and not earlier.exclude:
        (one,) = requirements
        negated = Requirement(one.key, _NEGATED[one.operator], one.values)
        return replace(wish, selector=LabelSelector.of((*wish.selector.requirements, negated)))
    remark = (
        f"a namespace that the rule {name} also targets is reported as a conflict by one of the two"
    )
    return replace(wish, remarks=(*wish.remarks, remark))
