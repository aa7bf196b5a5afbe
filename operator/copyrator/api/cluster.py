"""``status.server``: the API server of another cluster."""

from __future__ import annotations

from copyrator.api.records import Record


class ClusterStatus(Record, frozen=True):
    """The cluster that spec.kubeConfig names."""

    server: str | None = None
    """API server that spec.kubeConfig names, as its Secret was read last."""
