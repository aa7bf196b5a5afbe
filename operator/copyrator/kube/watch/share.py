"""The owner of a watch, and its limit of cached objects."""

from __future__ import annotations

from typing import Any, Protocol


class Share(Protocol):
    """The common limits of one owner's watches; equal only to itself."""

    @property
    def tenant(self) -> str | None:
        """The namespace that the watches are for; None for the operator and trusted rules."""
        ...

    def opened(self) -> None:
        """A watch was opened."""
        ...

    def closed(self) -> None:
        """A watch was closed."""
        ...

    def held(self, old: Any, new: Any) -> Any:
        """Return the record to cache in place of `old` (None: none): `new`, or a smaller one."""
        ...

    def dropped(self, record: Any) -> None:
        """A record was removed from the cache."""
        ...
