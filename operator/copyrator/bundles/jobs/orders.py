"""The orders of Jobs of attempts and plans, and what a plan is made of. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from copyrator.api import structs
from copyrator.api.approval import PlanStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted
from copyrator.api.drift import DriftCheck
from copyrator.api.names import BUNDLE_PREFIX, SECRET_KEY_ENV
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.deciding import DesiredDeploy
from copyrator.bundles.gates.gate import PlanTarget
from copyrator.bundles.gates.restrictions import restrict_spec
from copyrator.bundles.identity import hash_of
from copyrator.bundles.jobs.job import DeployOrder, build_deploy_job


def order_of(entry: BundleEntry, spec: BundleSpec, attempted: Attempted) -> DeployOrder:
    """The order for an attempt's Job; its login and values are read when it is created."""
    return _order(
        entry,
        spec,
        version=attempted.version or "",
        digest=attempted.digest or "",
        generation=attempted.generation or 0,
        attempt=attempted.attempt or 0,
        values_hash=attempted.values_hash,
        request=attempted.request or "",
    )


def plan_order(entry: BundleEntry, spec: BundleSpec, version: str, digest: str) -> DeployOrder:
    """The order for a plan's Job: equal for equal deploys, independent of the attempt.

    A plan of a Bundle without gates is a preview.
    """
    spec = restrict_spec(spec, is_preview=True)
    return _order(entry, spec, version=version, digest=digest, generation=0, attempt=0)


def target_of(entry: BundleEntry, spec: BundleSpec, wanted: DesiredDeploy) -> PlanTarget:
    """The input of a plan of this deploy."""
    order = plan_order(entry, spec, wanted.version, wanted.digest)
    return PlanTarget(
        version=wanted.version,
        digest=wanted.digest,
        values_hash=wanted.values_hash,
        spec_hash=wanted.spec_hash,
        job_hash=_job_hash(order),
    )


def is_made_of(plan: PlanStatus | DriftCheck, entry: BundleEntry, spec: BundleSpec) -> bool:
    """Whether a plan was made of the Bundle's present spec, apart from its version and values."""
    order = plan_order(entry, spec, plan.version or "", plan.digest or "")
    return (entry.spec_hash, _job_hash(order)) == (plan.spec_hash, plan.job_hash)


def _job_hash(order: DeployOrder) -> str:
    """The hash of all that a deploy's Job gets, with a keyed hash in place of WERF_SECRET_KEY."""
    spec = order.spec
    if SECRET_KEY_ENV in spec.env:
        spec = structs.replace(spec, env={**spec.env, SECRET_KEY_ENV: spec.secret_key_hash})
    cluster = () if spec.cluster is None else (spec.cluster.fingerprint,)
    return hash_of(build_deploy_job(replace(order, spec=spec)), *cluster)


def _order(entry: BundleEntry, spec: BundleSpec, **parts: Any) -> DeployOrder:
    annotations = {
        key: value for key, value in entry.annotations.items() if not key.startswith(BUNDLE_PREFIX)
    }
    return DeployOrder(
        spec=spec, uid=entry.uid, labels=entry.labels, annotations=annotations, **parts
    )
