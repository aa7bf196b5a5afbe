"""Failures that are the same in several namespaces, on one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from copyrator.api.counts import GROUP, some


class Failing(Protocol):
    """What is grouped."""

    @property
    def namespace(self) -> str:
        """Of the target."""

    @property
    def name(self) -> str:
        """Of the copy; empty where it can't be determined."""

    @property
    def reason(self) -> str:
        """A stable word."""

    @property
    def message(self) -> str:
        """For the user."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A failure in a rule's status."""

    namespace: str
    name: str
    reason: str
    message: str


F = TypeVar("F", bound=Failing)


def shared_message(one: Failing) -> str:
    """A failure's message without the name of its namespace, so that it is the same in others."""
    return one.message.replace(f"namespace {one.namespace} ", "the namespace ")


def groups(failures: Iterable[F]) -> Iterator[Sequence[F]]:
    """Failures with the same reason and message together; single ones where they are few."""
    found: dict[tuple[str, str], list[F]] = {}
    for one in failures:
        found.setdefault((one.reason, shared_message(one)), []).append(one)
    for group in found.values():
        if len({one.namespace for one in group}) >= GROUP:
            yield group
        else:
            yield from ([one] for one in group)


def lines(failures: Iterable[Failing]) -> Iterator[str]:
    """A line for each group: ``7 namespaces (team-a, team-b, …): Forbidden: …``."""
    for group in groups(failures):
        first = group[0]
        if len(group) > 1:
            spaces = some((one.namespace for one in group), "namespaces")
            yield f"{spaces}: {first.reason}: {shared_message(first)}"
        else:
            where = f"{first.namespace}/{first.name}" if first.name else first.namespace
            yield f"{where}: {first.reason}: {first.message}"
