"""Other clusters that rules have sources in: one client for each credential, shared by rules.

A rule names a Secret in its own namespace, which is watched: an edit is in force at once. Each
credential has watches, a circuit breaker and a memory bound of its own, and nothing here waits for
an answer of another cluster: a cluster that hangs delays no other rule.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from copyrator.api import names, structs
from copyrator.api.certificates import CREDENTIAL, Certificate
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import ObjectName, RuleKey
from copyrator.api.kubeconfig import (
    InvalidKubeconfigError,
    Kubeconfig,
    KubeconfigRef,
    is_home,
    kubeconfig_in,
)
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import place_of
from copyrator.api.rule_status import RuleFacts, SourceCluster
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import format_time
from copyrator.copies.context import CopyContext
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import RulePhase, RuleState, StoppedError
from copyrator.copies.rules.status import write_status
from copyrator.copies.sources.records import SourceShare, SourceShares
from copyrator.kube.auth import remote_endpoint
from copyrator.kube.client.remote import RemoteClient
from copyrator.kube.client.transport import KubeconfigError
from copyrator.kube.errors import ApiError, ClusterChanged, Unreachable
from copyrator.kube.resources import SECRETS, UID_NAMESPACE, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import Timing, WatchSpec

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
SECRET_AGAIN: Final = 2.0
"""Seconds before a Secret that wasn't read yet is looked at again."""
RECORDED_AGAIN: Final = 2.0
"""Seconds before the clusters of a rule are recorded again whose status couldn't be written."""
CLUSTER_AGAIN: Final = 60.0
"""Seconds before it is asked again whether the former cluster is back, and before the copies of a
rule whose cluster can't be read are summarized again."""


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


