"""Loopback ports for clusters side by side.

A port that is free now may be taken a moment later: by another cluster that starts at the same
time, or, while a component is down in a fault test, by the kernel for an outgoing connection.
So ports are taken outside the kernel's ephemeral range, and noted in a register until their
cluster is gone. The register is in the cache: clusters of one user share loopback, also where
each has a state directory of its own.
"""

import json
import random
import socket
from collections.abc import Iterable
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.locks import file_lock
from localcluster.paths import cache_dir, state_root

# Below Linux's ephemeral ports (32768 and up), above what services usually listen on.
_RANGE = range(20000, 30000)


def reserve(owner: Path, names: Iterable[str]) -> dict[str, int]:
    """Pick a free port for each name and note that `owner`, a state directory, has them.

    Raises:
        LocalClusterError: no free port was found.
    """
    with file_lock(_register().with_suffix(".lock")):
        taken = _read()
        chosen = {name: _pick(taken, owner) for name in names}
        _write(taken)
    return chosen


def release(owner: Path) -> None:
    """Forget the ports of a state directory."""
    with file_lock(_register().with_suffix(".lock")):
        _write({port: other for port, other in _read().items() if other != str(owner)})


def is_free(port: int) -> bool:
    """Whether nothing listens on a loopback port."""
    with socket.socket() as probe:
        # As servers do; otherwise connections in TIME_WAIT make a free port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _pick(taken: dict[int, str], owner: Path) -> int:
    for _ in range(1000):
        port = random.choice(_RANGE)  # noqa: S311 - spread, not secrecy
        if port not in taken and is_free(port):
            taken[port] = str(owner)
            return port
    raise LocalClusterError(
        f"No free port between {_RANGE.start} and {_RANGE.stop}.",
        f"Stop clusters that you don't need: `ls {state_root()}` shows their names, "
        "`make cluster-down NAME=…` stops one.",
    )


def _register() -> Path:
    return cache_dir() / "ports.json"


def _read() -> dict[int, str]:
    """The register without the entries of clusters whose directory is gone."""
    try:
        entries = json.loads(_register().read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return {int(port): owner for port, owner in entries.items() if Path(owner).is_dir()}


def _write(taken: dict[int, str]) -> None:
    _register().write_text(json.dumps(taken, indent=1), encoding="utf-8")
