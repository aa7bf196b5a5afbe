"""Reads what is attached to digests, and judges it; a few at a time, fair between namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from copyrator.oci.errors import RegistryUnreachable
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.model import Found, FoundAttestations
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient


SIGNATURES_INLINE: Final = 64 * 1024
"""Bytes of the signatures of one digest that are judged in a thread; more are judged in the child
process: parsers hold up the other threads."""

TENANT_SIGNATURES: Final = 4
"""Digests whose signatures are read at a time for the Bundles of one namespace; each may hold
SIGNATURES_BYTES."""

TENANTS_SIGNATURES: Final = 32
"""The same of all namespaces together."""

SIGNATURE_CHECKS: Final = 2
"""Digests whose signatures are checked at a time, each in a thread, fair between namespaces."""

F = TypeVar("F", Found, FoundAttestations)
J = TypeVar("J")


class AttachedReader:
    """Signatures and attestations.

    Attributes:
        finder: finds them in a registry.
        isolated: the child process in which what registries send is judged.
    """

    def __init__(self, client: RegistryClient, isolated: Isolated) -> None:
        self.finder = SignatureFinder(client)
        self.isolated = isolated
        self._finds = FairLimit(each=TENANT_SIGNATURES, together=TENANTS_SIGNATURES)
        self._checks = FairLimit(each=1, together=SIGNATURE_CHECKS)

    async def read(
        self,
        find: Callable[[], Awaitable[F]],
        check: Callable[[F], Awaitable[J]],
        namespace: str,
    ) -> J:
        """What ``check`` returns of what is found."""
        async with self._finds.slot(namespace):
            found = await find()
            async with self._checks.slot(namespace):
                return await check(found)

    async def judge(self, function: Callable[[F], J], found: F, what: str, namespace: str) -> J:
        """Call a function in a thread, or in the limited child where there is much to parse.

        Args:
            function: one of a module, or a partial one.
            found: its argument.
            what: the signatures or attestations, for the error's text.
            namespace: for which it is judged.

        Raises:
            RegistryError: it exceeds the child's limits.
        """
        if sum(len(one.blob) for one in found.signatures) <= SIGNATURES_INLINE:
            return await asyncio.to_thread(function, found)
        try:
            return await self.isolated.call(function, namespace, found)
        except IsolatedError as error:
            raise RegistryUnreachable(f"{what} can't be judged: {error}") from None
