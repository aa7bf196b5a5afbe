"""Push a chart directory to a registry in werf's bundle form.

A bundle is an OCI image manifest without annotations: a config blob that holds nothing but
Chart.yaml's metadata, and one ``application/tar+gzip`` layer that holds the chart. For a SemVer
tag the chart's version is the tag, so pushing other templates under the same tag keeps the
*config* digest and changes the *manifest* digest: what the operator must compare.

The archive is deterministic: the same directory pushed twice has the same digest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import yaml
from urllib3 import PoolManager, make_headers
from urllib3.exceptions import HTTPError

from localcluster.standin.registry import is_loopback

CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json"
LAYER_TYPE = "application/tar+gzip"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
_SEMVER = re.compile(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?([+_][0-9A-Za-z.-]+)?")
_TIMEOUT = 30.0


class PushError(RuntimeError):
    """The registry refused a step of the push; the message names the step and the answer."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The three blobs of one bundle, and the digest that the registry will give it."""

    config: bytes
    layer: bytes
    manifest: bytes

    @property
    def digest(self) -> str:
        """The manifest's digest: ``sha256:`` and 64 hexadecimal digits."""
        return _digest(self.manifest)


def build(chart_dir: Path | str, tag: str) -> Bundle:
    """Pack a chart directory as the bundle that ``werf bundle publish --tag TAG`` would make.

    Args:
        chart_dir: a directory with a Chart.yaml.
        tag: gives the chart's version when it is SemVer, as werf does.

    Raises:
        FileNotFoundError: there is no Chart.yaml.
    """
    root = Path(chart_dir)
    chart: dict[str, Any] = yaml.safe_load((root / "Chart.yaml").read_text())
    if _SEMVER.fullmatch(tag):
        chart["version"] = tag.replace("_", "+")
    config = json.dumps(chart, separators=(",", ":"), sort_keys=True).encode()
    layer = _archive(root, chart)
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(CONFIG_TYPE, config),
        "layers": [descriptor(LAYER_TYPE, layer)],
    }
    return Bundle(config, layer, json.dumps(manifest, separators=(",", ":")).encode())


def push(
    chart_dir: Path | str,
    registry: str,
    repo: str,
    tag: str,
    *,
    username: str | None = None,
    password: str | None = None,
) -> str:
    """Push a chart directory as a bundle.

    Args:
        chart_dir: a directory with a Chart.yaml.
        registry: ``host[:port]``; plain HTTP for a loopback host, HTTPS otherwise.
        repo: the repository's path.
        tag: the tag to set; also the chart's version when it is SemVer.
        username: for a registry with Basic authentication.
        password: goes with it.

    Returns:
        The manifest's digest, ``sha256:…``.

    Raises:
        PushError: the registry refused, or could not be reached.
    """
    bundle = build(chart_dir, tag)
    target = Target(registry, repo, username, password)
    target.upload(bundle.config)
    target.upload(bundle.layer)
    target.tag(bundle.manifest, tag)
    return bundle.digest


def junk_tags(count: int, registry: str, repo: str, like: str) -> None:
    """Fill a repository with tags of werf's stages storage, all naming the manifest of `like`."""
    target = Target(registry, repo)
    manifest = target.manifest(like)
    for number in range(count):
        seed = hashlib.sha3_224(f"{repo}/{number}".encode()).hexdigest()
        shapes = (
            f"{seed}-{1_700_000_000_000 + number}",
            f"meta-{seed}",
            f"managed-image-app{number}",
            f"import-metadata-{seed}",
            f"custom-tag-meta-{seed}",
            f"client-id-{seed}",
            f"{seed}-{1_700_000_000_000 + number}-rejected",
        )
        target.tag(manifest, shapes[number % len(shapes)])


@dataclass(frozen=True, slots=True)
class Target:
    """One repository of one registry."""

    registry: str
    repo: str
    username: str | None = None
    password: str | None = None

    @property
    def base(self) -> str:
        """The registry's URL."""
        scheme = "http" if is_loopback(self.registry) else "https"
        return f"{scheme}://{self.registry}"

    def upload(self, blob: bytes) -> None:
        """Upload a blob in one piece, unless the repository has it."""
        digest = _digest(blob)
        status, _, _ = self._call("HEAD", f"/v2/{self.repo}/blobs/{digest}", allow=(404,))
        if status == 200:
            return
        _, headers, _ = self._call("POST", f"/v2/{self.repo}/blobs/uploads/", b"")
        location = headers["Location"]
        location += f"{'&' if '?' in location else '?'}digest={digest}"
        self._call("PUT", location, blob, "application/octet-stream")

    def tag(self, manifest: bytes, tag: str, media_type: str = MANIFEST_TYPE) -> None:
        """Store a manifest (or an index, by its media type) under a tag or its digest."""
        self._call("PUT", f"/v2/{self.repo}/manifests/{tag}", manifest, media_type)

    def manifest(self, tag: str) -> bytes:
        """Read the manifest of a tag or digest; empty where there is none."""
        return self._call("GET", f"/v2/{self.repo}/manifests/{tag}", allow=(404,))[2]

    def _call(
        self,
        method: str,
        where: str,
        body: bytes | None = None,
        content_type: str | None = None,
        *,
        allow: tuple[int, ...] = (),
    ) -> tuple[int, Mapping[str, str], bytes]:
        url = urljoin(self.base, where)
        shown = f"{method} {url.partition('?')[0]}"  # an upload's query is the registry's own
        headers = {"Accept": f"{MANIFEST_TYPE}, {INDEX_TYPE}"}
        if content_type:
            headers["Content-Type"] = content_type
        if self.username is not None:
            headers |= make_headers(basic_auth=f"{self.username}:{self.password or ''}")
        # Without a proxy, and with no connection that outlives the call.
        with PoolManager(timeout=_TIMEOUT, retries=False) as pool:
            try:
                answer = pool.request(method, url, body=body, headers=headers)
            except HTTPError as error:
                raise PushError(f"{shown}: {error}") from error
        if answer.status < 400:
            return answer.status, answer.headers, answer.data
        if answer.status in allow:
            return answer.status, answer.headers, b""
        detail = answer.data[:500].decode(errors="replace").strip()
        raise PushError(f"{shown}: {answer.status} {detail}")


def _archive(root: Path, chart: dict[str, Any]) -> bytes:
    """Pack a chart under its name, with nothing in it that changes from run to run."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            if not path.is_file():
                continue
            name = path.relative_to(root).as_posix()
            content = path.read_bytes()
            if name == "Chart.yaml":
                content = yaml.safe_dump(chart, sort_keys=True).encode()
            entry = tarfile.TarInfo(f"{chart['name']}/{name}")
            entry.size = len(content)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


def descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    """The OCI descriptor of a blob or manifest."""
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
