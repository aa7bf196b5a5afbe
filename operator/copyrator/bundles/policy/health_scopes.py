"""Which namespaces are watched for ``spec.health``. Pure.

Each watch is a connection, and a namespace takes four. So where releases are in many namespaces,
one watch of each kind for all namespaces is opened, if that is allowed.
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
    """The places to watch, including forbidden ones: else each of many would be reviewed in turn.

    Args:
        wanted: the namespaces of releases that are to be watched.
        refused: places that are forbidden.
        held: all namespaces are watched now; that is kept until there are clearly fewer, so that
            creating and deleting one Bundle opens and ends no watch.
        bounded: whether there is a limit, and all namespaces may be watched.
    """
    if not bounded:
        return set(wanted)
    most = limits.HEALTH_NAMESPACES
    if None not in refused and len(wanted) > (most * 3 // 4 if held else most):
        return {None}
    return set(heapq.nsmallest(limits.ALL_HEALTH_NAMESPACES, wanted))
