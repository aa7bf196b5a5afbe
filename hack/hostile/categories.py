"""The ways to be bad, by name.

Everything is what the author of one namespace may write: the API server takes most of it, and what
it refuses is a try, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hostile import bundles, generated, others, registry, rules
from hostile.bad import Bad, Places

Make = Callable[[Random, Places, str], Bad]


@dataclass(slots=True)
class Category:
    """One way to be bad.

    Attributes:
        name: by which it is chosen.
        make: makes an object of this name.
        ring: how many objects of it stand at a time; each is written anew.
        at_once: how many are written in one turn: small ones may be more.
        turns: how many were made.
    """

    name: str
    make: Make
    ring: int
    at_once: int = 1
    turns: int = 0

    def next(self, random: Random, places: Places) -> Bad:
        """The next object; names repeat, so that objects change, too."""
        self.turns += 1
        return self.make(random, places, f"{self.name}-{self.turns % self.ring}")


CATEGORIES: dict[str, Category] = {
    one.name: one
    for one in (
        Category("templates", rules.templates, 6),
        Category("deep", rules.deep, 4),
        Category("old", rules.old_form, 6),
        Category("selectors", rules.selectors, 6),
        Category("tenants", rules.of_tenants, 8),
        Category("raw", rules.raw, 12, 3),
        Category("mangled-rules", generated.rules, 12, 3),
        Category("mangled-bundles", generated.bundles, 12, 3),
        Category("sources", others.sources, 4),
        Category("forged", others.forged, 6),
        Category("jobs", others.jobs, 8, 2),
        Category("pods", others.pods, 4),
        Category("namespaces", others.namespaces, 1),
        Category("registry", bundles.on_bad_registry, 2 * len(registry.KINDS), 6),
        Category("bundles", bundles.specs, 8),
        Category("values", bundles.values, 8),
        Category("large", bundles.of_values, 3),
        Category("gated", bundles.gated, 12, 4),
        Category("keys", bundles.keys, 3),
        Category("squatters", bundles.squatters, 3, 3),
    )
}
"""All of them, by name."""


def categories(names: tuple[str, ...] = ()) -> list[Category]:
    """The categories of these names; all, where none is named.

    Raises:
        KeyError: there is none of that name.
    """
    return [CATEGORIES[name] for name in names or CATEGORIES]
