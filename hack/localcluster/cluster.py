"""A cluster: the face of this package for tests, the demo and the benchmarks."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Self

from localcluster import audit, ports
from localcluster.api import Api
from localcluster.audit import AuditEvent, Requests
from localcluster.bringup import BringUp
from localcluster.build import Programs
from localcluster.components import Plan, listeners, tool_environment
from localcluster.credentials import Credentials
from localcluster.errors import CommandFailedError, LocalClusterError, PortTakenError
from localcluster.locks import file_lock
from localcluster.pins import CLUSTER_PROGRAMS
from localcluster.standin import tools
from localcluster.state import ClusterState, Layout
from localcluster.supervisor import Supervisor, stop_all

ALLOW_REGISTRY = "COPYRATOR_ALLOW_REGISTRY_ADDRESSES"
REGISTRY_ADDRESSES = "127.0.0.0/8"
"""Where the registry of a local cluster is."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running control plane; a context manager that stops it.

    Attributes:
        layout: its paths.
        supervisor: its processes.
        credentials: its kubeconfigs.
    """

    layout: Layout
    supervisor: Supervisor
    credentials: Credentials

    @classmethod
    def start(
        cls,
        state_dir: Path,
        *,
        process_node: bool = True,
        registry: bool = True,
        apiserver_flags: Sequence[str] = (),
    ) -> Self:
        """Start a cluster, or what is down of one that was started before with its options.

        Args:
            state_dir: an empty or new directory, or that of a cluster.
            process_node: run pods as local processes.
            registry: run an OCI registry.
            apiserver_flags: further flags for kube-apiserver.

        Raises:
            LocalClusterError: it could not be started; what had been started is stopped again.
        """
        options = (process_node, registry, list(apiserver_flags))
        for _ in range(2):
            # The register is one user's; other programs use loopback too.
            with contextlib.suppress(PortTakenError):
                return cls._start(state_dir, options)
        return cls._start(state_dir, options)

    @classmethod
    def _start(cls, state_dir: Path, options: tuple[bool, bool, list[str]]) -> Self:
        layout = Layout(state_dir.resolve())
        found = Programs.default().find(CLUSTER_PROGRAMS)
        with file_lock(layout.lock_file):
            layout.prepare()
            state = ClusterState.load(layout.state_file)
            is_new = state is None
            try:
                if state is None:
                    reserved = ports.reserve(layout.root, listeners(registry=options[1]))
                    state = ClusterState(reserved, *options)
                    state.save(layout.state_file)
                elif options != state.options:
                    raise LocalClusterError(
                        f"The cluster in {layout.root} was started with other options.",
                        "Use the same options, or take it down first.",
                    )
                cluster = cls._of(layout, state, found)
                if all(cluster.status().values()):
                    return cluster
                cluster._bring_up.everything()
            except BaseException as error:
                # Also Ctrl-C. A cluster that was there before keeps its data.
                if is_new:
                    _discard(layout, keep_logs=isinstance(error, Exception))
                raise
        return cluster

    @classmethod
    def attach(cls, state_dir: Path) -> Self:
        """A cluster that was started by somebody else.

        Raises:
            LocalClusterError: there is none in that directory.
        """
        layout = Layout(state_dir.resolve())
        state = ClusterState.load(layout.state_file)
        if state is None:
            raise LocalClusterError(
                f"No cluster in {layout.root}.", "Start one: `hack/run python -m localcluster up`."
            )
        return cls._of(layout, state, Programs.default().find(CLUSTER_PROGRAMS))

    @classmethod
    def _of(cls, layout: Layout, state: ClusterState, found: Mapping[str, Path]) -> Self:
        plan = Plan(layout, state, found)
        credentials = Credentials(layout, plan.url("kube-apiserver"))
        return cls(layout, Supervisor(plan), credentials)

    def stop(self, *, keep_logs: bool = False) -> None:
        """Stop everything and remove the state directory."""
        discard(self.layout.root, keep_logs=keep_logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def state_dir(self) -> Path:
        """The directory that everything of the cluster is in."""
        return self.layout.root

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self.credentials.server

    @property
    def registry(self) -> str:
        """The OCI registry's `127.0.0.1:PORT`, plain HTTP."""
        return f"127.0.0.1:{self.supervisor.plan.state.ports['registry']}"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of a member of system:masters."""
        return self.layout.kubeconfigs / "admin.yaml"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, JSON lines at level Metadata."""
        return self.layout.audit_log

    @property
    def bin_dir(self) -> Path:
        """A directory with kubectl and helm, for a PATH."""
        return self.layout.bin

    def api(self) -> Api:
        """A small synchronous client with all rights."""
        return self.credentials.admin()

    def environment(self) -> dict[str, str]:
        """What to add to a shell's environment to work with this cluster."""
        path = os.pathsep.join([str(self.bin_dir), os.environ.get("PATH", os.defpath)])
        variables = {
            "KUBECONFIG": str(self.admin_kubeconfig),
            "PATH": path,
            # The registry is on loopback, where an operator asks none unless it is told to.
            ALLOW_REGISTRY: REGISTRY_ADDRESSES,
        }
        return {**variables, **tool_environment(self.layout)}

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
        """Run kubectl as administrator; what it printed.

        Raises:
            CommandFailedError: its exit code isn't 0.
        """
        return self._run("kubectl", arguments, input)

    def helm(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
        """Run helm as administrator; what it printed.

        Raises:
            CommandFailedError: its exit code isn't 0.
        """
        return self._run("helm", arguments, input)

    def kubeconfig_for_service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a new token (TokenRequest, 24 h) of a service account."""
        return self.credentials.for_service_account(namespace, name)

    def kubeconfig_for_user(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig with a client certificate of a user in groups."""
        return self.credentials.for_user(user, groups)

    def audit_events(self, since: int = 0) -> list[AuditEvent]:
        """The requests logged from a place on that `audit_offset` gave."""
        return audit.read_events(self.audit_log, since)

    def audit_offset(self) -> int:
        """Now, as a place in the audit log."""
        return audit.offset(self.audit_log)

    def requests(self) -> Requests:
        """The requests from now on, to be counted by user, verb and resource."""
        return Requests(self.audit_log, self.audit_offset())

    def status(self) -> dict[str, bool]:
        """Which components run."""
        return {name: bool(self.supervisor.process(name)) for name in self.supervisor.plan.names()}

    def signal(self, component: str, number: Signals) -> None:
        """Send a signal to a component; SIGSTOP makes it hang, SIGCONT lets it go on."""
        self._refresh()
        self.supervisor.signal(component, number)

    def kill(self, component: str) -> None:
        """End a component at once, as a crash would."""
        self._refresh()
        self.supervisor.kill(component)

    def restart(self, component: str) -> None:
        """Start a component again on the same port, ending it first if it runs; waits for it.

        Raises:
            LocalClusterError: it doesn't become ready; carries the end of its log.
        """
        with file_lock(self.layout.lock_file):
            self._refresh()
            self.supervisor.stop(component)
            self.supervisor.start(component)
            self._bring_up.wait_ready(component)

    @property
    def _bring_up(self) -> BringUp:
        return BringUp(self.supervisor, self.credentials)

    def _refresh(self) -> None:
        """Learn what another process has restarted meanwhile."""
        stored = ClusterState.load(self.layout.state_file)
        if stored:
            self.supervisor.plan.state.processes.update(stored.processes)

    def _run(self, tool: str, arguments: Sequence[str], content: str | None) -> str:
        done = subprocess.run(
            [self.bin_dir / tool, *arguments],
            env={**os.environ, **tools.SHORT_LIVED, **self.environment()},
            input=content,
            stdin=subprocess.DEVNULL if content is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CommandFailedError(
                f"{tool} {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr.strip()}"
            )
        return done.stdout


def discard(state_dir: Path, *, keep_logs: bool = False) -> bool:
    """Stop the cluster in a directory and remove its state; False when there is none."""
    layout = Layout(state_dir.resolve())
    if not layout.state_file.exists():
        return False
    with file_lock(layout.lock_file):
        _discard(layout, keep_logs=keep_logs)
    return True


def _discard(layout: Layout, *, keep_logs: bool) -> None:
    state = ClusterState.load(layout.state_file)
    stop_all(layout, state.processes if state else {})
    ports.release(layout.root)
    layout.remove(keep_logs=keep_logs)
