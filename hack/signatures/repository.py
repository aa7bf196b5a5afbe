"""One repository of a loopback registry: what is pushed, and what the tools left there."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = "application/vnd.oci.empty.v1+json"

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RegistryAnswerError(RuntimeError):
    """The registry didn't do what it was asked for; the message has its answer."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A manifest as the registry has it."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        """``sha256:HEX``."""
        return digest_of(self.content)

    @property
    def body(self) -> dict[str, Any]:
        """The manifest's JSON."""
        parsed: dict[str, Any] = json.loads(self.content)
        return parsed

    @property
    def descriptor(self) -> dict[str, Any]:
        """Its entry in an index: with artifactType and annotations, as OCI 1.1 asks for."""
        body = self.body
        entry = {"mediaType": self.media_type, "digest": self.digest, "size": len(self.content)}
        artifact_type = body.get("artifactType") or body.get("config", {}).get("mediaType")
        more = {"artifactType": artifact_type, "annotations": body.get("annotations")}
        return entry | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository by its host (``127.0.0.1:PORT``) and name."""

    host: str
    name: str
    has_referrers: bool

    def reference(self, digest: str) -> str:
        """``HOST/NAME@DIGEST``, as the tools want it."""
        return f"{self.host}/{self.name}@{digest}"

    def upload(self, blob: bytes) -> str:
        """Upload a blob; its digest."""
        digest = digest_of(blob)
        _, headers, _ = self._call("POST", "blobs/uploads/", b"")
        location = urllib.parse.urljoin(f"http://{self.host}", headers["Location"])
        sign = "&" if "?" in location else "?"
        self._call("PUT", f"{location}{sign}digest={digest}", blob, "application/octet-stream")
        return digest

    def put(self, body: Mapping[str, Any], tag: str = "") -> Stored:
        """Store a manifest under its digest, or under a tag too; a referrer becomes findable."""
        content = json.dumps(body, separators=(",", ":")).encode()
        stored = Stored(body["mediaType"], content)
        self._call("PUT", f"manifests/{tag or stored.digest}", content, stored.media_type)
        subject = body.get("subject")
        if subject and not self.has_referrers:
            others = self.referrers(subject["digest"])
            manifests = [*others, stored.descriptor]
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
            self.put(index, fallback_tag(subject["digest"]))
        return stored

    def get(self, reference: str) -> Stored | None:
        """The manifest of a tag or digest; None where there is none."""
        accept = f"{MANIFEST}, {INDEX}"
        status, headers, content = self._call("GET", f"manifests/{reference}", accept=accept)
        return None if status == 404 else Stored(headers["Content-Type"], content)

    def blob(self, digest: str) -> bytes:
        """A blob's content.

        Raises:
            RegistryAnswerError: there is none.
        """
        status, _, content = self._call("GET", f"blobs/{digest}")
        if status == 404:
            raise RegistryAnswerError(f"{self.reference(digest)}: no such blob")
        return content

    def referrers(self, digest: str) -> Sequence[dict[str, Any]]:
        """Descriptors of what refers to a digest, by the API or the fallback tag."""
        if self.has_referrers:
            _, _, content = self._call("GET", f"referrers/{digest}", accept=INDEX)
            found: list[dict[str, Any]] = json.loads(content).get("manifests") or []
            return found
        index = self.get(fallback_tag(digest))
        return [] if index is None else index.body["manifests"]

    def tags(self) -> list[str]:
        """All tags, sorted."""
        status, _, content = self._call("GET", "tags/list")
        return [] if status == 404 else sorted(json.loads(content).get("tags") or [])

    def _call(
        self,
        method: str,
        where: str,
        body: bytes | None = None,
        content_type: str = "",
        accept: str = "*/*",
    ) -> tuple[int, Message, bytes]:
        url = where if "://" in where else f"http://{self.host}/v2/{self.name}/{where}"
        request = urllib.request.Request(url, data=body, method=method)  # noqa: S310 - loopback
        request.add_header("Accept", accept)
        if content_type:
            request.add_header("Content-Type", content_type)
        try:
            with _OPENER.open(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if method == "GET" and error.code == 404:
                    return 404, error.headers, b""
                detail = error.read(500).decode(errors="replace")
            raise RegistryAnswerError(f"{method} {url}: {error.code} {detail}") from None


def digest_of(blob: bytes) -> str:
    """``sha256:HEX`` of bytes."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def fallback_tag(digest: str) -> str:
    """``sha256-HEX``: the tag of the index of referrers where there is no API for them."""
    return digest.replace(":", "-")


def descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    """The descriptor of a blob."""
    return {"mediaType": media_type, "digest": digest_of(blob), "size": len(blob)}
