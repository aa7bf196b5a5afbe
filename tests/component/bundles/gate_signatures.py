"""Signatures in a simulation: a registry that has them, who is trusted, and what can be proved.

Keys, signatures, the operator's search for them and its verdict are real; only the requests aren't
sent.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from tests.component.bundles.fake_cluster import path_of
from tests.component.bundles.gate_account import HOME, RACE, SURE
from tests.component.bundles.simulated import SimulatedCluster, SimulatedRegistry
from tests.packed_charts import chart
from tests.signature_layout import IMAGE_TYPE, digest_of, payloads
from tests.unit.signatures.making import key, payload, public_pem, sign, text

from copyrator.oci.errors import RegistryUnreachable, TagNotFound
from copyrator.signatures.model import Artifact

Keys = frozenset[str]
Requirement = tuple[Keys, ...]
"""Of each of these sets one key has to have signed; nothing satisfies an empty one."""

VERIFY = {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]}
SYSTEM = "default"
"""The operator's namespace."""
KINDS = {"A": "P-256", "B": "P-256 second"}


CHART = chart("a: b")
_LAYER = {"mediaType": "application/tar+gzip", "digest": digest_of(CHART), "size": len(CHART)}
_MANIFEST = json.dumps({"layers": [_LAYER]}).encode()


class SignedRegistry(SimulatedRegistry):
    """It has the tags ``sha256-HEX.sig`` of cosign 2, and no list of referrers.

    Attributes:
        signed: the keys that signed each digest.
        hides: requests for signatures fail.
        shown: called with each digest whose signatures are read.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.signed: dict[str, set[str]] = defaultdict(set)
        self.hides = False
        self.shown: Callable[[str], None] = lambda digest: None
        self._blobs: dict[str, bytes] = {}

    async def artifact(self, _repository: object, digest: str, _credential: object) -> Artifact:
        await self._answer()
        return Artifact(digest, IMAGE_TYPE, 8)

    async def referrers(self, *_: object) -> None:
        await self._answer()

    async def manifest_bytes(self, *asked: Any) -> bytes:
        tag: str = asked[1]
        await self._answer()
        if tag.startswith("sha256:"):
            return _MANIFEST
        found = tag.removesuffix(".sig")
        digest = found.replace("-", ":", 1)
        if found == tag or not self.signed[digest]:
            raise TagNotFound(f"{tag} doesn't exist")
        content = payload(Artifact(digest, "", 0))
        self._blobs[digest_of(content)] = content
        self.shown(digest)
        found_by = [sign(key(KINDS[one]), content) for one in sorted(self.signed[digest])]
        return json.dumps(payloads(*((content, text(one)) for one in found_by))).encode()

    async def blob(self, _repository: object, digest: str, *_: object) -> bytes:
        await self._answer()
        return CHART if digest == _LAYER["digest"] else self._blobs[digest]

    async def _answer(self) -> None:
        await asyncio.sleep(0)
        if self.hides:
            raise RegistryUnreachable("registry.example answers 503")


class Signers:
    """Whom ``spec.verify`` and the policy trust, and whose trusted signatures were ever shown.

    A trusted signature counts for a day, though it may have been withdrawn since; so a digest may
    be deployed if one was shown to this process of the operator while the same was required.
    """

    def __init__(self, cluster: SimulatedCluster, registry: SignedRegistry) -> None:
        self._cluster, self._registry = cluster, registry
        registry.shown = self._shown
        self._spec: Keys = frozenset()
        self._policy: Keys | None = None
        self._was: list[tuple[float, Requirement, Requirement]] = []
        """Until when, and what was required by the policy alone and together with a spec."""
        self._proved: set[tuple[str, Requirement]] = set()
        self._ever_proved: set[tuple[str, Requirement]] = set()
        """To any process."""

    def forget(self) -> None:
        """Another process looks for itself."""
        self._proved.clear()

    def trust(self, keys: str) -> None:
        """The keys of the ConfigMap that ``spec.verify`` names; none: it can't be used."""
        self._change()
        self._spec = frozenset(keys)
        self._put("keys", HOME, _pem(keys))

    def set_policy(self, keys: str | None) -> None:
        """The keys that the operator's policy requires; an empty string denies everything."""
        self._change()
        self._policy = None if keys is None else frozenset(keys)
        policy: dict[str, Any] = {"default": "Deny"}
        if keys:
            self._put("policy-keys", SYSTEM, _pem(keys))
            ref = {"kind": "ConfigMap", "name": "policy-keys"}
            entry = {"repositories": ["registry.example/app"]}
            policy = {"entries": [{**entry, "anyOf": [{"cosign": {"keysFrom": ref}}]}]}
        name = "copyrator-signature-policy"
        if keys is not None:
            self._put(name, SYSTEM, {"policy.yaml": yaml.safe_dump(policy)})
        elif (path := path_of("configmaps", name, SYSTEM)) in self._cluster.objects:
            self._cluster.drop(path)

    def sign(self, digest: str, key: str) -> None:
        self._registry.signed[digest].add(key)

    def unsign(self, digest: str) -> None:
        self._registry.signed[digest].clear()

    def objections(self, spec: dict[str, Any], digest: str) -> Iterator[str]:
        """Why a digest must not be deployed."""
        allowed = self._required("verify" in spec)
        if all(one and (digest, one) not in self._proved for one in allowed):
            found = sorted(self._registry.signed[digest])
            shown = [sorted(one) for one in allowed[0]]
            yield f"{digest[:15]} has no trusted signature: by {found}, required are {shown}"

    def is_surely_trusted(self, spec: dict[str, Any], digest: str) -> bool:
        """Whether a digest may be deployed, and nothing has changed for SURE seconds."""
        required = self._now(with_spec="verify" in spec)
        return self._is_sure and (not required or (digest, required) in self._proved)

    def is_surely_untrusted(self, spec: dict[str, Any], digest: str) -> bool:
        """Whether no operator can know a signature that is required, as it is for SURE seconds."""
        required = self._now(with_spec="verify" in spec)
        return self._is_sure and bool(required) and (digest, required) not in self._ever_proved

    @property
    def _is_sure(self) -> bool:
        now = asyncio.get_running_loop().time()
        return not any(one[0] >= now - SURE for one in self._was)

    def _put(self, name: str, namespace: str, data: dict[str, str]) -> None:
        metadata = {"name": name, "namespace": namespace}
        path = path_of("configmaps", name, namespace)
        self._cluster.write(path, {"metadata": metadata, "data": data})

    def _change(self) -> None:
        now = asyncio.get_running_loop().time()
        self._was.append((now, *(self._now(with_spec=one) for one in (False, True))))

    def _now(self, *, with_spec: bool) -> Requirement:
        policy = () if self._policy is None else (self._policy,)
        return (*policy, self._spec) if with_spec else policy

    def _required(self, with_spec: bool) -> list[Requirement]:
        """What is required, and what was just now."""
        since = asyncio.get_running_loop().time() - RACE
        was = (one[1 + with_spec] for one in self._was if one[0] >= since)
        return [self._now(with_spec=with_spec), *was]

    def _shown(self, digest: str) -> None:
        signed = self._registry.signed[digest]
        for required in (*self._required(False), *self._required(True)):
            if all(keys & signed for keys in required):
                self._proved.add((digest, required))
                self._ever_proved.add((digest, required))


def _pem(keys: str) -> dict[str, str]:
    """Public keys as files; without any, something else."""
    found = {f"{one}.pub": public_pem(key(KINDS[one])).decode() for one in keys}
    return found or {"A.pub": "garbage"}
