"""A case (an artifact and its signatures in a repository) and the policies it is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localcluster.bundle import CONFIG_TYPE, LAYER_TYPE, MANIFEST_TYPE, descriptor
from localcluster.repository import Repository, Stored
from signatures.tools import Tools

LAYER = b"not read here"
"""That of all artifacts."""


@dataclass(frozen=True, slots=True)
class CosignPolicy:
    """One of these keys, by their names in ``Workshop.keys``."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttestationPolicy:
    """That one of these keys attests that it is deployed."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotationPolicy:
    """A certificate of one of these CAs (names in ``Workshop.certificates``) and its subject."""

    ca: tuple[str, ...]
    subjects: tuple[str, ...] = ("*",)
    tsa: tuple[str, ...] = ()
    authorities: tuple[str, ...] = ()
    """CAs of signing authorities: whose signing time is believed."""


@dataclass(frozen=True, slots=True)
class KeylessPolicy:
    """A certificate of a trusted root (its name in ``Workshop.roots``), by issuer and subject."""

    root: str
    issuer: str
    subject_pattern: str
    """Has to match the whole subject."""


Policy = CosignPolicy | AttestationPolicy | NotationPolicy | KeylessPolicy


@dataclass(frozen=True, slots=True)
class Case:
    """An artifact whose signatures are recorded."""

    name: str
    text: str
    """What was done, in one sentence."""
    repository: Repository
    artifact: Stored
    policies: tuple[str, ...]
    """Names in ``Workshop.policies``: a row of the table each."""


@dataclass(slots=True)
class Workshop:
    """Where cases are made: the tools, the registries, and the public halves of all keys."""

    tools: Tools
    hosts: Mapping[str, str]
    keys: dict[str, str] = field(default_factory=dict)
    """Public keys, PEM."""
    certificates: dict[str, str] = field(default_factory=dict)
    """Of roots, PEM."""
    roots: dict[str, Any] = field(default_factory=dict)
    """Trusted roots of keyless signatures."""
    policies: dict[str, Policy] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        """Where the private keys are while this runs."""
        return self.tools.directory

    def config(self, case: str, number: int) -> bytes:
        """The configuration of an artifact, which makes its digest its own."""
        return f'{{"apiVersion":"v2","name":"{case}","version":"1.0.{number}"}}'.encode()

    def artifact(self, case: str, registry: str, number: int = 0) -> tuple[Repository, Stored]:
        """Push a small bundle to the repository of a case; another number is another digest."""
        repository = Repository(
            self.hosts[registry], f"cases/{case}", has_referrers=registry == "referrers"
        )
        config = self.config(case, number)
        for blob in (config, LAYER):
            repository.upload(blob)
        body = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor(CONFIG_TYPE, config),
            "layers": [descriptor(LAYER_TYPE, LAYER)],
        }
        return repository, repository.put(body, f"1.0.{number}")

    def add(
        self,
        name: str,
        text: str,
        repository: Repository,
        artifact: Stored,
        policies: Sequence[str],
    ) -> None:
        """Add a case to the table."""
        self.cases.append(Case(name, text, repository, artifact, tuple(policies)))
