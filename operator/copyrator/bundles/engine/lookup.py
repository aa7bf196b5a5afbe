"""What features read of digests from registries, once for all Bundles that need the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

from copyrator.oci.auth import Credential
from copyrator.oci.exchange import Repository

HOLDS: Final = 24 * 3600.0
"""Seconds for which an answer may hold."""

A = TypeVar("A")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class DigestQuery(Generic[A]):
    """What to read of a digest; equal ones are one request."""

    lookup: Lookup[A, Any]
    repository: Repository
    digest: str
    by: A
    """What it is judged by."""
    credential: Credential | None = None


class Lookup(ABC, Generic[A, F]):
    """One kind of such queries; a feature makes it once."""

    is_confirmed: ClassVar[bool] = False
    """Whether an answer is read once more before a deploy by it (``Gate.confirms``)."""

    @abstractmethod
    async def read(self, query: DigestQuery[A], namespace: str) -> F:
        """Ask the registry, for the Bundles of a namespace first of all.

        Raises:
            RegistryError: the registry can't be asked, or what it has can't be judged.
        """

    def recall(self, query: DigestQuery[A]) -> F | None:  # noqa: ARG002
        """What it keeps itself of an answer, in place of the registry's polls."""
        return None

    def holds(self, found: F) -> bool:  # noqa: ARG002
        """Whether an answer needn't be asked for again by later polls."""
        return False
