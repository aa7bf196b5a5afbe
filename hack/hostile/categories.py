"""The ways to be bad, by name.

Everything is what the author of one namespace may write: the API server takes most of it, and what
it refuses is a try, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hostile import bundles, others, rules
from hostile.bad import Bad, Places

Make = Callable[[Random, Places, str], Bad]


@dataclass(slots=True)
class Category:
    """One way to be bad; `ring` objects of it stand at a time, and each is written anew."""

    name: str
    make: Make
    ring: int = 4
    turns: int = 0

    def next(self, random: Random, places: Places) -> Bad:
        """The next object; names repeat, so that objects change, too."""
        self.turns += 1
        return self.make(random, places, f"{self.name}-{self.turns % self.ring}")


CATEGORIES: dict[str, tuple[Make, int]] = {
    "templates": (rules.templates, 6),
    "deep": (rules.deep, 4),
    "old": (rules.old_form, 6),
    "selectors": (rules.selectors, 6),
    "tenants": (rules.of_tenants, 8),
    "raw": (rules.raw, 12),
    "sources": (others.sources, 4),
    "forged": (others.forged, 6),
    "jobs": (others.jobs, 4),
    "namespaces": (others.namespaces, 1),
    "registry": (bundles.on_bad_registry, 2 * len(bundles.KINDS_OF_REPOSITORY)),
    "bundles": (bundles.specs, 8),
    "values": (bundles.values, 8),
    "large": (bundles.of_values, 3),
    "squatters": (bundles.squatters, 3),
}
"""By name: what makes an object, and how many of them stand at a time."""


def categories(names: tuple[str, ...] = ()) -> list[Category]:
    """The categories of these names; all, where none is named.

    Raises:
        KeyError: there is none of that name.
    """
    return [Category(name, *CATEGORIES[name]) for name in names or CATEGORIES]
