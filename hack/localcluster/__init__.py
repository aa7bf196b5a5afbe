"""A real Kubernetes control plane for the demo, the tests and the benchmarks.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and an OCI registry are built from
pinned Go modules, run as local processes on loopback ports and live under one directory; nothing
needs root, a container runtime or a virtual machine.
"""

from localcluster.api import Api, ApiStatusError
from localcluster.audit import AuditEvent, Requests
from localcluster.cluster import Cluster
from localcluster.errors import LocalClusterError

__all__ = ["Api", "ApiStatusError", "AuditEvent", "Cluster", "LocalClusterError", "Requests"]
