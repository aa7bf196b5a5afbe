"""A cluster that ends with the process that started it, also where that was killed.

The owner's identity stands in a file beside the cluster's directory: the next test run stops what
a killed one left.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from localcluster.cluster import Cluster, discard
from localcluster.processes import ProcessId

_SUFFIX = ".owner"


@contextmanager
def owned_cluster(
    state_dir: Path, apiserver_flags: Sequence[str] = (), **options: bool
) -> Iterator[Cluster]:
    """A cluster of this process's own, with further flags for its kube-apiserver.

    `options` as for Cluster.start.

    Raises:
        LocalClusterError: it could not be started.
    """
    owner = state_dir.with_name(state_dir.name + _SUFFIX)
    owner.parent.mkdir(parents=True, exist_ok=True)
    identity = ProcessId.of(os.getpid())
    assert identity is not None
    draft = owner.with_suffix(".tmp")  # in one step: another worker may be reading
    draft.write_text(json.dumps(asdict(identity)), encoding="utf-8")
    draft.replace(owner)
    try:
        with Cluster.start(state_dir, apiserver_flags=apiserver_flags, **options) as cluster:
            yield cluster
    finally:
        owner.unlink(missing_ok=True)


def reap(root: Path, prefix: str) -> None:
    """Stop the clusters under `root` whose owners are gone."""
    for owner in root.glob(f"{prefix}*{_SUFFIX}"):
        try:
            identity = ProcessId(**json.loads(owner.read_text(encoding="utf-8")))
        except FileNotFoundError:  # it has just ended
            continue
        if not identity.alive:
            discard(owner.with_name(owner.name.removesuffix(_SUFFIX)))
            owner.unlink(missing_ok=True)
