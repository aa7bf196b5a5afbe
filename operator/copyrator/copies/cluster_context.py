"""What is known of one cluster, and the clients to it.

Rules and sources are always the home cluster's; each copy is in the cluster that its key names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from copyrator.api.keys import HOME, CopyKey
from copyrator.copies.cache.copies import Copies
from copyrator.copies.cache.namespaces import Namespaces
from copyrator.copies.drift import CopyDriftTracker
from copyrator.copies.fights import FightTracker
from copyrator.copies.policy.records import CopyRecord, RecordReader
from copyrator.copies.policy.sealing import Sealer
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.copies.unmanaged import UnmanagedObjects
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import Discovery, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.workqueue.outcome import Priority


@dataclass(slots=True, eq=False)
class KindView:
    """The copies of one kind that exist in the cluster."""

    resource: Resource
    reader: RecordReader
    copies: Copies
    registration: Registration

    @property
    def synced(self) -> bool:
        """Whether the absence of a copy can be relied on."""
        return self.registration.synced


@dataclass(slots=True, eq=False, kw_only=True)
class ClusterContext:
    """One cluster.

    ``requeue`` makes a key due in so many seconds. Without ``watches_unmanaged``, unmanaged objects
    aren't watched: a dry run reads each once.
    """

    client: KubeClient
    informers: InformerFactory
    discovery: Discovery
    namespaces: Namespaces
    monotonic: Callable[[], float]
    requeue: Callable[[CopyKey, float, Priority], None]
    timing: CopyTiming = DEFAULT_TIMING
    name: str = HOME
    watches_unmanaged: bool = True
    namespace_watch: Registration | None = None
    sealer: Sealer | None = None
    kinds: dict[str, KindView] = field(default_factory=dict)
    drift: CopyDriftTracker = field(init=False)
    """Copies that have to be read whole."""
    fights: FightTracker = field(init=False)
    """Copies that others change back each time."""
    unmanaged: UnmanagedObjects = field(init=False)
    """Objects that aren't ours at the targets of copies."""

    def __post_init__(self) -> None:
        self.drift = CopyDriftTracker(self.monotonic, self.timing)
        self.fights = FightTracker(self.monotonic, self.timing)
        informers = self.informers if self.watches_unmanaged else None
        self.unmanaged = UnmanagedObjects(informers, self.requeue, self.monotonic, self.timing)

    @property
    def namespaces_synced(self) -> bool:
        """Whether the absence of a namespace can be relied on."""
        return self.namespace_watch is not None and self.namespace_watch.synced

    @property
    def namespaces_seen(self) -> bool:
        """Whether all namespaces were listed once."""
        return self.namespace_watch is not None and self.namespace_watch.reflector.lists > 0

    def key(self, kind: str, namespace: str, name: str) -> CopyKey:
        """The key of a copy in this cluster; ``kind`` is the resource's key."""
        return CopyKey(kind, namespace, name, self.name)

    def record(self, key: CopyKey) -> CopyRecord | None:
        """The copy that exists at a key, if its kind is watched."""
        view = self.kinds.get(key.kind)
        return view.copies.get((key.namespace, key.name)) if view else None
