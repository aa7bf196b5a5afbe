"""An image as files: the OCI layout that buildah writes, read, measured and pushed."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcluster.bundle import Target


@dataclass(frozen=True, slots=True)
class Layout:
    """One image in a directory.

    Attributes:
        root: the directory, with index.json and blobs/.
    """

    root: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """The image's manifest."""
        return self._json(self._entry["digest"])

    @property
    def config(self) -> dict[str, Any]:
        """The image's configuration: entry point, user, labels."""
        return self._json(self.manifest["config"]["digest"])

    @property
    def digest(self) -> str:
        """The manifest's digest, by which the image can be pulled."""
        digest: str = self._entry["digest"]
        return digest

    @property
    def layers(self) -> list[str]:
        """The digests of the layers, the base's first."""
        return [layer["digest"] for layer in self.manifest["layers"]]

    def files(self, layer: str) -> Iterator[tuple[str, int]]:
        """Path and size of every file of a layer."""
        with tarfile.open(self._path(layer), mode="r:*") as archive:
            for member in archive:
                if member.isfile():
                    yield member.name.removeprefix("./"), member.size

    def packed_bytes(self, layer: str) -> int:
        """The size of a layer as it is pulled."""
        return self._path(layer).stat().st_size

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

    @property
    def _entry(self) -> dict[str, Any]:
        index = json.loads((self.root / "index.json").read_text(encoding="utf-8"))
        entry: dict[str, Any] = index["manifests"][0]
        return entry

    def _json(self, digest: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._blob(digest))
        return content

    def _blob(self, digest: str) -> bytes:
        return self._path(digest).read_bytes()

    def _path(self, digest: str) -> Path:
        return self.root / "blobs" / digest.replace(":", "/")
