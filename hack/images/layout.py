"""An image as files: the OCI layout that buildah writes, read, measured and pushed."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from images.trim import LIBRARY
from localcluster.bundle import Target


@dataclass(frozen=True, slots=True)
class Layout:
    """One image in a directory.

    Attributes:
        root: the directory, with index.json and blobs/.
    """

    root: Path

    @property
    def entry(self) -> dict[str, Any]:
        """What refers to the manifest: its media type, digest and size."""
        index = json.loads((self.root / "index.json").read_text(encoding="utf-8"))
        found: dict[str, Any] = index["manifests"][0]
        return {name: found[name] for name in ("mediaType", "digest", "size")}

    @property
    def manifest(self) -> dict[str, Any]:
        """The image's manifest."""
        return self._json(self.entry["digest"])

    @property
    def config(self) -> dict[str, Any]:
        """The image's configuration: entry point, user, labels."""
        return self._json(self.manifest["config"]["digest"])

    @property
    def digest(self) -> str:
        """The manifest's digest, by which the image can be pulled."""
        digest: str = self.entry["digest"]
        return digest

    @property
    def layers(self) -> list[str]:
        """The digests of the layers, the base's first."""
        return [layer["digest"] for layer in self.manifest["layers"]]

    def files(self, layer: str) -> Iterator[tuple[str, int]]:
        """Path and size of every file of a layer."""
        with tarfile.open(self.path(layer), mode="r:*") as archive:
            for member in archive:
                if member.isfile():
                    yield member.name.removeprefix("./"), member.size

    def packed_bytes(self, layer: str) -> int:
        """The size of a layer as it is pulled."""
        return self.path(layer).stat().st_size

    def push(self, registry: str, repo: str, tag: str) -> str:
        """Push the image to a registry on loopback; the reference to pull it by.

        Raises:
            PushError: the registry refused.
        """
        target = Target(registry, repo, None, None)
        for digest in (self.manifest["config"]["digest"], *self.layers):
            target.upload(self._blob(digest))
        target.tag(self._blob(self.digest), tag)
        return f"{registry}/{repo}:{tag}"

    def _json(self, digest: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._blob(digest))
        return content

    def _blob(self, digest: str) -> bytes:
        return self.path(digest).read_bytes()

    def path(self, digest: str) -> Path:
        """The file of a blob."""
        return self.root / "blobs" / digest.replace(":", "/")


_SHOWN = 12


def contents(image: Layout) -> Counter[str]:
    """Unpacked bytes above the base, by package."""
    found: Counter[str] = Counter()
    for layer in image.layers[1:]:
        for path, size in image.files(layer):
            inside = path.removeprefix(f"{LIBRARY}/")
            found[inside.partition("/")[0] if inside != path else "launcher and licence"] += size
    return found


def report(image: Layout) -> str:
    """The report: size over the base, which is one layer, and what takes how much of it."""
    sizes = contents(image)
    total, packed = sum(sizes.values()), sum(map(image.packed_bytes, image.layers[1:]))
    lines = [
        f"{_megabytes(total)} MB over the base ({_megabytes(packed)} MB to pull), of which in MB:",
        *(f"  {_megabytes(size):>5}  {name}" for name, size in sizes.most_common(_SHOWN)),
    ]
    rest = sum(size for _, size in sizes.most_common()[_SHOWN:])
    return "\n".join([*lines, f"  {_megabytes(rest):>5}  {len(sizes) - _SHOWN} more"])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"
