"""A node's life: started, joined to a cluster, stopped without a trace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from images import bases
from images.machine import program
from images.store import Store
from localcluster import Cluster, LocalClusterError, ports, processes
from localcluster.build import Programs
from localcluster.processes import MARKER
from localcluster.supervisor import tail
from localcluster.waiting import eventually
from realnode import leftovers, settings
from realnode.settings import NAME, Paths

_READY_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node of a cluster; a context manager that stops it.

    Attributes:
        cluster: its control plane, started with `apiserver_flags`.
        paths: where everything of it is.
    """

    cluster: Cluster
    paths: Paths

    @classmethod
    def start(cls, cluster: Cluster, directory: Path, store: Store) -> Self:
        """Start a node and wait until it is ready.

        Raises:
            LocalClusterError: it can't be started; what had been started is stopped again.
        """
        node = cls(cluster, Paths(directory))
        try:
            node._start(store)
        except BaseException:
            node.stop(keep_logs=True)
            raise
        return node

    def stop(self, *, keep_logs: bool = False) -> None:
        """Stop everything and take it away."""
        leftovers.remove(self.paths, keep_logs=keep_logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(keep_logs=error is not None)

    def _start(self, store: Store) -> None:
        paths, cluster = self.paths, self.cluster
        for directory in (
            paths.config / "cni",
            paths.config / "cni-bin",
            paths.network,
            paths.logs,
        ):
            directory.mkdir(parents=True)
        leftovers.remember_kernel_settings(paths)
        leftovers.favour_containers()
        pause = bases.pause(store).push(cluster.registry, "pause", "1")
        self._write_configuration(pause, _snapshotter(paths))
        self._spawn(
            "containerd", program("containerd"), "--config", str(paths.config / "containerd.toml")
        )
        self._wait("containerd", paths.socket.is_socket)
        kubelet = Programs.default().find(("kubelet",))["kubelet"]
        self._spawn(
            "kubelet",
            str(kubelet),
            f"--config={paths.config / 'kubelet.yaml'}",
            f"--kubeconfig={cluster.kubeconfig_for_user(f'system:node:{NAME}', ['system:nodes'])}",
            f"--root-dir={paths.kubelet}",
            f"--cert-dir={paths.root / 'pki'}",
            f"--hostname-override={NAME}",
        )
        self._wait("kubelet", self._is_ready)

    def _write_configuration(self, pause: str, snapshotter: str) -> None:
        paths, cluster = self.paths, self.cluster
        port = ports.reserve(paths.root, ["kubelet"])["kubelet"]
        ca = cluster.layout.pki / "ca.crt"
        kubelet = settings.kubelet(paths, port, ca)
        network = settings.cni(paths, cluster.server.removeprefix("https://"), cluster.registry)
        (paths.config / "kubelet.yaml").write_text(yaml.safe_dump(kubelet))
        (paths.config / "cni" / "copyrator.conflist").write_text(json.dumps(network))
        (paths.config / "containerd.toml").write_text(
            settings.containerd(paths, pause, snapshotter)
        )
        for name in ("copyrator", "loopback"):
            plugin = paths.config / "cni-bin" / name
            plugin.write_text(settings.cni_plugin())
            plugin.chmod(0o755)

    def _spawn(self, name: str, *command: str) -> None:
        path = f"/usr/local/sbin:/usr/sbin:/sbin:{os.environ.get('PATH', os.defpath)}"
        environment = {**os.environ, "PATH": path, MARKER: str(self.paths.root)}
        log = self.paths.logs / f"{name}.log"
        with processes.unbroken():
            leftovers.record(self.paths, name, processes.spawn(command, environment, log))

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        try:
            eventually(ready, f"{name} to be ready", _READY_SECONDS)
        except TimeoutError as error:
            log = self.paths.logs / f"{name}.log"
            raise LocalClusterError(
                f"{error}. The end of {log}:\n{tail(log)}", "Look for the first error in that log."
            ) from None

    def _is_ready(self) -> bool:
        nodes = self.cluster.api().get("/api/v1/nodes")["items"]
        conditions = [c for node in nodes for c in node.get("status", {}).get("conditions", [])]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def apiserver_flags(cluster_dir: Path) -> list[str]:
    """What the API server needs to ask a kubelet for logs: a certificate of its own CA."""
    pki = cluster_dir.resolve() / "pki"
    return [
        f"--kubelet-client-certificate={pki / 'admin.crt'}",
        f"--kubelet-client-key={pki / 'admin.key'}",
        "--kubelet-preferred-address-types=Hostname",
    ]


def remove_leftovers(directory: Path) -> None:
    """Take away the node of a run that was killed."""
    if directory.is_dir():
        leftovers.remove(Paths(directory))


def _snapshotter(paths: Paths) -> str:
    """Name overlayfs where it can be mounted, else whole copies."""
    trial = paths.root / "trial"
    layers = [trial / name for name in ("lower", "upper", "work", "merged")]
    for layer in layers:
        layer.mkdir(parents=True)
    lower, upper, work, merged = layers
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
    works = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    if works:
        subprocess.run(["umount", str(merged)], check=True)
    shutil.rmtree(trial)
    return "overlayfs" if works else "native"
