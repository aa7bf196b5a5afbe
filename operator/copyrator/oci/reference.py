"""The name of a repository, and its URLs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

DOCKER_HUB_HOST: Final = "registry-1.docker.io"
DOCKER_HUB_NAMES: Final = frozenset(
    {"docker.io", "index.docker.io", "registry.hub.docker.com", DOCKER_HUB_HOST}
)
"""Names of Docker Hub, whose API has another host: ``docker.io`` is a web site."""

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""The only form that werf accepts to pin a pull (docs/facts/werf.md)."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository of one registry, and how to connect to that registry."""

    registry: str
    """``host[:port]`` as the user wrote it."""
    name: str
    """Path in the registry, without tag."""
    plain_http: bool = False
    verify: bool = True
    """False: any TLS certificate is accepted."""
    ca: bytes | None = field(default=None, repr=False)
    """PEM certificates to trust instead of the system's."""

    @property
    def host(self) -> str:
        """``host[:port]`` that requests go to."""
        return DOCKER_HUB_HOST if self.registry in DOCKER_HUB_NAMES else self.registry

    @property
    def path(self) -> str:
        """The repository's name in the API (Docker Hub's official images: ``library/…``)."""
        short = self.host == DOCKER_HUB_HOST and "/" not in self.name
        return f"library/{self.name}" if short else self.name

    @property
    def origin(self) -> str:
        """``https://host[:port]``."""
        return f"{'http' if self.plain_http else 'https'}://{self.host}"

    def manifest_url(self, reference: str) -> str:
        """URL of the manifest of a tag or digest."""
        return f"{self.origin}/v2/{self.path}/manifests/{reference}"

    def blob_url(self, digest: str) -> str:
        """URL of a blob."""
        return f"{self.origin}/v2/{self.path}/blobs/{digest}"

    def referrers_url(self, digest: str) -> str:
        """URL of the first page of the list of manifests that refer to this one (OCI 1.1)."""
        return f"{self.origin}/v2/{self.path}/referrers/{digest}"

    def tags_url(self, page: int | None) -> str:
        """URL of the tag list's first page, of ``page`` tags or as many as the registry wants."""
        return f"{self.origin}/v2/{self.path}/tags/list" + (f"?n={page}" if page else "")

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}"
