"""A registry in which environments attest what they run, and which takes their attestations."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.oci.fake_registry import FakeRegistry
from tests.signature_layout import INDEX_TYPE, digest_of, encoded, index, listed, sigstore_bundle
from tests.unit.signatures.attesting import DEPLOYED, signing_key
from tests.unit.signatures.making import key, public_pem

from copyrator.signatures.attestation import parse_statement, sign_statement
from copyrator.signatures.model import DEPLOYED_PREDICATE, DeployedStatement
from copyrator.signatures.sigstore_bundle import read_envelope

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
    pushes: list[str] = field(default_factory=list)
    """Digests of the attestations that were pushed, in order."""
    on_push: Callable[[DeployedStatement], None] = lambda _: None
    """Is called with a statement that is being pushed."""
    deletes: bool = True
    """Whether manifests can be deleted."""

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

    def statements(self, digest: str) -> list[DeployedStatement]:
        """Of a digest, in the order of their dates."""
        found = (self._statement(one["digest"]) for one in self.listed.get(digest, ()))
        return sorted(found, key=lambda one: one.issued_at)

    def _statement(self, manifest: str) -> DeployedStatement:
        layer = json.loads(self.untagged["app", manifest])["layers"][0]["digest"]
        return parse_statement(read_envelope(self.blobs[layer]).payload)

    def evidence_requests(self) -> int:
        return sum("/referrers/" in path for _, path in self.asked)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        if request.method in ("POST", "PUT", "DELETE"):
            return await self._write(request, name)
        if "/referrers/" in request.path:
            body = encoded(index(*self.listed.get(name, ())))
            return web.Response(body=body, content_type=INDEX_TYPE)
        if (blob := self.blobs.get(name)) is not None:
            return web.Response(body=blob)
        found = await super().respond(request)
        found.content_type = "application/vnd.oci.image.manifest.v1+json"
        return found

    async def _write(self, request: web.Request, name: str) -> web.StreamResponse:
        if request.method == "POST":
            return web.Response(status=202, headers={"Location": request.path + "one"})
        if request.method == "DELETE":
            if not self.deletes:
                return web.Response(status=405)
            gone = self.untagged.pop(("app", name), None)
            for entries in self.listed.values():
                entries[:] = [one for one in entries if one["digest"] != name]
            return web.Response(status=202 if gone else 404)
        body = await request.read()
        if "/blobs/" in request.path:
            self.blobs[digest_of(body)] = body
            return web.Response(status=201)
        subject = json.loads(body)["subject"]["digest"]
        self.untagged["app", digest_of(body)] = body
        self.on_push(self._statement(digest_of(body)))
        self.pushes.append(digest_of(body))
        entries = self.listed.setdefault(subject, [])
        if all(one["digest"] != digest_of(body) for one in entries):
            entries.append(listed(body))
        return web.Response(status=201, headers={"OCI-Subject": subject})


def private_pem(kind: str = "P-256", password: bytes | None = None) -> bytes:
    """A private key of an environment."""
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return signing_key(kind).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def attest_key(cluster: BundleCluster, kind: str = "P-256", **more: Any) -> None:
    """The Secret of ATTEST, and the Namespace that names the cluster."""
    cluster.namespace("kube-system")
    data = {"key.pem": b64encode(private_pem(kind)).decode()}
    cluster.put_object("secrets", "attest-key", data=data, **more)


ATTEST = {
    "environment": "staging",
    "keyFrom": {"secretName": "attest-key", "key": "key.pem"},
}


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
