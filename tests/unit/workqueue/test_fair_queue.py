"""A flood of one namespace drops its own items, and others' are served in turn."""

from __future__ import annotations

import pytest

from copyrator.workqueue.fairness import FairQueue


async def served(queue: FairQueue[str]) -> list[str]:
    found = []
    while len(queue):
        found.append(await queue.get())
        queue.done()
    return found


def filled(size: int, *items: str) -> tuple[FairQueue[str], list[str]]:
    """A queue after these items, whose first letter is the namespace, and those that it dropped."""
    queue: FairQueue[str] = FairQueue(size)
    dropped = [queue.put(item[0], item) for item in items]
    return queue, [one for one in dropped if one]


async def test_a_flood_drops_its_own_newest() -> None:
    queue, dropped = filled(3, "a1", "b1", "a2", "a3", "a4")
    assert dropped == ["a3", "a4"]
    assert await served(queue) == ["a1", "b1", "a2"]


@pytest.mark.parametrize(
    ("items", "dropped"),
    [
        ("a1 a2 b1 b2", "b2"),  # it would have as many as the other
        ("a1 b1 b2 a2", "a2"),
        ("a1 a2 a3 b1", "a3"),  # it would have fewer
        ("a1 b1 c1 d1", "d1"),  # nobody has more than it would have
        ("a1 a2 b1 c1", "a2"),
    ],
)
async def test_another_namespaces_newest_is_dropped_only_if_it_still_has_more(
    items: str, dropped: str
) -> None:
    queue, found = filled(3, *items.split())
    assert found == [dropped]
    assert sorted(await served(queue)) == sorted(set(items.split()) - {dropped})


async def test_namespaces_take_turns_and_their_items_stay_in_order() -> None:
    queue, dropped = filled(9, "a1", "a2", "a3", "b1", "b2", "c1")
    assert dropped == []
    assert await served(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
