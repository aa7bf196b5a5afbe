"""The state of the Lease as one replica sees it.

Pure: the time is an argument. As in client-go, the clocks of two machines are never compared: a
holder counts as gone when its record hasn't changed for its whole duration by the observer's own
monotonic clock. The holder's own deadline (`Terms.deadline`) is shorter and counts from before the
renewal was sent, so that at no moment two replicas both lead.
"""

from __future__ import annotations

import functools
import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from copyrator.api import names
from copyrator.api.seen_time import SeenTime, parse_seen
from copyrator.api.times import format_micro_time, parse_time
from copyrator.kube.resources import LEASES


@dataclass(frozen=True, slots=True)
class Terms:
    """Durations in seconds; only tests use others than the defaults."""

    duration: int = 10
    """Other replicas may take over so long after the last renewal that they have read."""
    deadline: float = 7.0
    """The holder stops leading so long after it sent the last renewal."""
    renew: float = 2.0
    """Between two renewals."""
    answer: float = 3.0
    """Timeout of a request: a connection that hangs costs one try, not the Lease."""
    retry: float = 0.5
    """Between two tries of a renewal that failed."""
    look: float = 1.0
    """Between two reads by a standby."""


DEFAULT_TERMS = Terms()


class Lease:
    """The Lease as last read by one replica."""

    def __init__(self, namespace: str, name: str, identity: str, terms: Terms) -> None:
        self.namespace = namespace
        self.name = name
        self.identity = identity
        self.holder = ""
        """Its holder when it last existed; empty: none."""
        self.exists = False
        self.webhook: str | None = None
        """URL of our own webhook, published to the other replicas while we hold the Lease."""
        self.seen_time: SeenTime | None = None
        """The time in which a leader renewed it, as last read; None: that isn't known."""
        self._terms = terms
        self._metadata: dict[str, Any] = {"namespace": namespace, "name": name}
        self._spec: dict[str, Any] = {}
        self._changed_at = 0.0

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_ours(self) -> bool:
        """Whether we were its holder when it was last read."""
        return self.holder == self.identity

    @property
    def holders_webhook(self) -> str | None:
        """URL of its holder's webhook, when it was last read."""
        annotations = self._metadata.get("annotations") or {}
        return annotations.get(names.ANN_WEBHOOK) if self.holder else None

    def seen(self, body: Mapping[str, Any] | None, now: float) -> None:
        """Record the result of a read or a write; None: there is no Lease.

        A deleted Lease is no evidence about its holder, who may still lead and create it again.
        """
        self.exists = body is not None
        if body is None:
            return
        metadata, spec = dict(body["metadata"]), dict(body.get("spec") or {})
        metadata.pop("managedFields", None)
        if spec != self._spec:  # changed metadata is no renewal
            self._changed_at = now
        self._metadata, self._spec = metadata, spec
        self.holder = str(spec.get("holderIdentity") or "")
        self.seen_time = self._read_seen_time()

    def doubt(self, now: float) -> None:
        """Restart the count of seconds without a renewal."""
        self._changed_at = now

    def free_in(self, now: float) -> float:
        """Seconds until we may acquire it: 0 when no other replica holds it (any more)."""
        if self.is_ours or not self.holder:
            return 0.0
        duration = self._spec.get("leaseDurationSeconds") or self._terms.duration
        return max(self._changed_at + duration - now, 0.0)

    def claim(self, now: datetime) -> dict[str, Any]:
        """The object that acquires or renews it.

        Written with the resourceVersion that was read: of two candidates the first one wins.
        """
        stamp, before = format_micro_time(now), None
        if self.exists or self.is_ours:
            before = parse_time(self._spec.get("renewTime"))
        spec = {**self._spec, "holderIdentity": self.identity, "renewTime": stamp}
        spec["leaseDurationSeconds"] = self._terms.duration
        if not self.is_ours:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = int(self._spec.get("leaseTransitions") or 0) + 1
        known = self.seen_time
        seen = (known or SeenTime()).renewed_at(before if known else None, now)
        return self._object(spec, self.webhook, seen)

    def surrender(self, now: datetime) -> dict[str, Any]:
        """The object that releases it, so that another replica need not wait."""
        before = parse_time(self._spec.get("renewTime"))
        seen = self.seen_time.renewed_at(before, now) if self.seen_time else None
        return self._object(
            {**self._spec, "holderIdentity": "", "renewTime": format_micro_time(now)}, None, seen
        )

    def _read_seen_time(self) -> SeenTime | None:
        annotations = self._metadata.get("annotations") or {}
        return parse_seen(
            annotations.get(names.ANN_SEEN_TIME), parse_time(self._spec.get("renewTime"))
        )

    def _object(
        self, spec: dict[str, Any], webhook: str | None, seen: SeenTime | None
    ) -> dict[str, Any]:
        metadata = self._metadata
        if not self.exists:
            metadata = {"namespace": self.namespace, "name": self.name}
        annotations = dict(metadata.get("annotations") or {})
        annotations.pop(names.ANN_WEBHOOK, None)
        if webhook is not None:
            annotations[names.ANN_WEBHOOK] = webhook
        annotations.pop(names.ANN_SEEN_TIME, None)
        if seen is not None:
            annotations[names.ANN_SEEN_TIME] = seen.format()
        if annotations or metadata.get("annotations"):
            metadata = {**metadata, "annotations": annotations}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }


@functools.cache
def default_identity() -> str:
    """An identity that no other replica has, the same for the whole life of the process.

    In a pod it is the pod's name, so that a container that restarts there renews its own Lease at
    once; elsewhere two processes may share a host.
    """
    host = socket.gethostname()
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return host
    return f"{host}-{uuid.uuid4().hex[:8]}"
