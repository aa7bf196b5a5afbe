"""Other clusters that rules have sources in: one client for each credential, shared by rules.

A rule names a Secret in its own namespace, which is watched: an edit is in force at once. Each
credential has watches, a circuit breaker and a memory bound of its own, and nothing here waits for
an answer of another cluster: a cluster that hangs delays no other rule.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from copyrator.api.certificates import CREDENTIAL, Certificate
from copyrator.api.keys import ObjectName, RuleKey
from copyrator.api.kubeconfig import (
    InvalidKubeconfigError,
    Kubeconfig,
    KubeconfigRef,
    is_home,
    kubeconfig_in,
)
from copyrator.api.rule_spec import place_of
from copyrator.api.rule_status import SourceCluster
from copyrator.copies.sources.records import SourceShare
from copyrator.kube.auth import remote_endpoint
from copyrator.kube.client.remote import RemoteClient
from copyrator.kube.errors import ApiError, ClusterChanged, Unreachable
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import Timing

log = logging.getLogger(__name__)

REMOTE_SOURCE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of sources (as JSON) that are held of one other cluster with one credential."""

REMOTE_TIMING: Final = Timing(
    stream=9.0, silence=12.0, doubt=9.0, doubt_silence=12.0, stable=5.0, tolerance=15.0
)
"""A fault of 15 s makes rules SourceUnreachable. Streams are short: that a server doesn't answer,
though its connections stay, is noticed only when a stream doesn't end in time."""
RULES_READING: Final = 2
"""Rules whose templates' sources are read from one cluster at the same time; others try later."""
READS: Final = 4
"""Concurrent reads from one cluster."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds between two tries to identify a cluster, doubling."""


