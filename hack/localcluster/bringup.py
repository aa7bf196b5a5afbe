"""In which order a cluster comes up, what is written before, and when a component is ready."""

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from localcluster import audit
from localcluster.api import ApiStatusError
from localcluster.components import CLIENTS, registry_config
from localcluster.credentials import Credentials
from localcluster.errors import LocalClusterError
from localcluster.processes import NODE_NAME
from localcluster.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class BringUp:
    """Brings up the components of one cluster.

    Attributes:
        supervisor: its processes.
        credentials: its kubeconfigs.
    """

    supervisor: Supervisor
    credentials: Credentials

    def everything(self) -> None:
        """Start what doesn't run and wait until all of it is ready.

        Raises:
            ComponentFailedError: a component doesn't come up; carries the end of its log.
        """
        self._write_files()
        start, names = self.supervisor.start, self.supervisor.plan.names()
        if "registry" in names:
            start("registry")
        # One after the other: a client of kube-apiserver gives up if it isn't there in 10 s.
        for name in ("etcd", "kube-apiserver"):
            start(name)
            self.wait_ready(name)
        for name in names:
            start(name)
        for name in names:
            self.wait_ready(name)

    def wait_ready(self, name: str) -> None:
        """Wait until a component does its work.

        Raises:
            ComponentFailedError: it ended or took too long.
        """
        checks: dict[str, Callable[[], bool]] = {
            "kube-apiserver": self._apiserver_is_ready,
            "kube-controller-manager": self._pods_can_be_created,
            "node": self._node_is_ready,
        }
        self.supervisor.wait_ready(name, checks.get(name))

    def _write_files(self) -> None:
        plan = self.supervisor.plan
        layout = plan.layout
        self.credentials.prepare(dict(CLIENTS))
        _write_yaml(layout.config / "audit-policy.yaml", audit.POLICY)
        if plan.state.registry:
            secret = secrets.token_hex(16)
            config = registry_config(layout.registry, plan.state.ports["registry"], secret)
            _write_yaml(layout.config / "registry.yaml", config)
        for tool in ("kubectl", "helm"):
            _link(layout.bin / tool, plan.programs[tool])
        link_werf(layout.pod_bin, os.environ.get("WERF"))

    def _apiserver_is_ready(self) -> bool:
        # As administrator: until RBAC's own roles are made, anonymous users may ask nothing.
        return self._get("/readyz") == "ok"

    def _pods_can_be_created(self) -> bool:
        """Whether the default service account is there: then the controllers work."""
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _node_is_ready(self) -> bool:
        node = self._get(f"/api/v1/nodes/{NODE_NAME}")
        if not isinstance(node, dict):
            return False
        conditions = node.get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _get(self, path: str) -> object:
        try:
            answer: object = self.credentials.admin().get(path)
        except (ApiStatusError, OSError):
            return None
        return answer


def link_werf(directory: Path, chosen: str | None) -> None:
    """Put the user's own werf before the stand-in on the pods' PATH, or take it away again.

    Raises:
        LocalClusterError: it isn't a program.
    """
    link = directory / "werf"
    link.unlink(missing_ok=True)
    if not chosen:
        return
    if not os.access(chosen, os.X_OK) or Path(chosen).is_dir():
        raise LocalClusterError(
            f"WERF={chosen} is not a program.",
            "Point it at a werf binary, or unset it: then a stand-in plays werf.",
        )
    link.symlink_to(Path(chosen).absolute())


def _write_yaml(path: Path, document: Mapping[str, object]) -> None:
    path.write_text(yaml.safe_dump(dict(document), sort_keys=False), encoding="utf-8")


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)
