"""The input of a Job that plans or deploys a version of a Bundle. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.policy.identity import ValuesFiles, job_name
from copyrator.bundles.policy.jobs.manifest import JobKind
from copyrator.bundles.policy.jobs.seal import SealedValues


class Login(StrEnum):
    """How werf gets the registry's credentials."""

    NONE = "none"
    PASSWORD = "password"  # noqa: S105 - the name of a form
    DOCKER_CONFIG = "docker-config"


@dataclass(frozen=True, slots=True)
class ApprovedOperations:
    """The Secret with the operations that were approved, and its salted hash."""

    secret: str
    seal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOrder:
    """The input of an attempt's or a plan's Job."""

    spec: BundleSpec
    uid: str
    version: str
    digest: str
    """``sha256:…``; exactly this manifest is pulled."""
    generation: int
    attempt: int
    values_hash: str | None = None
    request: str = ""
    login: Login = Login.NONE
    values: tuple[ValuesFiles, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels for the release's objects; likewise ``annotations``."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    sealed: SealedValues | None = None
    """In place of ``values``, for a deploy that was planned."""
    approved: ApprovedOperations | None = None
    """The operations that a planned deploy may do."""
    is_checked: bool = False
    """Whether a deploy without a plan ends where werf has to download dependencies."""
    image: str | None = None
    """werf's image by digest, as the plan's pod ran it; None: as the spec names it."""

    @property
    def job(self) -> str:
        """The Job's name."""
        return job_name(
            self.spec.name,
            JobKind.DEPLOY,
            self.uid,
            self.generation,
            self.digest,
            self.values_hash,
            self.request,
            self.attempt,
        )
