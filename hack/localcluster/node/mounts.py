"""A container's view of the file system: a directory of its own with links to volumes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOME = "/home/build"
"""Home of the user that werf's image runs as; every container is given one."""
TMP = "/tmp"  # noqa: S108 - a path in the container
Object = Mapping[str, Any]


class CannotCreate(Exception):  # noqa: N818 - a state that the container waits in
    """A container that can never be created as its spec stands; the message says why."""


@dataclass(frozen=True, slots=True)
class View:
    """What a container sees.

    Attributes:
        root: the directory that stands for ``/``.
        paths: its mapped paths.
        message: the file that its terminationMessagePath leads to.
    """

    root: Path
    paths: PathMap
    message: Path


def lay_out(container: Object, pod: Object, pod_dir: Path) -> View:
    """Build a container's view under ``<pod_dir>/root/<container>``; repeatable.

    Args:
        container: its spec.
        pod: the pod, for its volumes.
        pod_dir: where volumes/ is.

    Raises:
        CannotCreate: two mounts want the same place, a volume is missing, or a mount is of a part.
    """
    name = str(container["name"])
    root = pod_dir / "root" / name
    mapping: dict[str, Path] = {}
    mounts = {normal(m["mountPath"]): m for m in container.get("volumeMounts") or []}
    for path, mount in sorted(mounts.items(), key=lambda item: item[0].count("/")):
        target = _source(mount, pod, pod_dir)
        mapping[path] = _link(inside(root, path), target, f"container {name}, mount {path}")
    for path in (HOME, TMP):
        mapping.setdefault(path, inside(root, path))
        mapping[path].mkdir(parents=True, exist_ok=True)
    message = pod_dir / "termination" / name
    message.parent.mkdir(parents=True, exist_ok=True)
    message.write_bytes(b"")
    path = normal(container.get("terminationMessagePath") or "/dev/termination-log")
    place = inside(root, path)
    if place.is_symlink() or place.is_file():
        place.unlink()
    mapping[path] = _link(place, message, f"container {name}, terminationMessagePath {path}")
    return View(root, PathMap(mapping), message)


def token_file(container: Object, pod: Object, view: View) -> Path | None:
    """Where the container finds its ServiceAccount's token, if it mounts one at all."""
    for volume in pod["spec"].get("volumes") or []:
        for part in (volume.get("projected") or {}).get("sources") or []:
            source = part.get("serviceAccountToken")
            if source is None or source.get("audience"):
                continue
            for mount in container.get("volumeMounts") or []:
                if mount["name"] == volume["name"]:
                    return inside(view.root, str(mount["mountPath"])) / str(source["path"])
    return None


def _source(mount: Object, pod: Object, pod_dir: Path) -> Path:
    name = str(mount["name"])
    if not any(volume["name"] == name for volume in pod["spec"].get("volumes") or []):
        raise CannotCreate(f"mount {mount['mountPath']}: there is no volume {name}")
    if mount.get("subPath") or mount.get("subPathExpr"):
        raise CannotCreate(f"mount {mount['mountPath']}: a process node has no subPath")
    base = pod_dir / "volumes" / name
    base.mkdir(parents=True, exist_ok=True)
    return base


def _link(place: Path, target: Path, what: str) -> Path:
    """Make `place` lead to `target`; a mount may cover a place only if nothing is lost by it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            if place.readlink() == target:
                return place
            place.unlink()
        elif place.is_dir():
            place.rmdir()
        place.symlink_to(target)
    except OSError as error:
        raise CannotCreate(f"{what}: {error.strerror}") from error
    return place


# What may not stand right before a path for it to be one: `/data/tmp`, `a/tmp`, `$(pwd)/tmp` and
# `${HOME}/tmp` don't mean /tmp. A quote, `=`, `:`, `>`, `@` or `:-` may.
_BEFORE = r"(?:(?<![\w./})\]~%*$])|(?<=file://))"
# What may not follow: `/tmpfile`, `/tmp.old` and `/tmp-1` are other paths.
_AFTER = r"(?![\w.-])"


class PathMap:
    """A container's mapped paths: a path in the container to the real one.

    There is no mount namespace, so ``/values/x.yaml`` of a container lies in the pod's directory. A
    PathMap rewrites the paths where they occur in a text, be it a whole argument, a part of one
    (``--values=/values/x.yaml``) or a shell script.
    """

    def __init__(self, mapping: Mapping[str, Path]) -> None:
        self._real = {normal(path): str(real) for path, real in mapping.items()}
        longest_first = sorted(self._real, key=len, reverse=True)
        alternatives = "|".join(re.escape(path) for path in longest_first)
        self._pattern = re.compile(f"{_BEFORE}({alternatives}){_AFTER}") if alternatives else None

    def rewrite(self, text: str) -> str:
        """Replace every mapped path in a text, each once, the longest that fits."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda match: self._real[match[1]], text)


def normal(path: str) -> str:
    """A path in a container without ``..``, doubled slashes and a slash at the end."""
    return posixpath.normpath("/" + path.lstrip("/"))


def inside(root: Path, path: str) -> Path:
    """The place of a container's absolute path under a directory that stands for its root."""
    return root / normal(path).lstrip("/")
