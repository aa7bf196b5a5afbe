"""Images that were built, kept by their content in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images.layout import Layout
from images.machine import program
from localcluster.errors import BuildFailedError
from localcluster.locks import file_lock
from localcluster.paths import cache_dir
from localcluster.progress import Progress, duration

# An image is a function of its sources alone: the same bytes from the same clone.
TIMESTAMP = "0"
_KEPT = 3
MOST_LAYERS = 60
"""Layers, some 100 MB a build, that are kept to save time: what a few builds leave."""
_ISOLATION = {"BUILDAH_ISOLATION": "chroot"}


@dataclass(frozen=True, slots=True)
class Store:
    """The images of one cache directory.

    Attributes:
        root: the directory.
        progress: where progress lines go.
    """

    root: Path
    progress: Progress

    @classmethod
    def default(cls) -> Store:
        """Images in the user's cache, progress on stderr."""
        return cls(cache_dir() / "images", Progress.on_stderr())

    def get(self, name: str, key: str, build: Callable[[Path], None]) -> Layout:
        """The image of this name and key, built where it is missing.

        Args:
            name: what the image is called in the cache.
            key: changes with everything that it is made of.
            build: writes the image's layout into a directory.

        Raises:
            BuildFailedError: it can't be built; says what to do.
        """
        place = self.root / f"{name}-{key}"
        if (place / "index.json").exists():
            os.utime(place)
            return Layout(place)
        with file_lock(self.root / "lock", lambda s: self.progress.tick("waiting for images", s)):
            if not (place / "index.json").exists():
                started = time.monotonic()
                self.progress.line(f"building the image {name}")
                self.root.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self.root, prefix=".build-") as draft:
                    build(Path(draft) / "layout")
                    (Path(draft) / "layout").rename(place)
                took = duration(time.monotonic() - started)
                self.progress.line(f"[{took}] building the image {name}: done")
                self._forget_old(name)
                self._forget_layers()
        return Layout(place)

    def bud(self, context: Path, file: Path, arguments: Sequence[str], layout: Path) -> None:
        """Build a Dockerfile into a layout.

        Raises:
            BuildFailedError: a step failed; carries the end of what it printed.
        """
        tag = "localhost/copyrator-build"  # the lock is ours
        options = ("--layers", "--network", "host", "--timestamp", TIMESTAMP, "--tag", tag)
        self.buildah("bud", *options, *arguments, "--file", str(file), str(context))
        self.buildah("push", "--quiet", tag, f"oci:{layout}")

    def image(self, layout: Layout) -> str:
        """An image of the cache as a base for `bud`: its id in buildah's storage."""
        # By its name in the cache: of a whole path buildah makes a name that it refuses then.
        return self.buildah("pull", "--quiet", f"oci:{layout.root.name}")

    def buildah(self, *arguments: str) -> str:
        """Run buildah on this store; what it printed last.

        Raises:
            BuildFailedError: its exit code isn't 0.
        """
        own = ("--root", str(self.root / "storage"), "--runroot", str(self.root / "run"))
        return run([program("buildah"), *own, *arguments], _ISOLATION, self.root)

    def _forget_old(self, name: str) -> None:
        """Keep the images used last: every change of a source made a new one."""
        mine = [path for path in self.root.glob(f"{name}-*") if len(path.name) == len(name) + 17]
        for old in sorted(mine, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            shutil.rmtree(old, ignore_errors=True)

    def _forget_layers(self) -> None:
        """Empty buildah's storage when it has grown: what was built stands in its layout, whole."""
        if len(self.buildah("images", "--all", "--quiet").splitlines()) > MOST_LAYERS:
            self.buildah("rmi", "--all", "--force")


def key_of(*parts: str | Path) -> str:
    """A key that changes with these texts and with the names and bytes of these files."""
    digest = hashlib.sha256()
    for part in parts:
        for content in _contents(part):
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]


def _contents(part: str | Path) -> list[bytes]:
    if isinstance(part, str):
        return [part.encode()]
    files = [part] if part.is_file() else sorted(part.rglob("*"))
    found = []
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            found += [str(file.relative_to(part.parent)).encode(), file.read_bytes()]
    return found


def run(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> str:
    """Run a program in a directory, with more variables; its output.

    Raises:
        BuildFailedError: its exit code isn't 0; carries the end of what it printed.
    """
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
        raise BuildFailedError(
            f"{' '.join(command[:1])} … {command[-1]}: exit code {done.returncode}\n{end}",
            "Can this machine reach Debian's packages and PyPI (DEBIAN_MIRROR, PIP_INDEX_URL, "
            "PIP_CERT, HTTPS_PROXY)?",
        )
    return done.stdout.strip()
