"""Whether the deletions of an edited rule need a confirmation (``spec.maxDelete``).

The copies that an edit creates don't make its deletions smaller: the share is of the copies that
the rule had before the edit. An edit that follows an unconfirmed one is compared with the copies
that the rule had before that one, too, as far as the same copies would be deleted.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from copyrator.api.keys import CopyKey

FEW: Final = 20
"""A deletion of no more copies than this is never a mass deletion."""


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An edit whose deletions wait for a confirmation."""

    generation: int
    """Of the rule that was edited."""
    copies: frozenset[CopyKey] | None
    """The copies that it would delete; None: unknown, after a restart."""
    had: int
    """Copies that the rule had before, outside Terminating namespaces."""


def judge_edit(
    generation: int,
    deleted: AbstractSet[CopyKey],
    had: int,
    max_delete: int,
    earlier: Unconfirmed | None = None,
) -> Unconfirmed | None:
    """Whether an edit's deletions need a confirmation; None: they don't.

    Args:
        generation: of the edited rule.
        deleted: the copies that it would delete.
        had: the copies that the rule had before the edit, outside Terminating namespaces.
        max_delete: percentage that an edit may delete without a confirmation; 100 allows all.
        earlier: the unconfirmed edit before this one.
    """
    copies = frozenset(deleted)
    if _exceeds(len(copies), had, max_delete):
        return Unconfirmed(generation, copies, had)
    if earlier is not None:
        still = copies if earlier.copies is None else copies & earlier.copies
        if _exceeds(len(still), earlier.had, max_delete):
            return Unconfirmed(generation, copies, earlier.had)
    return None


def _exceeds(deleted: int, had: int, max_delete: int) -> bool:
    return max_delete < 100 and deleted > FEW and 100 * deleted > max_delete * had
