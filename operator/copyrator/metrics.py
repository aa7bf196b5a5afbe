"""All metrics of the operator in one place, so that names are stable.

The lowest layer: every package may count, and nothing of ours is imported here. Labels are bounded
by what a cluster's owner configures (kinds, resources, reasons), never by the number of objects:
no metric has a label with the name of a namespace or a Bundle. One has names of rules, of a limited
number: certificate_expiry_timestamp_seconds. Two have names of Secrets, at most --max-remotes:
remote_up, remote_silent_seconds. Those of notifications have the names of their entries.
"""

from __future__ import annotations

from functools import cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.registry import Collector

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STALL_SECONDS = (0.05, 0.1, 0.25, 1.0, 5.0)
_LAG_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_DEPLOY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)


def _cache_labels(metric: Counter | Histogram) -> None:
    """Have `labels` take no lock: for metrics of each write, of which no series is removed."""
    metric.labels = cache(metric.labels)  # type: ignore[method-assign,assignment]


class Metrics:
    """The collectors, registered in `registry` at construction.

    One instance per process (or test): two in one registry raise ValueError, which also detects a
    metric that is declared twice.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        # They double the number of series, and are not used.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._engine()
        self._kube()
        self._rules()
        self._bundles()
        self._notify()
        for counter in (self.reconciles, self.copy_writes, self.api_requests):
            _cache_labels(counter)
        for histogram in (self.reconcile_seconds, self.api_request_seconds):
            _cache_labels(histogram)

    def _engine(self) -> None:
        self.build_info = self._gauge(
            "build_info", "Always 1; the labels have the versions.", "version", "python", "kopf"
        )
        self.leader = self._gauge("leader", "1 where this replica leads, 0 where it is on standby.")
        self.queue_depth = self._gauge("queue_depth", "Keys that wait for a worker.")
        self.queue_oldest_seconds = self._gauge(
            "queue_oldest_seconds", "Seconds that the oldest due key has waited."
        )
        self.queue_retries = self._counter("queue_retries", "Keys requeued after a failure.", "key")
        self.workers_busy = self._gauge("workers_busy", "Workers that are reconciling a key.")
        self.reconciles = self._counter("reconciles", "Reconciles by outcome.", "key", "outcome")
        self.reconcile_seconds = self._histogram(
            "reconcile_seconds", "Duration of a reconcile.", "key"
        )
        self.event_loop_stall_seconds = self._histogram(
            "event_loop_stall_seconds",
            "Processor time of the event loop's thread in one callback, of those over 10 ms: the "
            "callback blocks all other work.",
            buckets=_STALL_SECONDS,
        )
        self.write_limit = self._gauge("write_limit", "Limit of concurrent writes.")
        self.writes_in_flight = self._gauge("writes_in_flight", "Writes in flight now.")

    def _kube(self) -> None:
        self.api_requests = self._counter(
            "api_requests",
            "Requests to the API server; code is 0 without a response.",
            "verb",
            "resource",
            "code",
        )
        self.api_request_seconds = self._histogram(
            "api_request_seconds", "Latency of requests, without watches.", "verb"
        )
        self.watches = self._gauge("watches", "Open watches; each is one connection.", "resource")
        self.watches_synced = self._gauge(
            "watches_synced", "Watches with a complete list of their objects.", "resource"
        )
        self.watch_objects = self._gauge("watch_objects", "Objects held by watches.", "resource")
        self.watch_events = self._counter(
            "watch_events", "Changes that watches reported.", "resource", "type"
        )
        self.watch_restarts = self._counter(
            "watch_restarts", "Restarts of watches with a list.", "resource", "reason"
        )
        self.events_recorded = self._counter(
            "events_recorded", "Kubernetes Events written.", "type", "reason"
        )
        self.events_dropped = self._counter(
            "events_dropped", "Kubernetes Events dropped (rate limit or refusal).", "cause"
        )

    def _rules(self) -> None:
        self.rules = self._gauge("rules", "Rules by the reason of their Ready condition.", "reason")
        self.copies = self._gauge(
            "copies",
            "Copies of all rules: desired, ready (of these satisfied: objects of other clients), "
            "failed, conflicts, pending.",
            "state",
        )
        self.certificate_expiry = self._gauge(
            "certificate_expiry_timestamp_seconds",
            "When the first certificate in a rule's copies ends (Unix time); of the 100 rules "
            "whose certificates end soonest.",
            "rule",
        )
        self.remote_up = self._gauge(
            "remote_up",
            "1 where the watches of another cluster work that rules have sources in, else 0; by "
            "the name of the Secret with its kubeconfig.",
            "kubeconfig",
        )
        self.remote_silent_seconds = self._gauge(
            "remote_silent_seconds",
            "Seconds since the last answer or event of another cluster that rules have sources in.",
            "kubeconfig",
        )
        self.copy_writes = self._counter(
            "copy_writes",
            "Writes of copies: create, update, adopt, reseal, delete, release.",
            "action",
            "resource",
        )
        self.copy_failures = self._counter(
            "copy_failures", "Copies that could not be written, by reason.", "reason"
        )
        self.copies_contested = self._gauge(
            "copies_contested",
            "Copies that other clients change back each time, so that they are written after "
            "pauses (ConflictPersists).",
        )
        self.rollouts = self._counter(
            "rollouts",
            "Rollouts of rules with spec.rollout: started (also by a change during another one), "
            "stopped by a consumer that isn't healthy, finished.",
            "outcome",
        )
        for outcome in ("started", "stopped", "finished"):
            self.rollouts.labels(outcome)  # so that the first one is an increase, too
        self.consumer_restarts = self._counter(
            "consumer_restarts", "Workloads restarted because a copy that they use has new content."
        )
        self.copy_lag_seconds = self._histogram(
            "copy_lag_seconds",
            "Time from the event of a changed source to the write of the last of its rule's "
            "copies.",
            buckets=_LAG_SECONDS,
        )

    def _bundles(self) -> None:
        self.bundles = self._gauge(
            "bundles", "Bundles by the reason of their Ready condition.", "reason"
        )
        self.bundles_poll_failed = self._gauge(
            "bundles_poll_failed",
            "Bundles whose last poll failed, also while their Ready condition is kept.",
        )
        self.updates_pending = self._gauge(
            "updates_pending",
            "Bundles of which a version or an edit waits for a gate, by the reason of their "
            "condition UpdatePending.",
            "reason",
        )
        self.bundles_quarantined = self._gauge(
            "bundles_quarantined",
            "Bundles whose newest version failed too often and isn't retried; without suspended "
            "ones.",
        )
        self.bundle_references = self._gauge(
            "bundle_references",
            "ConfigMaps and Secrets that Bundles reference, by the scope of the watch that covers "
            "them: name, namespace, all, or none (edits are then found by polls only).",
            "scope",
        )
        self.oldest_poll_seconds = self._gauge(
            "oldest_poll_seconds",
            "Seconds since the last successful poll: the maximum of all Bundles that aren't "
            "suspended.",
        )
        self.bundles_untrusted = self._gauge(
            "bundles_untrusted",
            "Bundles whose deployed version doesn't satisfy spec.verify or the signature policy.",
        )
        self.bundles_drifted = self._gauge(
            "bundles_drifted",
            "Bundles with objects that aren't as they were deployed, by reason: Drifted, or "
            "DriftRecurring where corrections don't last.",
            "reason",
        )
        self.bundles_health = self._gauge(
            "bundles_health",
            "Bundles with spec.health: Watch, by their condition Healthy: True, False or Unknown.",
            "healthy",
        )
        self.bundles_as_approved = self._gauge(
            "bundles_as_approved",
            "Bundles whose last deploy was planned and approved, by their condition AsApproved: "
            "True, False where it stored something else, or Unknown.",
            "as_approved",
        )
        self.drift_checks_skipped = self._counter(
            "drift_checks_skipped",
            "Checks for drift that couldn't begin before the next one was due: raise "
            "--max-plan-jobs, or spec.drift.interval.",
        )
        self.drift_corrections = self._counter(
            "drift_corrections", "Deploys that corrected drift, by result.", "result"
        )
        self.signature_checks = self._counter(
            "signature_checks",
            "Digests whose signatures were checked; Trusted or NotTrusted.",
            "result",
        )
        self.evidence_checks = self._counter(
            "evidence_checks",
            "Digests whose attestations were read for spec.promoteFrom: Verified (all count), "
            "Refused (some don't, or there is none), or Unavailable (they can't all be read).",
            "result",
        )
        self.attestations = self._counter(
            "attestations",
            "Statements of Bundles with spec.attest that were pushed to a registry: Attested (also "
            "renewed), Withdrawn, or the reason of the failure.",
            "result",
        )
        self.bundles_unattested = self._gauge(
            "bundles_unattested",
            "Bundles whose statement isn't in the registry, as it can't be signed or pushed, by "
            "the reason of their condition Attested.",
            "reason",
        )
        self.freezes = self._gauge(
            "freezes",
            "Freezes in force, by scope (all, or namespace) and reason: Frozen, or "
            "FreezeUnreadable where nothing is deployed because a freeze can't be read.",
            "scope",
            "reason",
        )
        self.plans_awaiting_approval = self._gauge(
            "plans_awaiting_approval", "Bundles whose plan waits for a person's decision."
        )
        self.oldest_plan_seconds = self._gauge(
            "oldest_plan_seconds",
            "Seconds since the oldest plan was made that waits for a person's decision; 0 where "
            "none does.",
        )
        self.bundles_waiting = self._gauge(
            "bundles_waiting",
            "Bundles whose next version, or edit, waits for a gate, by the first one that it waits "
            "for; without suspended ones.",
            "gate",
        )
        self.oldest_wait_seconds = self._gauge(
            "oldest_wait_seconds",
            "Seconds for which a Bundle has had a version, or an edit, that waits for a gate: the "
            "maximum of all; 0 where none does.",
        )
        self.soak_remaining_seconds = self._gauge(
            "soak_remaining_seconds",
            "Seconds until the last soak ends that a Bundle with spec.promoteFrom waits for; 0 "
            "where there is none.",
        )
        self.deploys = self._counter(
            "deploys",
            "Finished Jobs by action (deploy, plan, drift, uninstall) and result.",
            "action",
            "result",
        )
        self.deploy_seconds = self._histogram(
            "deploy_seconds",
            "Time from the Job's creation to its outcome.",
            "action",
            buckets=_DEPLOY_SECONDS,
        )
        self.orphaned_releases = self._counter(
            "orphaned_releases", "Releases left behind when their Bundle was deleted.", "cause"
        )
        self.polls = self._counter(
            "polls",
            "Polls of registries, each shared by all Bundles with the same registry, repository "
            "and credentials; Answered, or the reason of the failure.",
            "result",
        )
        self.webhook_calls = self._counter(
            "webhook_calls",
            "Calls of the webhook by sender and response.",
            "sender",
            "code",
        )
        self.webhook_polls = self._counter(
            "webhook_polls", "Bundles polled at once because of a call of the webhook."
        )
        self.cloud_logins = self._counter(
            "cloud_logins",
            "Logins to clouds' registries that were asked for (spec.provider); outcome is Issued, "
            "or the reason of the error.",
            "provider",
            "outcome",
        )
        self.registry_requests = self._counter(
            "registry_requests",
            "Requests to OCI registries; code is 0 without a response, host is other for hosts "
            "that no Bundle names.",
            "host",
            "method",
            "code",
        )
        self.registry_request_seconds = self._histogram(
            "registry_request_seconds", "Latency of requests to OCI registries.", "host"
        )

    def _notify(self) -> None:
        self.notifications = self._counter(
            "notifications",
            "Messages of notifications by entry and outcome: sent, failed (tried again), or "
            "dropped (transitions over the limit of those that wait).",
            "entry",
            "outcome",
        )
        self.notifications_failing = self._gauge(
            "notifications_failing",
            "1 where the last message of an entry failed, else 0.",
            "entry",
        )
        self.notification_faults = self._gauge(
            "notification_faults",
            "Faults of the ConfigMap copyrator-notifications: entries that aren't used.",
        )

    def add(self, collector: Collector) -> None:
        """Register a collector that computes its samples when it is scraped."""
        self.registry.register(collector)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"copyrator_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"copyrator_{name}", text, labels, registry=self.registry)

    def _histogram(
        self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS
    ) -> Histogram:
        return Histogram(f"copyrator_{name}", text, labels, buckets=buckets, registry=self.registry)
