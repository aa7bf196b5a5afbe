"""One image for several architectures, as an archive that skopeo, podman and containerd read."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from images.layout import Layout

_INDEX = "application/vnd.oci.image.index.v1+json"


def write(archive: Path, images: Sequence[Layout]) -> str:
    """Write images of one program into an OCI archive, the same bytes for the same images.

    Args:
        archive: the file.
        images: one for each architecture.

    Returns:
        The digest of their index, by which the image is pulled.
    """
    listed = _encoded({"manifests": [_entry(image) for image in images]})
    digest = f"sha256:{hashlib.sha256(listed).hexdigest()}"
    top = {"mediaType": _INDEX, "digest": digest, "size": len(listed)}
    files: dict[str, bytes | Path] = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": _encoded({"manifests": [top]}),
        f"blobs/{digest.replace(':', '/')}": listed,
    }
    for image in images:
        blobs = (image.root / "blobs").rglob("*")
        files |= {str(one.relative_to(image.root)): one for one in blobs if one.is_file()}
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as packed:
        for name, content in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            packed.addfile(entry, io.BytesIO(data))
    return digest


def _entry(image: Layout) -> dict[str, Any]:
    platform = {"architecture": image.config["architecture"], "os": image.config["os"]}
    return {**image.entry, "platform": platform}


def _encoded(content: dict[str, Any]) -> bytes:
    whole = {"schemaVersion": 2, "mediaType": _INDEX, **content}
    return json.dumps(whole, sort_keys=True).encode()
