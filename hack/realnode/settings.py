"""What containerd and the kubelet are configured with: pure functions of paths and addresses."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.paths import Below
from realnode import network

NAME = "localhost"
"""The node's name is where the API server finds its kubelet."""
SERVICE_ADDRESS = "10.0.0.1:443"
"""The Service `kubernetes`: the first address of the control plane's range of Services."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where things of the node are. Short: sockets have at most 107 characters."""

    root: Path

    containerd = Below("c")
    """Images, snapshots and running tasks."""
    socket = Below("c.sock")
    """Containerd's socket."""
    kubelet = Below("k")
    """The kubelet's root: pods' volumes."""
    config = Below("config")
    """Configuration files of both."""
    network = Below("network")
    """One record for each pod's network."""
    logs = Below("logs")
    """The logs of both, and of the pods."""


def containerd(paths: Paths, pause_image: str, snapshotter: str) -> str:
    """Containerd's configuration, in TOML; JSON's strings are TOML's too."""
    settings: dict[str, dict[str, Any]] = {
        "grpc": {"address": str(paths.socket)},
        "plugins.'io.containerd.internal.v1.opt'": {"path": str(paths.containerd / "opt")},
        "plugins.'io.containerd.grpc.v1.cri'": {
            "sandbox_image": pause_image,
            "stream_server_address": "127.0.0.1",
            "disable_apparmor": True,
            # Else runc dies where the machine forbids to lower oom_score_adj.
            "restrict_oom_score_adj": True,
        },
        "plugins.'io.containerd.grpc.v1.cri'.containerd": {"snapshotter": snapshotter},
        "plugins.'io.containerd.grpc.v1.cri'.cni": {
            "bin_dir": str(paths.config / "cni-bin"),
            "conf_dir": str(paths.config / "cni"),
        },
    }
    lines = [
        "version = 2",
        f"root = {json.dumps(str(paths.containerd / 'root'))}",
        f"state = {json.dumps(str(paths.containerd / 'state'))}",
    ]
    for table, entries in settings.items():
        lines.append(f"[{table}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in entries.items()]
    return "\n".join(lines) + "\n"


def cni(paths: Paths, api_server: str, registry: str) -> dict[str, Any]:
    """The network's configuration: which addresses in a pod lead where."""
    return {
        "cniVersion": "0.4.0",
        "name": "copyrator",
        "plugins": [
            {
                "type": "copyrator",
                "stateDir": str(paths.network),
                "forward": [
                    {"from": SERVICE_ADDRESS, "to": api_server},
                    {"from": registry, "to": registry},
                ],
            }
        ],
    }


def cni_plugin() -> str:
    """The program that containerd calls."""
    return f'#!/bin/sh\nexec "{sys.executable}" "{network.__file__}"\n'


def kubelet(paths: Paths, port: int, client_ca: Path) -> dict[str, Any]:
    """The kubelet's configuration."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(client_ca)},
        },
        # Whoever has a certificate of the cluster's CA: the API server, when someone asks for logs.
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{paths.socket}",
        "podLogsDir": str(paths.logs / "pods"),
        "volumePluginDir": str(paths.kubelet / "volume-plugins"),
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        # A full disk of the machine is nothing that pods could be evicted for.
        "evictionHard": {
            "memory.available": "1%",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
    }
