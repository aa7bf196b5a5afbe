"""Reads a bundle's chart by its digest, and has it judged in the limited child process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from copyrator.bundles.chart.facts import ChartFacts, judge_layer
from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryUnreachable
from copyrator.oci.reference import DIGEST, Repository
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient

_LAYERS: Final = frozenset(
    {"application/tar+gzip", "application/vnd.cncf.helm.chart.content.v1.tar+gzip"}
)
"""What werf publishes, and what it reads too (facts/werf.md)."""


class _Layer(msgspec.Struct, rename="camel"):
    digest: str
    size: int
    media_type: str = ""


class _ChartManifest(msgspec.Struct):
    layers: list[_Layer] = []


_manifests: Final = msgspec.json.Decoder(_ChartManifest)


class ChartReader:
    """Reads charts, a few at a time, fair between namespaces; each within `timeout` seconds."""

    def __init__(self, client: RegistryClient, isolated: Isolated, timeout: float) -> None:
        self._client = client
        self._isolated = isolated
        self._timeout = timeout
        self._limit = FairLimit(each=1, together=limits.CHARTS_AT_ONCE)

    async def close(self) -> None:
        """End the child process."""
        await self._isolated.close()

    async def read(
        self, repository: Repository, digest: str, credential: Credential | None, namespace: str
    ) -> ChartFacts:
        """Judge the chart of a manifest: two requests, of which the second may be up to 4 MiB.

        Raises:
            RegistryError: the registry can't be reached, or what it sends isn't what was asked for.
        """
        async with self._limit.slot(namespace):
            try:
                async with asyncio.timeout(self._timeout):
                    packed = await self._layer(repository, digest, credential)
            except TimeoutError:
                raise RegistryUnreachable(
                    f"{repository.host}: reading the chart of {digest} takes more than "
                    f"{self._timeout:.0f} s"
                ) from None
            if isinstance(packed, ChartFacts):
                return packed
            try:
                return await self._isolated.call(judge_layer, namespace, packed)
            except IsolatedError as error:
                return ChartFacts(unreadable=str(error))

    async def _layer(
        self, repository: Repository, digest: str, credential: Credential | None
    ) -> bytes | ChartFacts:
        """The bytes of the one layer, or why it isn't read."""
        body = await self._client.manifest_bytes(
            repository, digest, credential, limits.CHART_MANIFEST_BYTES
        )
        layer = _one_layer(body)
        if isinstance(layer, ChartFacts):
            return layer
        packed = await self._client.blob(
            repository, layer.digest, credential, limits.CHART_LAYER_BYTES
        )
        if len(packed) != layer.size:
            return ChartFacts(unreadable="its layer hasn't the size that its manifest says")
        return packed


def _one_layer(manifest: bytes) -> _Layer | ChartFacts:
    why: str | None = None
    try:
        layers = _manifests.decode(manifest).layers
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return ChartFacts(unreadable="its manifest can't be parsed")
    if len(layers) != 1:
        return ChartFacts(unreadable=f"it has {len(layers)} layers, and a bundle has one")
    (layer,) = layers
    if layer.media_type not in _LAYERS:
        why = "its layer isn't a chart by its media type"
    elif not DIGEST.fullmatch(layer.digest):
        why = "the digest of its layer isn't sha256"
    elif layer.size > limits.CHART_LAYER_BYTES:
        why = f"it has more than {limits.CHART_LAYER_BYTES // 2**20} MiB"
    return layer if why is None else ChartFacts(unreadable=why)
