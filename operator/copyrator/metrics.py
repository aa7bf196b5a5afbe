"""How metrics are declared, and all but those that one feature of Bundles counts alone.

The lowest layer: every package may count, and nothing of ours is imported here. Labels are bounded
by what a cluster's owner configures (kinds, resources, reasons), never by the number of objects:
no metric has a label with the name of a namespace or a Bundle. One has names of rules, of a limited
number: certificate_expiry_timestamp_seconds. Two have names of Secrets, at most --max-remotes:
remote_up, remote_silent_seconds. Those of notifications have the names of their entries.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

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
    options: dict[str, Any]


def gauge(text: str, *labels: str) -> Gauge:
    """Declare one."""
    return cast("Gauge", _Declared(Gauge, text, labels, {}))


def counter(text: str, *labels: str) -> Counter:
    """Declare one; ``_total`` is added to its name."""
    return cast("Counter", _Declared(Counter, text, labels, {}))


def histogram(text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
    """Declare one."""
    return cast("Histogram", _Declared(Histogram, text, labels, {"buckets": buckets}))


class MetricSet:
    """Collectors, each made in a registry as it is declared, under its attribute's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        for attribute, one in vars(type(self)).items():
            if isinstance(one, _Declared):
                name = f"copyrator_{attribute}"
                made = one.kind(name, one.text, one.labels, registry=registry, **one.options)
                setattr(self, attribute, made)


S = TypeVar("S", bound=MetricSet)