class RemoteError(Exception):
    """A rule's other cluster can't be used (now); the copies stay as they are."""

    def __init__(self, message: str = "", *, again: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        """Empty while it is only being opened."""
        self.again = again
        """Seconds after which it may be right although nothing here changes."""


class BusyError(Exception):
    """As many rules as may are reading sources of a cluster; try again soon."""


@dataclass(slots=True, eq=False)
class CredentialSecret:
    """A Secret with kubeconfigs, each parsed once."""

    resource_version: str
    body: Mapping[str, Any] = field(repr=False)
    _parsed: dict[str, Kubeconfig | str] = field(default_factory=dict, repr=False)

    def kubeconfig(self, key: str) -> Kubeconfig:
        """The kubeconfig of one of its keys.

        Raises:
            RemoteError: there is none, or it isn't valid.
        """
        if key not in self._parsed:
            try:
                self._parsed[key] = kubeconfig_in(self.body, key)
            except InvalidKubeconfigError as error:
                self._parsed[key] = str(error)
        found = self._parsed[key]
        if isinstance(found, str):
            raise RemoteError(found)
        return found


def read_secret(body: dict[str, Any]) -> CredentialSecret:
    """Decode for a watch."""
    return CredentialSecret(
        str(body["metadata"].get("resourceVersion", "")), {"data": body.get("data")}
    )


class RemoteCluster:
    """Another cluster by one credential, open as long as a rule uses it.

    Attributes:
        users: the rules that use it.
        failure: why it isn't identified yet.
    """

    def __init__(
        self, config: Kubeconfig, ref: KubeconfigRef, share: SourceShare, timing: Timing
    ) -> None:
        self.config = config
        self.fingerprint = config.fingerprint
        self.secret = ref.secret
        self.share = share
        self.client = RemoteClient(remote_endpoint(config), place_of(ref))
        self.informers = InformerFactory(self.client, timing=timing)
        self.users: set[RuleKey] = set()
        self.failure: ApiError | None = None
        self._task: asyncio.Task[None] | None = None
        self._rules_reading = 0
        self._reads = asyncio.Semaphore(READS)

    @property
    def usable(self) -> bool:
        """Whether it is known which cluster it is, and that it still is the same."""
        return self.client.identified and not self.client.changed

    @property
    def fault(self) -> ApiError | None:
        """The present fault of one of its watches."""
        faults = (one.failure for one in self.informers.statuses())
        return next((one for one in faults if one is not None), None)

    @property
    def up(self) -> bool:
        """Whether its watches work."""
        return self.usable and self.fault is None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A rule reads the sources of its template.

        Raises:
            BusyError: enough others do: no more workers wait for this cluster.
        """
        if self._rules_reading >= RULES_READING:
            raise BusyError
        self._rules_reading += 1
        try:
            yield
        finally:
            self._rules_reading -= 1

    async def read(self, resource: Resource, name: ObjectName) -> dict[str, Any]:
        """Read one object, whole.

        Raises:
            ApiError: it can't be read; at once while a watch has a fault.
        """
        if (fault := self.fault) is not None:
            raise Unreachable(fault.message)
        async with self._reads:
            return await self.client.get(resource, *name)

    @property
    def silent_for(self) -> float:
        """Seconds since its last answer or event."""
        watches = (one.silent_for for one in self.informers.statuses())
        return min(watches, default=self.client.silent_for)

    def identify(self, on_news: Callable[[], None]) -> None:
        """Ask in the background which cluster it is, until there is an answer."""
        if self._task is None or self._task.done():
            task = self._identify(on_news)
            self._task = asyncio.create_task(task, name=f"identify{self.client.connection.place}")

    async def _identify(self, on_news: Callable[[], None]) -> None:
        delay = FIRST_DELAY
        while not self.client.changed:
            try:
                await self.client.identify()
            except ClusterChanged:
                return  # the client has reported it
            except ApiError as error:
                is_news = self.failure is None or self.failure.message != error.message
                self.failure = error
                if is_news:
                    on_news()
                await asyncio.sleep(delay)
                delay = min(delay * 2, LONGEST_DELAY)
            else:
                self.failure = None
                on_news()
                return

    async def close(self) -> None:
        """End its watches and connections."""
        if self._task is not None:
            self._task.cancel()
        await self.client.close()  # first: ending a watch doesn't wait for its connection
        await self.informers.close()


@dataclass(slots=True, eq=False)
class RemoteUse:
    """What one rule has of one kubeconfig."""

    rule: RuleKey
    ref: KubeconfigRef
    secret: Registration
    cluster: RemoteCluster | None = None
    unreachable_since: datetime | None = None
    served: RemoteCluster | None = None
    """The cluster whose sources are watched."""
    watches: list[Registration] = field(default_factory=list)
    """Of those sources."""
    accepted: bool = False
    """Whether the rule takes its sources from this cluster: it is the known one, or confirmed."""
    _known: tuple[str, SourceCluster] | None = field(default=None, init=False)
    """The last one that was accepted, with the uid of the rule: one of the same name is another."""

    def serve(self, cluster: RemoteCluster | None) -> None:
        """The sources of this cluster are watched from now on; of none for None."""
        self.served, self.watches = cluster, []

    @property
    def informers(self) -> InformerFactory:
        """Where the sources are watched."""
        assert self.served is not None
        return self.served.informers

    @property
    def share(self) -> SourceShare:
        """The limits of what is held of the sources."""
        assert self.served is not None
        return self.served.share

    def accept(self, uid: str) -> None:
        """The rule with this uid takes its sources from this cluster, from now on."""
        self.accepted = True
        self._known = uid, self.describe()

    def known_to(self, uid: str) -> SourceCluster | None:
        """What the rule with this uid has accepted last, whether its status has it yet or not."""
        return self._known[1] if self._known and self._known[0] == uid else None

    @property
    def name(self) -> ObjectName:
        """The Secret."""
        return ObjectName(self.rule.namespace, self.ref.secret)

    @property
    def certificate(self) -> Certificate | None:
        """The end of its credential, to be warned of as those of certificates are."""
        ends = self.cluster.config.ends if self.cluster else None
        return Certificate(ends, f"{CREDENTIAL}{self.name}", self.ref.key) if ends else None

    def describe(self) -> SourceCluster:
        """The cluster for the status; it has to be identified."""
        assert self.cluster is not None
        ca = hashlib.sha256(self.cluster.config.ca).hexdigest()
        uid, since = self.cluster.client.uid or "", self.unreachable_since
        return SourceCluster(self.ref.secret, self.ref.key, uid, f"sha256:{ca}", since)

    def is_home(self, server: str, uid: str) -> bool:
        """Whether it is the operator's own cluster, by its server or its uid."""
        assert self.cluster is not None
        known = self.cluster.client.uid
        return is_home(self.cluster.config.server, [server]) or bool(uid and known == uid)
