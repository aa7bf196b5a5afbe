"""Jobs that plan, and what a planned deploy's Job has beside another's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.deciding import order_of
from copyrator.bundles.engine.restrictions import restrict_spec
from copyrator.bundles.features.approval.script import (
    StoredComparison,
    deploy_command,
    plan_command,
)
from copyrator.bundles.features.approval.secrets import approved_operations
from copyrator.bundles.jobs import pod
from copyrator.bundles.jobs.job import DeployOrder, job_hash, owned_job, werf_env
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER, JobKind
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.script import SealedFile

PLAN_DEADLINE: Final = 600
"""Seconds that a plan may take, from the creation of its Job."""


def plan_order(entry: BundleEntry, spec: BundleSpec, version: str, digest: str) -> DeployOrder:
    """The order for a plan's Job: equal for equal deploys, independent of the attempt.

    A plan of a Bundle without gates is a preview.
    """
    spec = restrict_spec(spec, is_preview=True)
    return order_of(entry, spec, Attempted(version=version, digest=digest))


def build_plan_job(
    order: DeployOrder,
    name: str,
    nonce: str,
    kind: JobKind = JobKind.PLAN,
    *,
    renders: int = 2,
    is_owned: bool = True,
) -> dict[str, Any]:
    """The Job that plans a deploy: the same pod, with werf's plan in place of its apply.

    Its log has contents, so no part of it becomes the container's message. It has no TTL, as the
    plan may wait for a decision for any time.

    ``is_owned``: not of a Bundle that is being deleted, as a foreground deletion would delete it.
    """
    command = plan_command(
        nonce, _render_salt(order), order.checked_files, account=_account(order), renders=renders
    )
    env = pod.variables(werf_env(order))
    main = pod.container(order.spec, DEPLOY_CONTAINER, command, env)
    main["terminationMessagePolicy"] = "File"
    job = owned_job(order, kind, name, main)
    job["metadata"]["annotations"][names.ANN_DIGEST] = order.digest
    job["spec"]["activeDeadlineSeconds"] = PLAN_DEADLINE
    del job["spec"]["ttlSecondsAfterFinished"]
    if not is_owned:
        del job["metadata"]["ownerReferences"]
        job["spec"]["ttlSecondsAfterFinished"] = pod.LONG_TTL
    return job


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a planned deploy is compared with before it applies anything, and afterwards."""

    secret: str
    """Has the operations that it may do."""
    seal: str
    """Their salted hash."""
    guard: str | None = None
    """The policy that holds the Job to its list; None: it has no list."""
    nonce: str | None = None
    """Of a deploy whose stored contents are compared with what was approved; None: they aren't."""
    deployed_revision: int | None = None
    """What is rolled back to where they differ."""


def planned_order(order: DeployOrder, proof: Proof) -> DeployOrder:
    """The order of a deploy that goes on only if it does what was planned."""
    comparison = None
    if proof.nonce is not None:
        back = proof.deployed_revision if order.flags else None
        comparison = StoredComparison(proof.nonce, back)
    command = deploy_command(
        approved_operations(proof.seal),
        _render_salt(order),
        order.checked_files,
        order.flags,
        account=_account(order),
        guard=proof.guard,
        comparison=comparison,
    )
    return replace(order, command=command, secret=proof.secret)


def _account(order: DeployOrder) -> ServiceAccount | None:
    """The Job's service account; None in another cluster, where it isn't known."""
    return ServiceAccount.of(order.spec) if order.kubeconfig is None else None


def _render_salt(order: DeployOrder) -> SealedFile:
    salt = order.sealed.render_salt if order.sealed is not None else None
    assert salt is not None, "Jobs that compare renders have copies of values and the Bundle's salt"
    return salt


def planned_job_hash(entry: BundleEntry, spec: BundleSpec, version: str, digest: str) -> str:
    """The hash of all that a deploy's Job gets, but the values."""
    return job_hash(plan_order(entry, spec, version, digest))


class HeldPlan(Protocol):
    """The record of a plan that a deploy is held to."""

    @property
    def job(self) -> str | None:
        """Name of the Job that made it."""
        ...

    @property
    def version(self) -> str | None:
        """Tag."""
        ...

    @property
    def digest(self) -> str | None:
        """Manifest digest."""
        ...

    @property
    def spec_hash(self) -> str | None:
        """Hash of the spec's fields that affect the release."""
        ...

    @property
    def job_hash(self) -> str | None:
        """Hash of everything else that the deploy's Job gets."""
        ...

    @property
    def seal(self) -> str | None:
        """Hash of the Secret with the operations."""
        ...

    @property
    def operations(self) -> int | None:
        """How many objects it changes."""
        ...

    @property
    def image(self) -> str | None:
        """The image of werf by digest, as its pod ran it."""
        ...


def is_made_of(plan: HeldPlan, entry: BundleEntry, spec: BundleSpec) -> bool:
    """Whether a plan was made of the Bundle's present spec, apart from its version and values."""
    found = planned_job_hash(entry, spec, plan.version or "", plan.digest or "")
    return (entry.spec_hash, found) == (plan.spec_hash, plan.job_hash)