class Remotes:
    """All other clusters in use."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self.timing = REMOTE_TIMING
        self._shares = SourceShares(context.queue.add)
        self._uses: dict[RuleKey, dict[KubeconfigRef, RemoteUse]] = {}
        self._clusters: dict[str, RemoteCluster] = {}
        """By fingerprint."""
        self._closing: set[asyncio.Task[None]] = set()

    # --- clusters --------------------------------------------------------------------------------

    def of_rule(self, rule: RuleKey) -> Mapping[KubeconfigRef, RemoteUse]:
        """What a rule uses."""
        return self._uses.get(rule, {})

    def _use(self, rule: RuleKey, ref: KubeconfigRef) -> RemoteUse:
        """Watch the Secret of a rule's kubeconfig; `_open` opens it."""
        uses = self._uses.setdefault(rule, {})
        if ref not in uses:
            name = ObjectName(rule.namespace, ref.secret)
            is_new = all(one.name != name for all_ in self._uses.values() for one in all_.values())

            def changed(*_: object) -> None:
                self._context.queue.add(rule)

            spec = WatchSpec(SECRETS, name.namespace, name=name.name, decode=read_secret)
            secret = self._context.informers.acquire(spec, changed, on_synced=changed)
            uses[ref] = RemoteUse(rule, ref, secret)
            if is_new:
                self._withhold(name)
        return uses[ref]

    def _open(self, use: RemoteUse) -> None:
        """Open the cluster that the Secret names now, and identify it.

        Raises:
            RemoteError: it isn't identified (yet).
        """
        secret: CredentialSecret | None = use.secret.store.get(use.name)
        if secret is None and not use.secret.seen:
            failure = use.secret.failure
            why = f"the Secret can't be read: {failure.message}" if failure else ""
            raise RemoteError(why, again=SECRET_AGAIN)
        try:
            if secret is None:
                raise RemoteError(f"there is no Secret {use.name}; create it")
            config = secret.kubeconfig(use.ref.key)
        except RemoteError as error:
            self._leave(use)
            raise RemoteError(f"Secret {use.name}, key {use.ref.key}: {error.message}") from None
        known = use.cluster
        if known is None or known.fingerprint != config.fingerprint or known.client.changed:
            self._leave(use)
            use.cluster = self._join(config, use)
        cluster = use.cluster
        assert cluster is not None
        if not cluster.usable:
            cluster.identify(lambda: self._notify(cluster))
            raise RemoteError(cluster.failure.message if cluster.failure else "")

    def _join(self, config: Kubeconfig, use: RemoteUse) -> RemoteCluster:
        fingerprint = config.fingerprint
        cluster = self._clusters.get(fingerprint)
        if cluster is None:
            limit = self._context.settings.max_remotes
            if len(self._clusters) >= limit:
                raise RemoteError(
                    f"{limit} credentials of other clusters are in use, the limit; use the "
                    "same one in several rules, or raise --max-remotes (chart: rules.maxRemotes)",
                    again=LONGEST_DELAY,
                )
            share = SourceShare(self._shares, None, REMOTE_SOURCE_BYTES, place_of(use.ref).strip())
            try:
                cluster = RemoteCluster(config, use.ref, share, self.timing)
            except KubeconfigError as error:
                raise RemoteError(str(error)) from None
            self._clusters[fingerprint] = cluster
            opened = cluster
            cluster.client.on_changed = lambda: self._changed(opened)
        cluster.users.add(use.rule)
        return cluster

    def _notify(self, cluster: RemoteCluster) -> None:
        for rule in list(cluster.users):
            self._context.queue.add(rule)

    def _changed(self, cluster: RemoteCluster) -> None:
        """Another cluster answers with this credential: each of its users opens that one anew."""
        if self._clusters.get(cluster.fingerprint) is cluster:
            del self._clusters[cluster.fingerprint]
        self._notify(cluster)

    def release(self, rule: RuleKey, but: Collection[KubeconfigRef] = ()) -> None:
        """A rule doesn't use other clusters any more, but for these."""
        uses = self._uses.get(rule, {})
        for ref in [ref for ref in uses if ref not in but]:
            use = uses.pop(ref)
            self._leave(use)
            use.secret.release()
        if not uses:
            self._uses.pop(rule, None)

    def _leave(self, use: RemoteUse) -> None:
        cluster, use.cluster = use.cluster, None
        use.accepted = False
        others = self.of_rule(use.rule).values()  # it may name one credential by two Secrets
        if cluster is None or any(one.cluster is cluster for one in others if one is not use):
            return
        cluster.users.discard(use.rule)
        if cluster.users:
            return
        if self._clusters.get(cluster.fingerprint) is cluster:
            del self._clusters[cluster.fingerprint]
        task = asyncio.create_task(cluster.close(), name="close another cluster")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def publish(self) -> None:
        """Set the gauges; to be called before a scrape."""
        metrics = self._context.metrics
        for gauge in (metrics.remote_up, metrics.remote_silent_seconds):
            gauge.clear()
        clusters = sorted(self._clusters.values(), key=lambda one: one.silent_for)
        clusters.sort(key=lambda one: one.up, reverse=True)
        for cluster in clusters:  # of several in one Secret the worst is shown
            metrics.remote_up.labels(cluster.secret).set(cluster.up)
            metrics.remote_silent_seconds.labels(cluster.secret).set(cluster.silent_for)

    async def close(self) -> None:
        """Close all, and wait for it."""
        for rule in list(self._uses):
            self.release(rule)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _withhold(self, secret: ObjectName) -> None:
        """A Secret is a rule's kubeconfig from now on, so it is copied nowhere."""
        context = self._context
        for owner in context.index.readers(SECRETS.key, *secret):
            context.index.remove(owner, str(secret))
            for binding in context.index.of_rule(owner).values():
                binding.withhold()
            if rule := context.rules.by_owner(owner):
                context.queue.add(rule.key)

    # --- preparation -----------------------------------------------------------------------------

    async def connect(self, state: RuleState, rule: Rule, refs: Collection[KubeconfigRef]) -> None:
        """Connect to those of a rule, and have its status name them before anything is copied.

        Otherwise a restart would accept whatever is behind a kubeconfig then.

        Raises:
            StoppedError: one can't be used (now), or the status doesn't name it (yet).
            ConflictError: the rule has changed.
            ApiError: the status can't be written.
        """
        self.release(rule.key, but=refs)
        state.has_remotes = bool(refs)
        for ref in refs:
            self._connect(state, rule, ref)
        if not self._unrecorded(rule):
            return
        if state.generation != rule.generation:
            state.pause()
        state.next_status = 0.0
        facts = self.facts_kept(rule)
        await write_status(self._context, state, rule, ready_conditions.reading(), facts)
        if self._unrecorded(rule):
            raise StoppedError(None, RECORDED_AGAIN)

    def _connect(self, state: RuleState, rule: Rule, ref: KubeconfigRef) -> None:
        """Connect to another cluster, as it is known to be.

        Raises:
            StoppedError: it can't be used (now); the copies stay as they are.
        """
        use = self._use(rule.key, ref)
        try:
            self._open(use)
        except RemoteError as error:
            state.phase = RulePhase.INCOMPLETE  # its copies stay as they are, and are healed
            state.release_sources()
            for one in self.of_rule(rule.key).values():
                one.serve(None)
            if state.generation != rule.generation:
                state.pause()  # the spec that is served doesn't hold any more
            condition = None if rule.is_observed else ready_conditions.reading()
            if error.message:
                condition = self._unreachable(rule, use, error.message)
            raise StoppedError(condition, error.again, self.facts_kept(rule, use)) from None
        home = self._context.namespaces.get(UID_NAMESPACE)
        if use.is_home(self._context.client.connection.host, home.uid if home else ""):
            why = (
                f"the Secret {use.name} leads to the cluster that the operator runs in; remove "
                "kubeConfig, or correct the Secret"
            )
            problem = InvalidSpec("spec.source.kubeConfig", why)
            raise StoppedError(ready_conditions.invalid(problem), freezes=True)
        known, found = use.known_to(rule.uid) or _known_cluster(rule, use), use.describe()
        if known is None or known.is_same_as(found) or rule.source_cluster == found.identity:
            use.accept(rule.uid)
            return
        use.accepted = False
        # It may have changed back; but one may have another uid whenever it is asked.
        if use.cluster and use.cluster.client.identified_for >= CLUSTER_AGAIN / 2:
            use.cluster.identify(lambda: None)
        raise StoppedError(
            _source_cluster_changed(use, known, found, rule.owner),
            CLUSTER_AGAIN,
            self.facts_kept(rule, use),
            freezes=True,
        )

    def are_served(self, key: RuleKey) -> bool:
        """Whether the sources that are watched are those of the present clusters."""
        return all(use.served is use.cluster for use in self.of_rule(key).values())

    def serve(self, key: RuleKey) -> bool:
        """Take the sources from the present clusters; False where one has changed meanwhile."""
        uses = self.of_rule(key).values()
        if not all(use.cluster is not None and use.cluster.usable for use in uses):
            return False
        for use in uses:
            use.serve(use.cluster)
        return True

    # --- reports ---------------------------------------------------------------------------------

    def judge(self, rule: Rule) -> ReadyCondition | None:
        """SourceUnreachable while the watches of another cluster have a fault; None without one."""
        for use in self.of_rule(rule.key).values():
            for watch in use.watches:
                if watch.failure is not None and not watch.synced:
                    what = str(watch.reflector).removesuffix(place_of(use.ref))
                    return self._unreachable(rule, use, f"{what}: {watch.failure.message}")
            use.unreachable_since = None
        return None

    def describe(self, rule: Rule) -> list[SourceCluster]:
        """The clusters of a rule for its status."""
        return [use.describe() for use in self.of_rule(rule.key).values() if use.cluster]

    def credentials(self, rule: Rule) -> Iterator[Certificate]:
        """The ends of a rule's credentials, to be warned of as those of certificates are."""
        for use in self.of_rule(rule.key).values():
            if (certificate := use.certificate) is not None:
                yield certificate

    def facts_kept(self, rule: Rule, lost: RemoteUse | None = None) -> RuleFacts:
        """The counts of the last status, of a rule whose sources can't be read (yet).

        Its other clusters are recorded as they are now: of several that have changed, each is
        confirmed in turn. `lost` is the one that can't be used.
        """
        kept = {KubeconfigRef(one.secret, one.key): one for one in rule.status.source_clusters}
        for use in self.of_rule(rule.key).values():
            if use.accepted and use is not lost:
                kept[use.ref] = use.describe()
            elif (known := use.known_to(rule.uid) or kept.get(use.ref)) is not None:
                since = use.unreachable_since if use is lost else known.unreachable_since
                kept[use.ref] = structs.replace(known, unreachable_since=since)
        return RuleFacts(
            sources=rule.status.sources,
            targets=rule.status.targets,
            copies=rule.status.copies,
            clusters=list(kept.values()),
        )

    def _unrecorded(self, rule: Rule) -> bool:
        """Whether the rule has accepted another cluster that its status doesn't name."""
        for use in self.of_rule(rule.key).values():
            known = _known_cluster(rule, use)
            if use.accepted and not (known and known.is_same_as(use.describe())):
                return True
        return False

    def _unreachable(self, rule: Rule, use: RemoteUse, why: str) -> ReadyCondition:
        """SourceUnreachable, since when it was first found; that outlives a restart."""
        if use.unreachable_since is None:
            known = _known_cluster(rule, use)
            use.unreachable_since = (known and known.unreachable_since) or self._context.clock()
        return ReadyCondition(
            Health.RETRYING,
            RuleReason.SOURCE_UNREACHABLE,
            f"the sources{place_of(use.ref)} can't be read, since "
            f"{format_time(use.unreachable_since)}: {why}. The copies stay as they are",
        )


def _known_cluster(rule: Rule, use: RemoteUse) -> SourceCluster | None:
    """What the status has of the cluster behind a kubeconfig."""
    for known in rule.status.source_clusters:
        if (known.secret, known.key) == (use.ref.secret, use.ref.key):
            return known
    return None


def _source_cluster_changed(
    use: RemoteUse, known: SourceCluster, found: SourceCluster, owner: str
) -> ReadyCondition:
    """Another cluster answers behind the kubeconfig than the one whose objects were copied."""
    return ReadyCondition(
        Health.STALLED,
        RuleReason.SOURCE_CLUSTER_CHANGED,
        f"kubeconfig {use.ref.secret} leads to another cluster ({found.identity}) than before "
        f"({known.identity}); the copies stay as they are. Correct the Secret {use.name}, or "
        f"confirm: kubectl annotate copyratorrule -n {owner.partition('/')[0]} "
        f"{owner.partition('/')[2]} --overwrite {names.ANN_SOURCE_CLUSTER}={found.identity}",
    )
