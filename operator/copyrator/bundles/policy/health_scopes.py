"""Which namespaces' objects are watched for ``spec.health``. Pure.

Each watch is a connection, and a namespace takes four. So where Bundles ask for many namespaces,
there is one watch of each kind for all of them, if that is granted.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection

from copyrator.settings import limits

Place = str | None
"""A namespace, or all of them."""


def decide(
    wanted: Collection[str], refused: Collection[Place], *, held: bool, bounded: bool
) -> set[Place]:
    """The places to watch, also where one is refused: all of many would be asked about in turn.

    Args:
        wanted: namespaces that Bundles ask for.
        refused: places that aren't granted.
        held: all namespaces are watched now; they stay so until there are clearly fewer, so that
            one Bundle that is created and deleted changes nothing.
        bounded: whether there is a limit, and all namespaces may be watched.
    """
    if not bounded:
        return set(wanted)
    most = limits.HEALTH_NAMESPACES
    if None not in refused and len(wanted) > (most * 3 // 4 if held else most):
        return {None}
    return set(heapq.nsmallest(limits.ALL_HEALTH_NAMESPACES, wanted))
