"""One cluster for several processes of a test run: the first starts it, the last stops it.

Every user of a shared cluster leaves a file with its process's identity beside the cluster's
directory, so that a user that was killed counts as gone.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from localcluster.cluster import Cluster, discard
from localcluster.locks import file_lock
from localcluster.processes import ProcessId

_USERS_SUFFIX = ".users"


@contextmanager
def shared_cluster(state_dir: Path) -> Iterator[Cluster]:
    """A cluster that all processes share which name the same directory.

    Raises:
        LocalClusterError: it could not be started.
    """
    users = state_dir.with_name(state_dir.name + _USERS_SUFFIX)
    lock = users / "lock"
    mine = users / f"{os.getpid()}.json"
    with file_lock(lock):
        identity = ProcessId.of(os.getpid())
        if identity:
            mine.write_text(json.dumps(asdict(identity)), encoding="utf-8")
        try:
            cluster = Cluster.start(state_dir)
        except BaseException:
            _leave(users, mine, state_dir)
            raise
    try:
        yield cluster
    finally:
        with file_lock(lock):
            _leave(users, mine, state_dir)


def reap(root: Path, prefix: str) -> list[Path]:
    """Stop shared clusters under `root` whose users are all gone, killed in mid-run."""
    stopped = []
    for users in root.glob(f"{prefix}*{_USERS_SUFFIX}"):
        state_dir = users.with_name(users.name.removesuffix(_USERS_SUFFIX))
        with file_lock(users / "lock"):
            if not _present(users):
                discard(state_dir)
                _remove(users)
                stopped.append(state_dir)
    return stopped


def _leave(users: Path, mine: Path, state_dir: Path) -> None:
    mine.unlink(missing_ok=True)
    if not _present(users):
        discard(state_dir)
        _remove(users)


def _present(users: Path) -> list[ProcessId]:
    """The users that are still alive."""
    found = [ProcessId(**json.loads(file.read_text("utf-8"))) for file in users.glob("*.json")]
    return [user for user in found if user.alive]


def _remove(users: Path) -> None:
    for file in users.iterdir():
        file.unlink(missing_ok=True)
    users.rmdir()
