"""Reads the charts of digests; they are judged in the limited child process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from copyrator.bundles.engine.lookup import DigestQuery, Lookup
from copyrator.bundles.features.charts.archive import CHART_LAYER_BYTES
from copyrator.bundles.features.charts.facts import ChartFacts, judge_layer
from copyrator.oci.errors import RegistryError, RegistryUnreachable
from copyrator.oci.exchange import DIGEST
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import InterruptedWorkError, Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient

CHART_MANIFEST_BYTES: Final = 256 * 1024
"""Bytes of the manifest of a bundle whose chart is read."""

CHARTS_AT_ONCE: Final = 4
"""Charts that are downloaded and judged at a time, fair between namespaces: one a namespace."""

KEPT_CHARTS: Final = 500
"""Charts whose facts are kept, some 20 KB each at most: they never change."""

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


class ChartReader(Lookup[None, ChartFacts]):
    """Reads charts, a few at a time, fair between namespaces; each within `timeout` seconds."""

    def __init__(self, client: RegistryClient, isolated: Isolated, timeout: float) -> None:
        self._client = client
        self._isolated = isolated
        self._timeout = timeout
        self._limit = FairLimit(each=1, together=CHARTS_AT_ONCE)
        self._known: dict[DigestQuery[None], ChartFacts] = {}
        """The charts that were read, the least recently used first."""

    def recall(self, query: DigestQuery[None]) -> ChartFacts | None:
        """A chart that was judged; None where it wasn't."""
        if (known := self._known.pop(query, None)) is not None:
            self._known[query] = known
        return known

    async def read(self, query: DigestQuery[None], namespace: str) -> ChartFacts:
        """Judge the chart of a manifest: two requests, of which the second may be up to 8 MiB.

        Raises:
            RegistryError: the registry can't be reached, or what it sends isn't what was asked for;
                or the child ended for another reason than the chart.
        """
        found = await self._read(query, namespace)
        self._known[query] = found
        while len(self._known) > KEPT_CHARTS:
            del self._known[next(iter(self._known))]
        return found

    async def _read(self, query: DigestQuery[None], namespace: str) -> ChartFacts:
        async with self._limit.slot(namespace):
            try:
                async with asyncio.timeout(self._timeout):
                    packed = await self._layer(query)
            except TimeoutError:
                raise RegistryUnreachable(
                    f"{query.repository.host}: reading the chart of {query.digest} takes more than "
                    f"{self._timeout:.0f} s"
                ) from None
            if isinstance(packed, ChartFacts):
                return packed
            try:
                return await self._isolated.call(judge_layer, namespace, packed)
            except InterruptedWorkError as error:
                text = f"the chart of {query.digest} couldn't be judged: {error}"
                raise RegistryError(text) from None
            except IsolatedError as error:
                return ChartFacts(unreadable=str(error))

    async def _layer(self, query: DigestQuery[None]) -> bytes | ChartFacts:
        """The bytes of the one layer, or why it isn't read."""
        there, credential = query.repository, query.credential
        body = await self._client.manifest_bytes(
            there, query.digest, credential, CHART_MANIFEST_BYTES
        )
        layer = _one_layer(body)
        if isinstance(layer, ChartFacts):
            return layer
        packed = await self._client.blob(there, layer.digest, credential, CHART_LAYER_BYTES)
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
    elif layer.size > CHART_LAYER_BYTES:
        why = f"it has more than {CHART_LAYER_BYTES // 2**20} MiB"
    return layer if why is None else ChartFacts(unreadable=why)
