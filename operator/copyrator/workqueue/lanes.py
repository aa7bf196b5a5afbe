"""Ready keys, in lanes by priority, and in each lane in turn between groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from copyrator.workqueue.outcome import Priority

K = TypeVar("K", bound=Hashable)

Group = str | None
"""The owner of a key: a tenant's namespace; None for the operator and trusted rules."""

Ready = tuple[float, Priority, K, Group]
"""Ready since, lane, key, group."""

SHARES = {Priority.URGENT: 16, Priority.NORMAL: 4, Priority.RESYNC: 1}
"""Of 21 keys while all lanes are full, so that no lane starves."""


class Lanes(Generic[K]):
    """Each operation is O(1), amortized: a void entry is dropped once.

    `is_current` returns whether an entry counts: a key that moved to a more urgent lane leaves a
    void one in the old lane.
    """

    def __init__(self, is_current: Callable[[Ready[K]], bool]) -> None:
        self._lanes: dict[Priority, _Turns[K]] = {lane: _Turns(is_current) for lane in Priority}
        self._credit = dict(SHARES)

    def put(self, entry: Ready[K]) -> None:
        """Append a ready key to its group."""
        self._lanes[entry[1]].put(entry)

    def heads(self) -> list[Ready[K]]:
        """The next key of each lane."""
        heads = [turns.head() for turns in self._lanes.values()]
        return [head for head in heads if head is not None]

    def take(self) -> Ready[K] | None:
        """The next key: of the first lane with keys and credit, from the group whose turn it is.

        When the credit of all lanes with keys is used up, it is renewed.
        """
        waiting = [lane for lane, turns in self._lanes.items() if turns.head() is not None]
        if not waiting:
            return None
        if not any(self._credit[lane] for lane in waiting):
            self._credit = dict(SHARES)
        lane = next(lane for lane in waiting if self._credit[lane])
        self._credit[lane] -= 1
        return self._lanes[lane].take()

    def block(self, group: Group) -> None:
        """Return none of a group's keys until `unblock`."""
        for turns in self._lanes.values():
            turns.block(group)

    def unblock(self, group: Group) -> None:
        """Return the group's keys again, after the groups that wait now."""
        for turns in self._lanes.values():
            turns.unblock(group)


class _Turns(Generic[K]):
    """The keys of one lane: one of each group in turn."""

    def __init__(self, is_current: Callable[[Ready[K]], bool]) -> None:
        self._is_current = is_current
        self._keys: dict[Group, deque[Ready[K]]] = {}
        self._turns: dict[Group, None] = {}
        """Groups with keys that aren't blocked, the next one first."""
        self._blocked: set[Group] = set()

    def put(self, entry: Ready[K]) -> None:
        group = entry[3]
        keys = self._keys.get(group)
        if keys is None:
            keys = self._keys[group] = deque()
        keys.append(entry)
        if group not in self._blocked:
            self._turns.setdefault(group)

    def head(self) -> Ready[K] | None:
        while self._turns:
            group = next(iter(self._turns))
            keys = self._keys[group]
            while keys and not self._is_current(keys[0]):
                keys.popleft()
            if keys:
                return keys[0]
            del self._turns[group], self._keys[group]
        return None

    def take(self) -> Ready[K] | None:
        entry = self.head()
        if entry is None:
            return None
        group = entry[3]
        keys = self._keys[group]
        keys.popleft()
        del self._turns[group]
        if keys:
            self._turns[group] = None
        else:
            del self._keys[group]
        return entry

    def block(self, group: Group) -> None:
        self._blocked.add(group)
        self._turns.pop(group, None)

    def unblock(self, group: Group) -> None:
        self._blocked.discard(group)
        if group in self._keys:
            self._turns.setdefault(group)
