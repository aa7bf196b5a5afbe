"""Which other clusters a rule's sources are in, and what its status says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from copyrator.api import names, structs
from copyrator.api.certificates import Certificate
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import ObjectName, RuleKey
from copyrator.api.kubeconfig import Kubeconfig, KubeconfigRef
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import place_of
from copyrator.api.rule_status import RuleFacts, SourceCluster
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import format_time
from copyrator.copies.context import CopyContext
from copyrator.copies.remotes.clusters import (
    LONGEST_DELAY,
    REMOTE_SOURCE_BYTES,
    REMOTE_TIMING,
    CredentialSecret,
    RemoteCluster,
    RemoteError,
    RemoteUse,
    read_secret,
)
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import RulePhase, RuleState, StoppedError
from copyrator.copies.rules.status import write_status
from copyrator.copies.sources.shares import SourceShare, SourceShares
from copyrator.kube.client.transport import KubeconfigError
from copyrator.kube.resources import SECRETS, UID_NAMESPACE
from copyrator.kube.watch.informers import Registration, WatchSpec

SECRET_AGAIN: Final = 2.0
"""Seconds before a Secret that wasn't read yet is looked at again."""
RECORDED_AGAIN: Final = 2.0
"""Seconds before the clusters of a rule are recorded again whose status couldn't be written."""
CLUSTER_AGAIN: Final = 60.0
"""Seconds before it is asked again whether the former cluster is back, and before the copies of a
rule whose cluster can't be read are summarized again."""


class Remotes:
    """All other clusters in use."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self.timing = REMOTE_TIMING
        self._shares = SourceShares(context.requeue_rule)
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
            uses[ref] = RemoteUse(rule, ref, self._watch(name, rule))
            if is_new:
                self._withhold(name)
        return uses[ref]

    def _watch(self, name: ObjectName, rule: RuleKey) -> Registration:
        def changed(*_: object) -> None:
            self._context.requeue_rule(rule)

        spec = WatchSpec(SECRETS, name.namespace, name=name.name, decode=read_secret)
        return self._context.informers.acquire(spec, changed, on_synced=changed)

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
            self._context.requeue_rule(rule)

    def _changed(self, cluster: RemoteCluster) -> None:
        """Another cluster answers with this credential: each of its users opens that one anew."""
        if self._clusters.get(cluster.fingerprint) is cluster:
            del self._clusters[cluster.fingerprint]
        self._notify(cluster)

    def _check_again(self, use: RemoteUse, seconds: float) -> None:
        """Ask again which cluster it is, unless that was done within so long.

        It may have changed back; but one may have another uid whenever it is asked.
        """
        cluster = use.cluster
        if cluster is not None and cluster.client.identified_for >= seconds:
            cluster.identify(lambda: None)

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
                context.requeue_rule(rule.key)

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
            raise StoppedError(_source_is_home(use), freezes=True)
        known, found = use.known_to(rule.uid) or _known_cluster(rule, use), use.describe()
        if known is None or known.is_same_as(found) or rule.source_cluster == found.identity:
            use.accept(rule.uid)
            return
        use.accepted = False
        self._check_again(use, CLUSTER_AGAIN / 2)
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
            if why := _fault(use, use.watches):
                return self._unreachable(rule, use, why)
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


def _fault(use: RemoteUse, watches: Iterable[Registration]) -> str | None:
    """Why the sources in another cluster aren't seen now, or None."""
    for watch in watches:
        if watch.failure is not None and not watch.synced:
            what = str(watch.reflector).removesuffix(place_of(use.ref))
            return f"{what}: {watch.failure.message}"
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


def _source_is_home(use: RemoteUse) -> ReadyCondition:
    """The other cluster is the operator's own."""
    return ready_conditions.invalid(
        InvalidSpec(
            "spec.source.kubeConfig",
            f"the Secret {use.name} leads to the cluster that the operator runs in; remove "
            "kubeConfig, or correct the Secret",
        )
    )
