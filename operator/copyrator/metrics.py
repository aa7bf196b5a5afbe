"""All metrics of the operator in one place, so that names are stable.

The lowest layer: every package may count, and nothing of ours is imported here. Labels are bounded
by what a cluster's owner configures (kinds, resources, reasons), never by the number of objects:
no metric has a label with the name of a namespace or a Bundle. One has names of rules, of a limited
number: certificate_expiry_timestamp_seconds. Two have names of Secrets, at most --max-remotes:
remote_up, remote_silent_seconds. Those of notifications have the names of their entries.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, cast

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STALL_SECONDS = (0.05, 0.1, 0.25, 1.0, 5.0)
_LAG_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_DEPLOY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)


class _Declared(NamedTuple):
    kind: Any
    text: str
    labels: tuple[str, ...]
    name: str
    """Where it isn't the attribute's."""
    options: dict[str, Any]


def _gauge(text: str, *labels: str, name: str = "") -> Gauge:
    return cast("Gauge", _Declared(Gauge, text, labels, name, {}))


def _counter(text: str, *labels: str) -> Counter:
    return cast("Counter", _Declared(Counter, text, labels, "", {}))


def _histogram(text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
    return cast("Histogram", _Declared(Histogram, text, labels, "", {"buckets": buckets}))


class Metrics:
    """The collectors, each made as it is declared, under its attribute's name.

    One registry per instance, and one instance per process (or test).
    """

    # The process, its queue and its workers

    build_info = _gauge("Always 1; the labels have the versions.", "version", "python", "kopf")
    leader = _gauge("1 where this replica leads, 0 where it is on standby.")
    queue_depth = _gauge("Keys that wait for a worker.")
    queue_oldest_seconds = _gauge("Seconds that the oldest due key has waited.")
    queue_retries = _counter("Keys requeued after a failure.", "key")
    workers_busy = _gauge("Workers that are reconciling a key.")
    reconciles = _counter("Reconciles by outcome.", "key", "outcome")
    reconcile_seconds = _histogram("Duration of a reconcile.", "key")
    event_loop_stall_seconds = _histogram(
        "Processor time of the event loop's thread in one callback, of those over 10 ms: the "
        "callback blocks all other work.",
        buckets=_STALL_SECONDS,
    )
    write_limit = _gauge("Limit of concurrent writes.")
    writes_in_flight = _gauge("Writes in flight now.")

    # The API server, watches and Events

    api_requests = _counter(
        "Requests to the API server; code is 0 without a response.", "verb", "resource", "code"
    )
    api_request_seconds = _histogram("Latency of requests, without watches.", "verb")
    watches = _gauge("Open watches; each is one connection.", "resource")
    watches_synced = _gauge("Watches with a complete list of their objects.", "resource")
    watch_objects = _gauge("Objects held by watches.", "resource")
    watch_events = _counter("Changes that watches reported.", "resource", "type")
    watch_restarts = _counter("Restarts of watches with a list.", "resource", "reason")
    events_recorded = _counter("Kubernetes Events written.", "type", "reason")
    events_dropped = _counter("Kubernetes Events dropped (rate limit or refusal).", "cause")

    # Rules and their copies

    rules = _gauge("Rules by the reason of their Ready condition.", "reason")
    copies = _gauge(
        "Copies of all rules: desired, ready (of these satisfied: objects of other clients), "
        "failed, conflicts, pending.",
        "state",
    )
    certificate_expiry = _gauge(
        "When the first certificate in a rule's copies ends (Unix time); of the 100 rules "
        "whose certificates end soonest.",
        "rule",
        name="certificate_expiry_timestamp_seconds",
    )
    remote_up = _gauge(
        "1 where the watches of another cluster work that rules have sources in, else 0; by "
        "the name of the Secret with its kubeconfig.",
        "kubeconfig",
    )
    remote_silent_seconds = _gauge(
        "Seconds since the last answer or event of another cluster that rules have sources in.",
        "kubeconfig",
    )
    copy_writes = _counter(
        "Writes of copies: create, update, adopt, reseal, delete, release.", "action", "resource"
    )
    copy_failures = _counter("Copies that could not be written, by reason.", "reason")
    copies_contested = _gauge(
        "Copies that other clients change back each time, so that they are written after "
        "pauses (ConflictPersists)."
    )
    rollouts = _counter(
        "Rollouts of rules with spec.rollout: started (also by a change during another one), "
        "stopped by a consumer that isn't healthy, finished.",
        "outcome",
    )
    consumer_restarts = _counter(
        "Workloads restarted because a copy that they use has new content."
    )
    copy_lag_seconds = _histogram(
        "Time from the event of a changed source to the write of the last of its rule's copies.",
        buckets=_LAG_SECONDS,
    )

    # Bundles, and registries

    bundles = _gauge("Bundles by the reason of their Ready condition.", "reason")
    bundles_poll_failed = _gauge(
        "Bundles whose last poll failed, also while their Ready condition is kept."
    )
    updates_pending = _gauge(
        "Bundles of which a version or an edit waits for a gate, by the reason of their "
        "condition UpdatePending.",
        "reason",
    )
    bundles_quarantined = _gauge(
        "Bundles whose newest version failed too often and isn't retried; without suspended ones."
    )
    bundle_references = _gauge(
        "ConfigMaps and Secrets that Bundles reference, by the scope of the watch that covers "
        "them: name, namespace, all, or none (edits are then found by polls only).",
        "scope",
    )
    oldest_poll_seconds = _gauge(
        "Seconds since the last successful poll: the maximum of all Bundles that aren't suspended."
    )
    bundles_untrusted = _gauge(
        "Bundles whose deployed version doesn't satisfy spec.verify or the signature policy."
    )
    bundles_drifted = _gauge(
        "Bundles with objects that aren't as they were deployed, by reason: Drifted, or "
        "DriftRecurring where corrections don't last.",
        "reason",
    )
    bundles_health = _gauge(
        "Bundles with spec.health: Watch, by their condition Healthy: True, False or Unknown.",
        "healthy",
    )
    bundles_as_approved = _gauge(
        "Bundles whose last deploy was planned and approved, by their condition AsApproved: "
        "True, False where it stored something else, or Unknown.",
        "as_approved",
    )
    drift_checks_skipped = _counter(
        "Checks for drift that couldn't begin before the next one was due: raise "
        "--max-plan-jobs, or spec.drift.interval."
    )
    drift_corrections = _counter("Deploys that corrected drift, by result.", "result")
    signature_checks = _counter(
        "Digests whose signatures were checked; Trusted or NotTrusted.", "result"
    )
    evidence_checks = _counter(
        "Digests whose attestations were read for spec.promoteFrom: Verified (all count), "
        "Refused (some don't, or there is none), or Unavailable (they can't all be read).",
        "result",
    )
    attestations = _counter(
        "Statements of Bundles with spec.attest that were pushed to a registry: Attested (also "
        "renewed), Withdrawn, or the reason of the failure.",
        "result",
    )
    bundles_unattested = _gauge(
        "Bundles whose statement isn't in the registry, as it can't be signed or pushed, by "
        "the reason of their condition Attested.",
        "reason",
    )
    freezes = _gauge(
        "Freezes in force, by scope (all, or namespace) and reason: Frozen, or "
        "FreezeUnreadable where nothing is deployed because a freeze can't be read.",
        "scope",
        "reason",
    )
    plans_awaiting_approval = _gauge("Bundles whose plan waits for a person's decision.")
    oldest_plan_seconds = _gauge(
        "Seconds since the oldest plan was made that waits for a person's decision; 0 where "
        "none does."
    )
    bundles_waiting = _gauge(
        "Bundles whose next version, or edit, waits for a gate, by the first one that it waits "
        "for; without suspended ones.",
        "gate",
    )
    oldest_wait_seconds = _gauge(
        "Seconds for which a Bundle has had a version, or an edit, that waits for a gate: the "
        "maximum of all; 0 where none does."
    )
    soak_remaining_seconds = _gauge(
        "Seconds until the last soak ends that a Bundle with spec.promoteFrom waits for; 0 "
        "where there is none."
    )
    deploys = _counter(
        "Finished Jobs by action (deploy, plan, drift, uninstall) and result.", "action", "result"
    )
    deploy_seconds = _histogram(
        "Time from the Job's creation to its outcome.", "action", buckets=_DEPLOY_SECONDS
    )
    orphaned_releases = _counter("Releases left behind when their Bundle was deleted.", "cause")
    polls = _counter(
        "Polls of registries, each shared by all Bundles with the same registry, repository "
        "and credentials; Answered, or the reason of the failure.",
        "result",
    )
    webhook_calls = _counter("Calls of the webhook by sender and response.", "sender", "code")
    webhook_polls = _counter("Bundles polled at once because of a call of the webhook.")
    cloud_logins = _counter(
        "Logins to clouds' registries that were asked for (spec.provider); outcome is Issued, "
        "or the reason of the error.",
        "provider",
        "outcome",
    )
    registry_requests = _counter(
        "Requests to OCI registries; code is 0 without a response, host is other for hosts "
        "that no Bundle names.",
        "host",
        "method",
        "code",
    )
    registry_request_seconds = _histogram("Latency of requests to OCI registries.", "host")

    # Notifications

    notifications = _counter(
        "Messages of notifications by entry and outcome: sent, failed (tried again), or "
        "dropped (transitions over the limit of those that wait).",
        "entry",
        "outcome",
    )
    notifications_failing = _gauge("1 where the last message of an entry failed, else 0.", "entry")
    notification_faults = _gauge(
        "Faults of the ConfigMap copyrator-notifications: entries that aren't used."
    )

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        # They double the number of series, and are not used.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        for attribute, one in vars(Metrics).items():
            if isinstance(one, _Declared):
                name = f"copyrator_{one.name or attribute}"
                made = one.kind(name, one.text, one.labels, registry=self.registry, **one.options)
                setattr(self, attribute, made)
        for outcome in ("started", "stopped", "finished"):
            self.rollouts.labels(outcome)  # so that the first one is an increase, too
        # Metrics of each write, of which no series is removed: `labels` takes no lock.
        for metric in (
            self.reconciles,
            self.copy_writes,
            self.api_requests,
            self.reconcile_seconds,
            self.api_request_seconds,
        ):
            metric.labels = cache(metric.labels)  # type: ignore[method-assign,assignment]
