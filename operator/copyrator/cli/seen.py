"""A snapshot of the objects that the live commands show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from copyrator.api.keys import ObjectName

Body = Mapping[str, Any]


class SeenCopies:
    """The copies of each rule in each namespace, by kind and name."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, set[tuple[str, str]]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, rule: str) -> Mapping[str, set[tuple[str, str]]]:
        """Kind and name of a rule's copies (``namespace/name``), by namespace."""
        return self._found.get(rule, {})

    def rules(self) -> Iterable[str]:
        """The rules that have copies."""
        return self._found

    def add(self, rule: str, kind: str, name: ObjectName) -> None:
        """A copy appeared."""
        found = self._found.setdefault(rule, {}).setdefault(name.namespace, set())
        self._count += (kind, name.name) not in found
        found.add((kind, name.name))

    def remove(self, rule: str, kind: str, name: ObjectName) -> None:
        """A copy is gone, or is another rule's now."""
        places = self._found.get(rule, {})
        found = places.get(name.namespace, set())
        self._count -= (kind, name.name) in found
        found.discard((kind, name.name))
        if not found:
            places.pop(name.namespace, None)
        if not places:
            self._found.pop(rule, None)


@dataclass(slots=True)
class Snapshot:
    """What is known now; its parts change until it is read again."""

    rules: Mapping[ObjectName, Body]
    bundles: Mapping[ObjectName, Body]
    copies: SeenCopies
    namespaces: Sequence[str]
    faults: Sequence[str] = ()
    """Why it may be out of date."""
    denied: Sequence[str] = ()
    """What the user may not list."""
    loading: Sequence[str] = ()
    """Kinds that are still being listed: their copies aren't all known yet."""
