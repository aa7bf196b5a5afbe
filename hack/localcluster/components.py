"""The command lines of the components: pure functions of paths, ports and options."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.processes import NODE_NAME
from localcluster.state import ClusterState, Layout

SERVICE_CIDR = "10.0.0.0/24"
_PACKAGE = Path(__file__).parent
_LOOPBACK = "127.0.0.1"

# The kubeconfig of each component that is a client of the API server: its user and groups. The
# process node is nobody's idea of a kubelet's rights; it is an administrator with its own name,
# so that its requests can be told from a test's.
CLIENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "admin": ("admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "node": ("process-node", ("system:masters",)),
}


@dataclass(frozen=True, slots=True)
class Component:
    """A process of the control plane.

    Attributes:
        name: what it is called in state, logs and messages.
        command: the program and its arguments.
        environment: what is added to the environment.
        ready: the URL that answers 200 when the component is ready; empty: see cluster.py.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the components' command lines are made from.

    Attributes:
        layout: the cluster's paths.
        state: its ports and options.
        programs: the path of each program.
    """

    layout: Layout
    state: ClusterState
    programs: Mapping[str, Path]

    def component(self, name: str) -> Component:
        """The component of that name."""
        return _BUILDERS[name](self)

    def names(self) -> list[str]:
        """The components of this cluster in the order in which they are started."""
        wanted = ["etcd", "registry", "kube-apiserver", "kube-controller-manager"]
        wanted += ["kube-scheduler", "node"]
        left_out = {"registry": self.state.registry, "node": self.state.process_node}
        return [name for name in wanted if left_out.get(name, True)]

    def url(self, listener: str, scheme: str = "https") -> str:
        """The base URL of a listener."""
        return f"{scheme}://{_LOOPBACK}:{self.state.ports[listener]}"


def listeners(*, registry: bool) -> list[str]:
    """The names of the ports that a cluster needs."""
    names = ["etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    return [*names, "registry"] if registry else names


def _etcd(plan: Plan) -> Component:
    client, peer = plan.url("etcd", "http"), plan.url("etcd-peer", "http")
    command = (
        str(plan.programs["etcd"]),
        "--name=local",
        f"--data-dir={plan.layout.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        # The data lives as long as a test run; a crash of the machine may take it.
        "--unsafe-no-fsync",
        "--log-level=warn",
    )
    return Component("etcd", command, {}, f"{client}/readyz")


def _apiserver(plan: Plan) -> Component:
    pki, config = plan.layout.pki, plan.layout.config
    flags = {
        "etcd-servers": plan.url("etcd", "http"),
        "bind-address": _LOOPBACK,
        # The default needs a network interface with a default route.
        "advertise-address": _LOOPBACK,
        "endpoint-reconciler-type": "none",
        "secure-port": str(plan.state.ports["kube-apiserver"]),
        "tls-cert-file": str(pki / "apiserver.crt"),
        "tls-private-key-file": str(pki / "apiserver.key"),
        "client-ca-file": str(pki / "ca.crt"),
        "authorization-mode": "RBAC,Node",
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-signing-key-file": str(pki / "service-account.key"),
        "service-account-key-file": str(pki / "service-account.pub"),
        "service-cluster-ip-range": SERVICE_CIDR,
        "allow-privileged": "true",
        "audit-policy-file": str(config / "audit-policy.yaml"),
        "audit-log-path": str(plan.layout.audit_log),
        # Blocking: a request that was answered is in the log.
        "audit-log-mode": "blocking-strict",
        "audit-log-maxsize": "100000",
        "audit-log-maxbackup": "0",
        # A stopped cluster's data is thrown away: there is nothing to wait for.
        "shutdown-delay-duration": "0s",
    }
    command = (
        str(plan.programs["kube-apiserver"]),
        *(f"--{flag}={value}" for flag, value in flags.items()),
        *plan.state.apiserver_flags,
    )
    return Component("kube-apiserver", command, {}, f"{plan.url('kube-apiserver')}/readyz")


_UNUSED = (
    *(f"persistentvolume-{part}" for part in ("attach-detach", "binder", "expander", "protection")),
    *("persistentvolumeclaim-protection", "ephemeral-volume"),
    *("horizontal-pod-autoscaler", "disruption", "ttl", "node-ipam", "endpointslice-mirroring"),
)
"""Controllers of volumes, nodes and load that a node of local processes has none of."""


def _controller_manager(plan: Plan) -> Component:
    pki = plan.layout.pki
    # The process node sends no signs of life.
    unused = (*_UNUSED, *(("node-lifecycle",) if plan.state.process_node else ()))
    more = {
        "use-service-account-credentials": "true",
        "service-account-private-key-file": str(pki / "service-account.key"),
        "root-ca-file": str(pki / "ca.crt"),
        "cluster-signing-cert-file": str(pki / "ca.crt"),
        "cluster-signing-key-file": str(pki / "ca.key"),
        "service-cluster-ip-range": SERVICE_CIDR,
        "concurrent-namespace-syncs": "20",
        "controllers": ",".join(["*", *(f"-{name}-controller" for name in unused)]),
        # The default is a directory under /usr, which it creates.
        "flex-volume-plugin-dir": str(plan.layout.home / "flexvolume"),
    }
    return _controller(plan, "kube-controller-manager", more)


def _scheduler(plan: Plan) -> Component:
    return _controller(plan, "kube-scheduler", {})


def _controller(plan: Plan, name: str, more: Mapping[str, str]) -> Component:
    """A client of kube-apiserver that watches and acts."""
    flags = {
        "kubeconfig": str(plan.layout.kubeconfigs / f"{name}.yaml"),
        # Nobody but us asks these servers, and only for their health, which is open to everyone.
        "authentication-skip-lookup": "true",
        "bind-address": _LOOPBACK,
        "secure-port": str(plan.state.ports[name]),
        "leader-elect": "false",
        # The default of 20 requests a second makes a thousand namespaces take minutes.
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        **more,
    }
    command = (
        str(plan.programs[name]),
        *(f"--{flag}={value}" for flag, value in flags.items()),
    )
    return Component(name, command, {}, f"{plan.url(name)}/healthz")


def _registry(plan: Plan) -> Component:
    command = (str(plan.programs["registry"]), "serve", str(plan.layout.config / "registry.yaml"))
    # Without it the registry sends traces to localhost:4318 and logs that nobody is there.
    quiet = {"OTEL_TRACES_EXPORTER": "none"}
    return Component("registry", command, quiet, f"{plan.url('registry', 'http')}/v2/")


def registry_config(data: Path, port: int, secret: str) -> dict[str, object]:
    """The registry's configuration: plain HTTP on loopback, deletes allowed."""
    return {
        "version": "0.1",
        "log": {"level": "info", "accesslog": {"disabled": False}},
        "storage": {
            "filesystem": {"rootdirectory": str(data)},
            "delete": {"enabled": True},
            "maintenance": {"uploadpurging": {"enabled": False}},
        },
        "http": {"addr": f"{_LOOPBACK}:{port}", "secret": secret},
    }


