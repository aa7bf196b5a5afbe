"""A cluster with a real node, and the images that are built for it, once for the run.

Without root or Debian all tests are skipped, the summary says why, and in CI (CI=true) that is a
failure. COPYRATOR_NODE_KEEP=1 leaves everything running, to look at it; the next run takes it away.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from tests.node.skipping import fail_ci_that_ran_nothing, say_what_was_skipped

from images import bases, machine, product
from images.machine import UnsuitableMachineError
from images.store import Store
from localcluster import Cluster, processes
from localcluster.build import Programs
from localcluster.cluster import discard
from localcluster.locks import file_lock
from localcluster.paths import state_root
from localcluster.pins import CLUSTER_PROGRAMS
from localcluster.progress import Progress
from realnode.node import RealNode, apiserver_flags, remove_leftovers

FIGURES: list[str] = []
"""What was measured, for the summary."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Install and build what is missing before any test's time limit runs."""
    if not session.items:
        return
    progress = Progress.on_stderr()
    try:
        machine.prepare(progress)
    except UnsuitableMachineError as error:
        for item in session.items:
            item.add_marker(pytest.mark.skip(reason=str(error)))
        return
    Programs.default().find((*CLUSTER_PROGRAMS, "kubelet", "cosign3"))
    store = Store.default()
    for variant in product.VARIANTS:
        for architecture in bases.ARCHITECTURES:
            product.operator(store, variant, architecture)
    product.werf(store)


def pytest_sessionfinish(session: pytest.Session) -> None:
    fail_ci_that_ran_nothing(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    say_what_was_skipped(terminalreporter)
    for figure in FIGURES:
        terminalreporter.write_line(figure)


@pytest.fixture(scope="session")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="session")
def node(store: Store) -> Iterator[RealNode]:
    """A control plane with a real node."""
    # As Ctrl-C does: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = state_root() / "real-node"
    with file_lock(state_root() / "real-node.lock"):
        remove_leftovers(root / "n")
        discard(root / "c")
        directory = root / "c"
        cluster = Cluster.start(
            directory, process_node=False, apiserver_flags=apiserver_flags(directory)
        )
        keep = bool(os.environ.get("COPYRATOR_NODE_KEEP"))
        try:
            node = RealNode.start(cluster, root / "n", store)
            yield node
            if not keep:
                networks = [json.loads(file.read_text())[1] for file in _records(node)]
                node.stop()
                assert not traces(node.paths.root, networks), "the node left something behind"
        finally:
            if not keep:
                remove_leftovers(root / "n")
                cluster.stop()


def traces(root: Path, networks: list[str]) -> list[str]:
    """What is there of a node: processes, mounts, network namespaces, files."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [
        *(f"process {process.pid}" for process in processes.marked(root)),
        *(line for line in mounts if f" {root}/" in line),
        *(path for path in networks if Path(path).exists()),
        *map(str, root.rglob("*")),
    ]


def _records(node: RealNode) -> list[Path]:
    return [file for file in node.paths.network.iterdir() if len(file.name) == 64]


@pytest.fixture(scope="session")
def cluster(node: RealNode) -> Cluster:
    """Its control plane."""
    return node.cluster


@pytest.fixture(scope="session")
def werf_image(cluster: Cluster, store: Store) -> str:
    """The reference by which the node pulls werf's image."""
    return product.werf(store).push(cluster.registry, "werf", "standin")


def make_release(
    folder: Path, registry: str, password: str, more: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `make release` into a folder that has its key, with a password for that."""
    variables = (f"REGISTRY={registry}", "PUSH=1", f"KEY={folder / 'release.key'}")
    options = f"RELEASE=--output {folder / 'dist'} {more}"
    return subprocess.run(
        ["make", "--silent", "release", *variables, options],
        cwd=product.ROOT,
        env=os.environ | {"COSIGN_PASSWORD": password},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def dist(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A release by `make release`: in the cluster's registry, the files on a web server."""
    folder = tmp_path_factory.mktemp("release")
    environment = os.environ | {"COSIGN_PASSWORD": "password"}
    cosign = Programs.default().find(("cosign3",))["cosign3"]
    generate = [cosign, "generate-key-pair", "--output-key-prefix", "release"]
    subprocess.run(generate, cwd=folder, env=environment, check=True, capture_output=True)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder / "dist"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        files = f"http://127.0.0.1:{server.server_port}"
        done = make_release(folder, cluster.registry, "password", f"--files {files}")
        assert done.returncode == 0, done.stdout + done.stderr
        sizes = re.findall(r"^ *([\d.]+ MB  \S+oci.tar)$", done.stdout, re.MULTILINE)
        FIGURES.append(f"release: {', '.join(sizes)}")
        yield folder / "dist"
        server.shutdown()
