"""What a cluster's directory holds, and the file that says which processes are its."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from localcluster.errors import LocalClusterError
from localcluster.paths import Below
from localcluster.processes import ProcessId


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths under one state directory."""

    root: Path

    state_file = Below("state.json")
    """Ports, options and processes, as JSON."""
    lock_file = Below("lock")
    """Held while the cluster is being started, changed or stopped."""
    pki = Below("pki")
    """Keys and certificates."""
    kubeconfigs = Below("kubeconfigs")
    """One kubeconfig for each user and service account that was asked for."""
    config = Below("config")
    """Configuration files of the components."""
    logs = Below("logs")
    """One log for each component, and the audit log."""
    audit_log = Below("logs/audit.log")
    """The API server's audit log, JSON lines."""
    etcd = Below("etcd")
    """Etcd's data."""
    registry = Below("registry")
    """The OCI registry's blobs and manifests."""
    node = Below("node")
    """The process node's pods."""
    bin = Below("bin")
    """Links to kubectl and helm, for a PATH."""
    pod_bin = Below("pod-bin")
    """The `werf` that pods run when the variable WERF names one."""
    home = Below("home")
    """Caches of kubectl and helm, kept out of the user's."""

    def prepare(self) -> None:
        """Make the directories.

        Raises:
            LocalClusterError: the directory holds something else.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        ours = {path.name for path in self._entries()}
        if strangers := {entry.name for entry in self.root.iterdir()} - ours:
            raise LocalClusterError(
                f"{self.root} holds other things, such as {min(strangers)!r}.",
                "Choose an empty or a new directory for the cluster's state.",
            )
        for directory in (self.kubeconfigs, self.config, self.logs, self.bin, self.pod_bin):
            directory.mkdir(exist_ok=True)
        for directory in (self.home, self.node):
            directory.mkdir(exist_ok=True)

    def remove(self, *, keep_logs: bool = False) -> None:
        """Remove what we put there and nothing else."""
        for path in self._entries():
            if keep_logs and path == self.logs and path.is_dir() and any(path.iterdir()):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if self.root.is_dir() and not any(self.root.iterdir()):
            self.root.rmdir()

    def _entries(self) -> list[Path]:
        directories = (self.pki, self.kubeconfigs, self.config, self.logs, self.etcd)
        more = (self.registry, self.node, self.bin, self.pod_bin, self.home)
        draft = _draft(self.state_file)
        # The lock goes last: until then nobody else can begin anything here.
        return [self.state_file, draft, *directories, *more, self.lock_file]


@dataclass(slots=True)
class ClusterState:
    """What has to be known to recognise, repair and stop a cluster.

    Attributes:
        ports: the loopback port of each listener.
        process_node: whether pods are run as local processes.
        registry: whether an OCI registry runs.
        apiserver_flags: further flags of kube-apiserver.
        processes: the process of each component that was started.
    """

    ports: dict[str, int]
    process_node: bool = True
    registry: bool = True
    apiserver_flags: list[str] = field(default_factory=list)
    processes: dict[str, ProcessId] = field(default_factory=dict)

    @property
    def options(self) -> tuple[bool, bool, list[str]]:
        """What the user chose."""
        return self.process_node, self.registry, self.apiserver_flags

    def save(self, path: Path) -> None:
        """Write the file in one step, so that a reader never sees half of it."""
        draft = _draft(path)
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        draft.replace(path)

    @classmethod
    def load(cls, path: Path) -> "ClusterState | None":
        """The state of a cluster, or None when there is no cluster.

        Raises:
            LocalClusterError: the file can't be read.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise LocalClusterError(
                f"{path} can't be read: {error!r}.",
                f"Was it written by another version? Remove {path.parent} if nothing of it runs.",
            ) from error


def _draft(path: Path) -> Path:
    """Where a file is written before it is renamed; an interruption may leave it behind."""
    return path.with_suffix(".tmp")