def _node(plan: Plan) -> Component:
    layout = plan.layout
    command = (
        sys.executable,
        "-m",
        "localcluster.node",
        f"--server={plan.url('kube-apiserver')}",
        f"--pki={layout.pki}",
        f"--state-dir={layout.node}",
        f"--node-name={NODE_NAME}",
    )
    # Pods inherit this PATH: a real werf if there is one, the stand-in, kubectl and helm, and the
    # Python that the stand-in was made for.
    path = [layout.pod_bin, _PACKAGE / "standin", layout.bin, Path(sys.executable).parent]
    added = {
        "PATH": os.pathsep.join([*map(str, path), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(_PACKAGE.parent), os.environ.get("PYTHONPATH")])
        ),
        "PYTHONUNBUFFERED": "1",
        "HELM": str(layout.bin / "helm"),
        **tool_environment(layout),
    }
    return Component("node", command, added, "")


def tool_environment(layout: Layout) -> dict[str, str]:
    """Keeps the caches and settings of kubectl and helm under the cluster's directory."""
    home = layout.home
    return {
        "KUBECACHEDIR": str(home / "kube"),
        "HELM_CACHE_HOME": str(home / "helm-cache"),
        "HELM_CONFIG_HOME": str(home / "helm-config"),
        "HELM_DATA_HOME": str(home / "helm-data"),
    }


_BUILDERS: Mapping[str, Callable[[Plan], Component]] = {
    "etcd": _etcd,
    "registry": _registry,
    "kube-apiserver": _apiserver,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
    "node": _node,
}
