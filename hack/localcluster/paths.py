"""Where things live: the cache of built programs, and the state of clusters (XDG)."""

import os
from pathlib import Path
from typing import Any


class Below:
    """An attribute of what has a `root`: the path of this name under that."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, _: type) -> Path:
        return Path(owner.root, self._name)


def cache_dir() -> Path:
    """Programs, the Go toolchain and the port register: COPYRATOR_CACHE, or the user's cache."""
    if chosen := os.environ.get("COPYRATOR_CACHE"):
        return Path(chosen).expanduser().absolute()
    return _base("XDG_CACHE_HOME", ".cache") / "copyrator"


def state_root() -> Path:
    """The directory with one sub-directory for each named cluster."""
    return _base("XDG_STATE_HOME", ".local/state") / "copyrator"


def _base(variable: str, fallback: str) -> Path:
    # The XDG specification: a relative path in these variables is to be ignored.
    chosen = Path(os.environ.get(variable) or "")
    return chosen if chosen.is_absolute() else Path.home() / fallback
