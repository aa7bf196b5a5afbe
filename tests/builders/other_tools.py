"""Metadata of copies as other tools make them (docs/adoption.md)."""

from typing import Any

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

COPIES: dict[str, dict[str, Any]] = {
    "kubernetes-replicator": {
        "labels": {"app": "x", "app.kubernetes.io/instance": "argo-app"},
        "annotations": {
            "replicator.v1.mittwald.de/replicated-at": "2026-01-01T00:00:00Z",
            "replicator.v1.mittwald.de/replicated-from-version": "1234",
            "replicator.v1.mittwald.de/replicated-keys": "key",
        },
    },
    "reflector": {
        "annotations": {
            "reflector.v1.k8s.emberstack.com/auto-reflects": "True",
            "reflector.v1.k8s.emberstack.com/reflects": "source/app",
            "reflector.v1.k8s.emberstack.com/reflected-version": "1234",
            "reflector.v1.k8s.emberstack.com/reflected-at": "2026-01-01T00:00:00.0000000+00:00",
        },
    },
    "ClusterSecret": {
        "labels": {"clustersecret.io": "true"},
        "annotations": {
            "clustersecret.io/created-by": "ClusterSecrets",
            "clustersecret.io/version": "0.0.14",
            "clustersecret.io/last-sync": "2026-01-01T00:00:00.000000",
        },
    },
    "config-syncer": {
        "labels": {
            "kubed.appscode.com/origin.name": "app",
            "kubed.appscode.com/origin.namespace": "source",
            "kubed.appscode.com/origin.cluster": "",
        },
        "annotations": {
            LAST_APPLIED: '{"data":{"key":"c2VjcmV0"}}',
            "kubed.appscode.com/origin": '{"kind":"Secret","namespace":"source","name":"app"}',
        },
    },
    "trust-manager": {"annotations": {"trust.cert-manager.io/hash": "1234"}},
    "trust-manager's ClusterBundle": {"annotations": {"trust-manager.io/hash": "1234"}},
}
