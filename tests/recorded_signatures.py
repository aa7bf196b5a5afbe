"""What `make signatures` recorded: registry content, policies, and the real tools' verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from copyrator.signatures.keys import read_keys
from copyrator.signatures.model import (
    Artifact,
    CosignIdentity,
    CosignKeys,
    Entry,
    Found,
    NotationTrust,
    Signature,
    SignatureFormat,
)
from copyrator.signatures.notation import load_roots

RECORDED = Path(__file__).parent / "signatures" / "recorded"
SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"
LAYERS = {
    "application/vnd.dev.sigstore.bundle.v0.3+json": SignatureFormat.SIGSTORE_BUNDLE,
    "application/jose+json": SignatureFormat.NOTATION,
}


@dataclass(frozen=True)
class Row:
    """One case under one policy."""

    case: Mapping[str, Any]
    policy: str
    verdicts: Mapping[str, Mapping[str, Any]]
    """By the way that the real tool was asked: ``holds``, and ``error`` where it doesn't."""

    @property
    def name(self) -> tuple[str, str]:
        return self.case["name"], self.policy

    @property
    def holds(self) -> bool:
        """Whether a real tool accepts it, asked in one way or another."""
        return any(verdict["holds"] for verdict in self.verdicts.values())


@dataclass(frozen=True)
class Recording:
    """A directory with ``cases.json`` and ``blobs/HEX``."""

    directory: Path
    index: Mapping[str, Any]

    @classmethod
    def load(cls, directory: Path = RECORDED) -> Recording:
        return cls(directory, json.loads((directory / "cases.json").read_text(encoding="utf-8")))

    @property
    def now(self) -> datetime:
        """When the real tools were asked."""
        return datetime.fromisoformat(self.index["now"])

    def rows(self) -> Iterator[Row]:
        for case in self.index["cases"]:
            for policy, verdicts in case["rows"].items():
                yield Row(case, policy, verdicts)

    def is_attestation(self, policy: str) -> bool:
        """Whether the policy asks for an attestation, and not for a signature."""
        return bool(self.index["policies"][policy]["kind"] == "attestation")

    def entry(self, policy: str) -> Entry:
        """The entry that says what the policy says; TrustError where we refuse its keys."""
        wanted = self.index["policies"][policy]
        if wanted["kind"] == "cosign":
            files = {f"{key}.pem": self.index["keys"][key].encode() for key in wanted["keys"]}
            return CosignKeys(policy, read_keys(files))
        if wanted["kind"] == "attestation":
            files = {f"{key}.pem": self.index["keys"][key].encode() for key in wanted["keys"]}
            return CosignKeys("staging", read_keys(files))
        if wanted["kind"] == "keyless":
            root = json.dumps(self.index["roots"][wanted["root"]]).encode()
            return CosignIdentity(policy, wanted["issuer"], wanted["subject_pattern"], root)
        files = {store: self._certificates(wanted[store]) for store in ("ca", "tsa", "authorities")}
        for store, pem in files.items():
            if pem:
                load_roots(store, pem)
        return NotationTrust(
            policy,
            files["ca"],
            tuple(wanted["subjects"]),
            tsa=files["tsa"],
            signing_authorities=files["authorities"],
        )

    def _certificates(self, names: list[str]) -> bytes:
        return "".join(self.index["certificates"][name] for name in names).encode()

    def blob(self, digest: str) -> bytes:
        return (self.directory / "blobs" / digest.removeprefix("sha256:")).read_bytes()

    def found(self, case: Mapping[str, Any]) -> Found:
        """The case's signatures, found as the finder does, but none left out that it leaves out."""
        digest = case["digest"]
        artifact = Artifact(digest, case["manifests"][digest], len(self.blob(digest)))
        signatures = [*self._payloads(case), *self._referrers(case)]
        return Found(artifact, tuple(signatures))

    def _payloads(self, case: Mapping[str, Any]) -> Iterator[Signature]:
        tag = case["digest"].replace(":", "-") + ".sig"
        if tag not in case["tags"]:
            return
        # All layers: of one that isn't a signature it is the verification that has to find out.
        for layer in json.loads(self.blob(case["tags"][tag]))["layers"]:
            blob = self.blob(layer["digest"])
            yield Signature(
                SignatureFormat.COSIGN_PAYLOAD, layer["digest"], blob, layer.get("annotations", {})
            )

    def _referrers(self, case: Mapping[str, Any]) -> Iterator[Signature]:
        tag = case["digest"].replace(":", "-")
        entries = case["referrers"] or []
        if tag in case["tags"]:
            entries = json.loads(self.blob(case["tags"][tag]))["manifests"]
        for entry in entries:
            manifest = json.loads(self.blob(entry["digest"]))
            assert manifest["subject"]["digest"] == case["digest"]
            layer = manifest["layers"][0]
            if layer["mediaType"] in LAYERS:
                yield Signature(
                    LAYERS[layer["mediaType"]],
                    entry["digest"],
                    self.blob(layer["digest"]),
                    manifest.get("annotations", {}),
                )