class Metrics(MetricSet):
    """The operator's own: one registry per instance, and one instance per process (or test)."""

    # The process, its queue and its workers

    build_info = gauge("Always 1; the labels have the versions.", "version", "python", "kopf")
    leader = gauge("1 where this replica leads, 0 where it is on standby.")
    queue_depth = gauge("Keys that wait for a worker.")
    queue_oldest_seconds = gauge("Seconds that the oldest due key has waited.")
    queue_retries = counter("Keys requeued after a failure.", "key")
    workers_busy = gauge("Workers that are reconciling a key.")
    reconciles = counter("Reconciles by outcome.", "key", "outcome")
    reconcile_seconds = histogram("Duration of a reconcile.", "key")
    event_loop_stall_seconds = histogram(
        "Processor time of the event loop's thread in one callback, of those over 10 ms: the "
        "callback blocks all other work.",
        buckets=_STALL_SECONDS,
    )
    write_limit = gauge("Limit of concurrent writes.")
    writes_in_flight = gauge("Writes in flight now.")

    # The API server, watches and Events

    api_requests = counter(
        "Requests to the API server; code is 0 without a response.", "verb", "resource", "code"
    )
    api_request_seconds = histogram("Latency of requests, without watches.", "verb")
    watches = gauge("Open watches; each is one connection.", "resource")
    watches_synced = gauge("Watches with a complete list of their objects.", "resource")
    watch_objects = gauge("Objects held by watches.", "resource")
    watch_events = counter("Changes that watches reported.", "resource", "type")
    watch_restarts = counter("Restarts of watches with a list.", "resource", "reason")
    events_recorded = counter("Kubernetes Events written.", "type", "reason")
    events_dropped = counter("Kubernetes Events dropped (rate limit or refusal).", "cause")

    # Rules and their copies

    rules = gauge("Rules by the reason of their Ready condition.", "reason")
    copies = gauge(
        "Copies of all rules: desired, ready (of these satisfied: objects of other clients), "
        "failed, conflicts, pending.",
        "state",
    )
    certificate_expiry_timestamp_seconds = gauge(
        "When the first certificate in a rule's copies ends (Unix time); of the 100 rules "
        "whose certificates end soonest.",
        "rule",
    )
    remote_up = gauge(
        "1 where the watches of another cluster work that rules have sources in, else 0; by "
        "the name of the Secret with its kubeconfig.",
        "kubeconfig",
    )
    remote_silent_seconds = gauge(
        "Seconds since the last answer or event of another cluster that rules have sources in.",
        "kubeconfig",
    )
    copy_writes = counter(
        "Writes of copies: create, update, adopt, reseal, delete, release.", "action", "resource"
    )
    copy_failures = counter("Copies that could not be written, by reason.", "reason")
    copies_contested = gauge(
        "Copies that other clients change back each time, so that they are written after "
        "pauses (ConflictPersists)."
    )
    rollouts = counter(
        "Rollouts of rules with spec.rollout: started (also by a change during another one), "
        "stopped by a consumer that isn't healthy, finished.",
        "outcome",
    )
    consumer_restarts = counter("Workloads restarted because a copy that they use has new content.")
    copy_lag_seconds = histogram(
        "Time from the event of a changed source to the write of the last of its rule's copies.",
        buckets=_LAG_SECONDS,
    )

    # Bundles, and registries

    bundles = gauge("Bundles by the reason of their Ready condition.", "reason")
    bundles_poll_failed = gauge(
        "Bundles whose last poll failed, also while their Ready condition is kept."
    )
    updates_pending = gauge(
        "Bundles of which a version or an edit waits for a gate, by the reason of their "
        "condition UpdatePending.",
        "reason",
    )
    bundles_quarantined = gauge(
        "Bundles whose newest version failed too often and isn't retried; without suspended ones."
    )
    bundle_references = gauge(
        "ConfigMaps and Secrets that Bundles reference, by the scope of the watch that covers "
        "them: name, namespace, all, or none (edits are then found by polls only).",
        "scope",
    )
    oldest_poll_seconds = gauge(
        "Seconds since the last successful poll: the maximum of all Bundles that aren't suspended."
    )
    bundles_waiting = gauge(
        "Bundles whose next version, or edit, waits for a gate, by the first one that it waits "
        "for; without suspended ones.",
        "gate",
    )
    oldest_wait_seconds = gauge(
        "Seconds for which a Bundle has had a version, or an edit, that waits for a gate: the "
        "maximum of all; 0 where none does."
    )
    deploys = counter(
        "Finished Jobs by action (deploy, plan, drift, uninstall) and result.", "action", "result"
    )
    deploy_seconds = histogram(
        "Time from the Job's creation to its outcome.", "action", buckets=_DEPLOY_SECONDS
    )
    orphaned_releases = counter("Releases left behind when their Bundle was deleted.", "cause")
    polls = counter(
        "Polls of registries, each shared by all Bundles with the same registry, repository "
        "and credentials; Answered, or the reason of the failure.",
        "result",
    )
    webhook_calls = counter("Calls of the webhook by sender and response.", "sender", "code")
    webhook_polls = counter("Bundles polled at once because of a call of the webhook.")
    cloud_logins = counter(
        "Logins to clouds' registries that were asked for (spec.provider); outcome is Issued, "
        "or the reason of the error.",
        "provider",
        "outcome",
    )
    registry_requests = counter(
        "Requests to OCI registries; code is 0 without a response, host is other for hosts "
        "that no Bundle names.",
        "host",
        "method",
        "code",
    )
    registry_request_seconds = histogram("Latency of requests to OCI registries.", "host")

    # Notifications

    notifications = counter(
        "Messages of notifications by entry and outcome: sent, failed (tried again), or "
        "dropped (transitions over the limit of those that wait).",
        "entry",
        "outcome",
    )
    notifications_failing = gauge("1 where the last message of an entry failed, else 0.", "entry")
    notification_faults = gauge(
        "Faults of the ConfigMap copyrator-notifications: entries that aren't used."
    )

    def __init__(self) -> None:
        # They double the number of series, and are not used.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        super().__init__(CollectorRegistry(auto_describe=True))
        self._sets: dict[type[MetricSet], MetricSet] = {}
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

    def of(self, kind: type[S]) -> S:
        """Those of a feature of Bundles, in the same registry; made once."""
        if kind not in self._sets:
            self._sets[kind] = kind(self.registry)
        return cast("S", self._sets[kind])
