"""What is remembered of a Bundle between two reconciles, beside its entry in the cache.

Who remembers something has a class for it in its own module, which nobody else reads: others call
a method of its owner. None of it is needed for correctness: a restart loses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from copyrator.api.keys import BundleKey

T = TypeVar("T")


class Memories:
    """What is remembered of all Bundles, by its class; dropped in one place with the Bundle."""

    def __init__(self) -> None:
        self._parts: dict[BundleKey, dict[type[Any], Any]] = {}
        self._releases: list[Callable[[BundleKey], None]] = []

    def of(self, key: BundleKey, kind: type[T]) -> T:
        """What is remembered of a Bundle in this class, made by ``kind()`` at the first use."""
        parts = self._parts.setdefault(key, {})
        if kind not in parts:
            parts[kind] = kind()
        return cast("T", parts[kind])

    def find(self, key: BundleKey, kind: type[T]) -> T | None:
        """As ``of``; None where there is nothing yet."""
        return cast("T | None", self._parts.get(key, {}).get(kind))

    def each(self, kind: type[T]) -> Iterator[tuple[BundleKey, T]]:
        """What is remembered in this class of all Bundles; they may change meanwhile."""
        for key, parts in list(self._parts.items()):
            if kind in parts:
                yield key, parts[kind]

    def forget(self, key: BundleKey, kind: type[Any]) -> None:
        """Drop what is remembered of a Bundle in this class."""
        self._parts.get(key, {}).pop(kind, None)

    def on_drop(self, release: Callable[[BundleKey], None]) -> None:
        """Have what is held for a Bundle released before what is remembered of it is dropped.

        Such as watches, tasks, places in queues, and its key in tables of other things.
        """
        self._releases.append(release)

    def drop(self, key: BundleKey) -> None:
        """Release all that is held for a deleted Bundle, and forget it."""
        for release in self._releases:
            release(key)
        self._parts.pop(key, None)

    def __len__(self) -> int:
        """The number of Bundles of which something is remembered."""
        return len(self._parts)
