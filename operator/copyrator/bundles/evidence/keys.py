"""Reads the public keys and certificates that specs name, only when they changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.object_refs import LocalObjectRef
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.references import Known, ReferenceReader, local_ref, version_of
from copyrator.bundles.evidence.key_files import Contents, files_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyReader(Generic[T]):
    """What is made of the keys of all Bundles for one use."""

    references: ReferenceReader
    use: str

    async def read(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        wanted: Sequence[LocalObjectRef],
        shape: object,
        make: Callable[[Contents], T],
    ) -> T:
        """What ``make`` has made of these objects, in a thread.

        ``shape``: what it depends on beside them.

        Raises:
            ApiError: one can't be read.
        """
        refs = tuple(local_ref(spec.namespace, one) for one in wanted)
        if (known := self.references.recall(entry.key, self.use, refs, shape)) is not None:
            return cast("T", known.value)
        contents: dict[LocalObjectRef, Mapping[str, bytes] | None] = {}
        versions: list[str] = []
        for one, ref in zip(wanted, refs, strict=True):
            body = await self.references.read(ref)
            contents[one] = files_of(one, body) if body else None
            versions.append(version_of(body))
        found = await asyncio.to_thread(make, contents)
        self.references.keep(entry.key, self.use, Known(refs, tuple(versions), shape, found))
        return found
