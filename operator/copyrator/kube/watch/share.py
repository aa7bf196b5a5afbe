"""Whose a watch is, and what its owner may hold of the objects that it shows."""

from __future__ import annotations

from typing import Any, Protocol


class Share(Protocol):
    """What the watches of one owner share; equal to nothing but itself."""

    @property
    def tenant(self) -> str | None:
        """The namespace that the watches are for; None for the operator and trusted rules."""
        ...

    def opened(self) -> None:
        """A watch began."""
        ...

    def closed(self) -> None:
        """A watch ended."""
        ...

    def held(self, old: Any, new: Any) -> Any:
        """What to hold of an object in place of `old` (None: nothing): `new`, or less of it."""
        ...

    def dropped(self, record: Any) -> None:
        """A record isn't held any more."""
        ...
