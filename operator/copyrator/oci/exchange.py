"""A request to a registry and its answer, as the transport takes and gives them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from multidict import MultiMapping

Sink = Callable[[bytes], Awaitable[None]]
"""Takes an answer's body piece by piece; the next one is read when it has returned."""


@dataclass(frozen=True, slots=True)
class Trust:
    """How a server's certificate is judged."""

    verify: bool = True
    ca: bytes | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One question. ``max_body`` in bytes; a longer answer is an InvalidResponse.

    With a ``sink`` the body of a 200 goes there and isn't part of the Answer; the time that the
    sink takes doesn't count as the registry's. ``named``: it goes to a host that a Bundle names.
    """

    method: str
    url: str
    trust: Trust = Trust()
    headers: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    max_body: int = 0
    sink: Sink | None = None
    named: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; ``headers`` are case-insensitive."""

    status: int
    headers: MultiMapping[str]
    challenges: tuple[str, ...]
    body: bytes
    url: str
