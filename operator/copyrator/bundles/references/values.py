"""Reads the values of a Bundle, one source at a time, within limits of memory and time."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from copyrator.api.bundle_spec import BundleSpec, SecretKey, ValuesKind, ValuesSource
from copyrator.bundles.context import Hasher
from copyrator.bundles.policy.identity import ValuesFiles, ValuesHash
from copyrator.settings import limits
from copyrator.workqueue.timeslice import TimeSlice


class ValuesTooLargeError(Exception):
    """With this source a Bundle's values exceed a limit.

    Args:
        limit: the exceeded limit.
    """

    def __init__(self, limit: str) -> None:
        super().__init__(
            f"the Bundle's values exceed {limit}: reduce that source, put large "
            "files into the chart, or remove the source from the "
            "spec"
        )


class ValuesReader:
    """Adds the values sources of a Bundle, one after the other, within the limits."""

    def __init__(self, uid: str, spec: BundleSpec, hasher: Hasher) -> None:
        has_secret = any(source.kind is ValuesKind.SECRET for source in spec.values_from)
        has_secret |= spec.secret_key is not None
        self.hash = ValuesHash(uid, hasher if has_secret else None)
        self.files: list[ValuesFiles] = []
        self._slice = TimeSlice()
        self._bytes = 0
        self._keys = 0

    async def add(self, source: ValuesSource, body: Mapping[str, Any]) -> Mapping[str, bytes]:
        """Add the next source; returns its files.

        Raises:
            ValuesTooLargeError: the values exceed a limit with this source.
        """
        data: Mapping[str, str] = body.get("data") or {}
        self._keys += len(data)
        if self._keys > limits.BUNDLE_VALUES_FILES:
            raise ValuesTooLargeError(f"{limits.BUNDLE_VALUES_FILES:,} keys, each a values file")
        content: dict[str, bytes] = {}
        for key, text in data.items():
            is_secret = source.kind is ValuesKind.SECRET
            content[key] = base64.b64decode(text) if is_secret else text.encode()
            self._bytes += len(content[key])
            if self._bytes > limits.BUNDLE_VALUES_BYTES:
                raise ValuesTooLargeError(f"{limits.BUNDLE_VALUES_BYTES // 2**20} MiB")
            await self._slice.pause()
        for _ in self.hash.add(source.kind, source.name, content):
            await self._slice.pause()
        self.files.append(ValuesFiles(source.kind, source.name, tuple(sorted(content))))
        return content

    async def add_secret_key(self, found: SecretKey, content: Mapping[str, bytes]) -> None:
        """Add the content of ``spec.secretKey``; no values source has a name with a colon."""
        for _ in self.hash.add(ValuesKind.SECRET, f"secretKey:{found.secret}", content):
            await self._slice.pause()
