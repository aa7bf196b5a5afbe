"""Ready keys by priority, and of each priority in turn between groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from copyrator.workqueue.outcome import Priority

K = TypeVar("K", bound=Hashable)

Group = str | None
"""The owner of a key: a tenant's namespace; None for the operator and trusted rules."""

Ready = tuple[float, Priority, K, Group]
"""Ready since, priority, key, group."""

SHARES = {Priority.URGENT: 16, Priority.NORMAL: 4, Priority.RESYNC: 1}
"""Of 21 keys while keys of each priority wait, so that none waits for ever."""


class ReadyKeys(Generic[K]):
    """Each operation is O(1), amortized: a void entry is dropped once.

    `is_current` returns whether an entry counts: a key whose priority was raised leaves a
    void one at the old priority.
    """

    def __init__(self, is_current: Callable[[Ready[K]], bool]) -> None:
        self._by_priority: dict[Priority, _RoundRobin[K]] = {
            priority: _RoundRobin(is_current) for priority in Priority
        }
        self._credit = dict(SHARES)

    def put(self, entry: Ready[K]) -> None:
        """Append a ready key to its group."""
        self._by_priority[entry[1]].put(entry)

    def heads(self) -> list[Ready[K]]:
        """The next key of each priority."""
        heads = [turns.head() for turns in self._by_priority.values()]
        return [head for head in heads if head is not None]

    def take(self) -> Ready[K] | None:
        """The next key: of the first priority with keys and credit, from the next group.

        When the credit of all priorities with keys is used up, it is renewed.
        """
        waiting = [
            priority for priority, turns in self._by_priority.items() if turns.head() is not None
        ]
        if not waiting:
            return None
        if not any(self._credit[priority] for priority in waiting):
            self._credit = dict(SHARES)
        priority = next(priority for priority in waiting if self._credit[priority])
        self._credit[priority] -= 1
        return self._by_priority[priority].take()

    def block(self, group: Group) -> None:
        """Return none of a group's keys until `unblock`."""
        for turns in self._by_priority.values():
            turns.block(group)

    def unblock(self, group: Group) -> None:
        """Return the group's keys again, after the groups that wait now."""
        for turns in self._by_priority.values():
            turns.unblock(group)


class _RoundRobin(Generic[K]):
    """The keys of one priority: one of each group in turn."""

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
