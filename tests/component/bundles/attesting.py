"""A registry in which environments attest what they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.oci.fake_registry import FakeRegistry
from tests.signature_layout import INDEX_TYPE, digest_of, encoded, index, listed, sigstore_bundle
from tests.unit.signatures.attesting import DEPLOYED, signing_key
from tests.unit.signatures.making import key, public_pem

from copyrator.signatures.model import DEPLOYED_PREDICATE
from copyrator.signatures.private_keys import sign_statement

STAGING = {
    "environment": "staging",
    "cosign": {"keysFrom": {"kind": "ConfigMap", "name": "staging-keys"}},
}


def promoted_by(*environments: dict[str, Any]) -> dict[str, Any]:
    return {"attestations": [STAGING | one for one in environments or ({},)]}


@dataclass
class AttestedRegistry(FakeRegistry):
    """Has a list of referrers of each digest."""

    listed: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def put(self, repo: str, tag: str, content: str) -> str:
        digest = super().put(repo, tag, content)
        self.untagged[repo, digest] = self.manifests[repo, tag]
        return digest

    def attest(self, digest: str, kind: str = "P-256", age: float = 0, **said: Any) -> None:
        """Attest a digest; age in seconds."""
        issued = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=age)
        statement = replace(DEPLOYED, digest=digest, issued_at=issued, **said)
        blob = sign_statement(signing_key(kind), statement)
        self.blobs[digest_of(blob)] = blob
        subject = self.untagged["app", digest]
        manifest = encoded(sigstore_bundle(subject, blob, predicate=DEPLOYED_PREDICATE))
        self.untagged["app", digest_of(manifest)] = manifest
        self.listed.setdefault(digest, []).append(listed(manifest))

    def copy(self, digest: str, to: str) -> None:
        """Copy a manifest to another repository with its attestations."""
        for (repo, name), body in list(self.untagged.items()):
            if repo == "app":
                self.untagged[to, name] = body

    def evidence_requests(self) -> int:
        return sum("/referrers/" in path for _, path in self.asked)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if "/referrers/" in request.path:
            body = encoded(index(*self.listed.get(name, ())))
            return web.Response(body=body, content_type=INDEX_TYPE)
        if (blob := self.blobs.get(name)) is not None:
            return web.Response(body=blob)
        found = await super().respond(request)
        found.content_type = "application/vnd.oci.image.manifest.v1+json"
        return found


def trust(cluster: BundleCluster, *kinds: str, name: str = "staging-keys") -> None:
    """The keys of an environment from now on."""
    data: dict[str, str | None] = dict(_files(kinds or ("P-256",)))
    if (there := cluster.look("configmaps", name)) is None:
        cluster.put_object("configmaps", name, data=data)
    else:
        cluster.change("configmaps", name, data=dict.fromkeys(there["data"]) | data)


def _files(kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for number, kind in enumerate(kinds):
        yield f"{number}.pub", public_pem(key(kind)).decode()
