"""Takes over Bundles of the original werf operator: its deploy is recorded, without a Job.

The original compared config digests, which for a SemVer tag don't change with the templates. So an
equal digest proves that it deployed this version, not that it deployed this exact content: such a
baseline isn't `verified` (docs/adoption.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, VersionRef
from copyrator.api.times import format_time


def is_inherited(status: BundleStatus) -> bool:
    """Whether the original deployed something that our fields don't record yet."""
    known = bool(status.deploy.version and status.deploy.digest)
    return known and status.deployed == Deployed() and status.attempted == Attempted()


def config_digest(manifest: Mapping[str, Any]) -> str | None:
    """The digest by which the original identified a manifest; an index has none."""
    config = manifest.get("config")
    digest = config.get("digest") if isinstance(config, Mapping) else None
    return digest if isinstance(digest, str) else None


@dataclass(frozen=True, slots=True)
class Baseline:
    """The present state of the tag that the original deployed, in the registry."""

    digest: str | None
    """Manifest digest; None where the tag was deleted or has another manifest."""
    values_hash: str | None
    """Of the present values, as ``spec_hash`` is of the present spec: former ones aren't known."""
    spec_hash: str
    generation: int


def taken_over(
    status: BundleStatus, baseline: Baseline, spec: BundleSpec, now: datetime
) -> BundleStatus:
    """The status with the original's deploy in our fields.

    Without a digest only its version is known: that prevents downgrades, but a deploy is made.
    """
    version = status.deploy.version
    where = Deployed(version=version, namespace=spec.project_namespace, verified=False)
    if baseline.digest is None:
        return replace(status, deployed=where)
    deployed = replace(
        where,
        digest=baseline.digest,
        reference=spec.reference,
        values_hash=baseline.values_hash,
        spec_hash=baseline.spec_hash,
        generation=baseline.generation,
        time=format_time(now),
    )
    found = VersionRef(digest=baseline.digest, version=version)
    return replace(status, deployed=deployed, deploy=found, target=found)
