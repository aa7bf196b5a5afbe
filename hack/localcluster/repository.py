"""One repository of a loopback registry: its manifests, and what refers to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.bundle import INDEX_TYPE, MANIFEST_TYPE, Target, descriptor

EMPTY = "application/vnd.oci.empty.v1+json"


@dataclass(frozen=True, slots=True)
class Stored:
    """A manifest as the registry has it."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        """``sha256:HEX``."""
        digest: str = descriptor(self.media_type, self.content)["digest"]
        return digest

    @property
    def body(self) -> dict[str, Any]:
        """The manifest's JSON."""
        parsed: dict[str, Any] = json.loads(self.content)
        return parsed

    @property
    def descriptor(self) -> dict[str, Any]:
        """Its entry in an index: with artifactType and annotations, as OCI 1.1 asks for."""
        body = self.body
        artifact_type = body.get("artifactType") or body.get("config", {}).get("mediaType")
        more = {"artifactType": artifact_type, "annotations": body.get("annotations")}
        entry = descriptor(self.media_type, self.content)
        return entry | {name: value for name, value in more.items() if value}


@dataclass(frozen=True, slots=True)
class Repository(Target):
    """A repository; `has_referrers` says whether its registry has the API for them."""

    has_referrers: bool = False

    def reference(self, digest: str) -> str:
        """``HOST/NAME@DIGEST``, as the tools want it."""
        return f"{self.registry}/{self.repo}@{digest}"

    def put(self, body: Mapping[str, Any], tag: str = "") -> Stored:
        """Store a manifest under its digest, or under a tag too; a referrer becomes findable."""
        content = json.dumps(body, separators=(",", ":")).encode()
        stored = Stored(body["mediaType"], content)
        self.tag(content, tag or stored.digest, stored.media_type)
        subject = body.get("subject")
        if subject and not self.has_referrers:
            manifests = [*self.referrers(subject["digest"]), stored.descriptor]
            index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests}
            self.put(index, fallback_tag(subject["digest"]))
        return stored

    def refer(
        self,
        artifact: Stored,
        layer: tuple[str, bytes],
        artifact_type: str,
        annotations: Mapping[str, str],
        config_type: str = EMPTY,
    ) -> None:
        """Store an artifact of one layer (its media type and content) that refers to another."""
        for blob in (layer[1], b"{}"):
            self.upload(blob)
        self.put(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_TYPE,
                "artifactType": artifact_type,
                "config": descriptor(config_type, b"{}"),
                "layers": [descriptor(*layer)],
                "subject": descriptor(artifact.media_type, artifact.content),
                "annotations": dict(annotations),
            }
        )

    def get(self, reference: str) -> Stored | None:
        """The manifest of a tag or digest; None where there is none."""
        where = f"/v2/{self.repo}/manifests/{reference}"
        status, headers, content = self._call("GET", where, allow=(404,))
        return None if status == 404 else Stored(headers["Content-Type"], content)

    def blob(self, digest: str) -> bytes:
        """A blob's content.

        Raises:
            PushError: there is none.
        """
        return self._call("GET", f"/v2/{self.repo}/blobs/{digest}")[2]

    def referrers(self, digest: str) -> Sequence[dict[str, Any]]:
        """Descriptors of what refers to a digest, by the API or the fallback tag."""
        if self.has_referrers:
            _, _, content = self._call("GET", f"/v2/{self.repo}/referrers/{digest}")
            found: list[dict[str, Any]] = json.loads(content).get("manifests") or []
            return found
        index = self.get(fallback_tag(digest))
        return [] if index is None else index.body["manifests"]

    def tags(self) -> list[str]:
        """All tags, sorted."""
        _, _, content = self._call("GET", f"/v2/{self.repo}/tags/list", allow=(404,))
        return sorted(json.loads(content or b"{}").get("tags") or [])


def fallback_tag(digest: str) -> str:
    """``sha256-HEX``: the tag of the index of referrers where there is no API for them."""
    return digest.replace(":", "-")
