"""Jobs that plan, and what a planned deploy's Job has beside another's. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted
from copyrator.api.object_refs import ValuesKind
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.jobs import pod
from copyrator.bundles.jobs.identity import ValuesFiles
from copyrator.bundles.jobs.job import (
    ADDED_VOLUME,
    DeployOrder,
    job_hash,
    order_of,
    owned_job,
    werf_env,
)
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER, JobKind
from copyrator.bundles.jobs.restrictions import restrict_spec
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.jobs.script import SALT, SECRET_KEY, SealedFile
from copyrator.bundles.plans.record import HeldPlan
from copyrator.bundles.plans.script import StoredComparison, deploy_command, plan_command

PLAN_DEADLINE: Final = 600
"""Seconds that a plan may take, from the creation of its Job."""


_SALT_DIR: Final = "/run/copyrator/seal"
_ADDED_DIR: Final = "/run/copyrator/approved"
_COPIES: Final = "/tmp"  # noqa: S108 - an emptyDir of the pod's own
OPERATIONS: Final = "operations"
"""The key of the text of a plan."""
RENDER_SALT: Final = "render"
"""Key of the Bundle's salt, in the Secret with the salt of a Job's values."""


def salt_secret(job: str) -> str:
    """Name of the Secret with the salt of a Job's values."""
    return f"{job}-salt"


def values_secret(job: str, number: int) -> str:
    """Name of the Secret with the copy of a values source."""
    return f"{job}-values-{number:03}"


@dataclass(frozen=True, slots=True)
class SealedValues:
    """The copies of a Bundle's values for one Job, which checks them by salted hashes.

    Replacing a Secret only makes the Job end with PlanChanged.
    """

    job: str
    sources: int
    """How many Secrets with copies there are."""
    files: tuple[SealedFile, ...] = ()
    """Values files, in the order in which werf reads them, then the copy of ``spec.secretKey``."""
    render_salt: SealedFile | None = None
    """The Bundle's salt of the hash of renders, for Jobs that compare renders."""
    origins: tuple[str, ...] = ()
    """What the copies are of (``names.ANN_VALUES``)."""

    def add_to(self, order: DeployOrder) -> DeployOrder:
        """The order of a Job that gets them in place of the values."""
        copies = (values_secret(self.job, number) for number in range(self.sources))
        values = tuple(ValuesFiles(ValuesKind.SECRET, name, ()) for name in copies)
        has_salt = self.sources or self.render_salt
        secrets = {"seal": (salt_secret(self.job), _SALT_DIR)} if has_salt else {}
        marks = {**order.marks, names.ANN_VALUES: " ".join(self.origins)}
        return replace(
            order,
            values=values,
            sealed=self.files,
            secrets=secrets,
            marks=marks if self.origins else order.marks,
        )

    @property
    def salt(self) -> SealedFile:
        """The salt of renders."""
        assert self.render_salt is not None, "Jobs that compare renders have the Bundle's salt"
        return self.render_salt


def sealed_value(source: int, number: int, key: str, seal: str) -> SealedFile:
    """A values file of a Job: the ``number``-th of all, from the source of this number."""
    directory = f"{pod.VALUES_DIR}/{source:03}"
    return SealedFile(
        f"{directory}/{key}", f"{_SALT_DIR}/{SALT}", f"{_COPIES}/values-{number:04}", seal
    )


def sealed_secret_key(source: int, key: str, seal: str) -> SealedFile:
    """The copy of ``spec.secretKey`` in the Secret of this number."""
    return replace(sealed_value(source, 0, key, seal), copy=f"{_COPIES}/{SECRET_KEY}")


def sealed_render_salt(seal: str) -> SealedFile:
    """The file with the Bundle's salt of the hash of renders."""
    return SealedFile(
        f"{_SALT_DIR}/{RENDER_SALT}", f"{_SALT_DIR}/{SALT}", f"{_COPIES}/render-salt", seal
    )


def approved_operations(seal: str) -> SealedFile:
    """The file with the operations that were approved."""
    path, salt = f"{_ADDED_DIR}/{OPERATIONS}", f"{_ADDED_DIR}/{SALT}"
    return SealedFile(path, salt, f"{_COPIES}/approved", seal)


def plan_order(entry: BundleEntry, spec: BundleSpec, version: str, digest: str) -> DeployOrder:
    """The order for a plan's Job: equal for equal deploys, independent of the attempt.

    A plan of a Bundle without gates is a preview.
    """
    spec = restrict_spec(spec, signed=True)
    return order_of(
        spec, Attempted(version=version, digest=digest), entry.uid, entry.labels, entry.annotations
    )


def build_plan_job(
    order: DeployOrder,
    values: SealedValues,
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
    order, account = values.add_to(order), _account(order)
    command = plan_command(
        nonce, values.salt, order.checked_files, account=account, renders=renders
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


def planned_order(order: DeployOrder, values: SealedValues, proof: Proof) -> DeployOrder:
    """The order of a deploy that goes on only if it does what was planned."""
    comparison = None
    if proof.nonce is not None:
        back = proof.deployed_revision if order.flags else None
        comparison = StoredComparison(proof.nonce, back)

    def command(order: DeployOrder) -> tuple[str, ...]:
        return deploy_command(
            approved_operations(proof.seal),
            values.salt,
            order.checked_files,
            order.flags,
            account=_account(order),
            guard=proof.guard,
            comparison=comparison,
        )

    order = values.add_to(order)
    secrets = {**order.secrets, ADDED_VOLUME: (proof.secret, _ADDED_DIR)}
    return replace(order, command=command, secrets=secrets)


def _account(order: DeployOrder) -> ServiceAccount | None:
    """The Job's service account; None in another cluster, where it isn't known."""
    return ServiceAccount.of(order.spec) if order.kubeconfig is None else None


def planned_job_hash(entry: BundleEntry, spec: BundleSpec, version: str, digest: str) -> str:
    """The hash of all that a deploy's Job gets, but the values."""
    return job_hash(plan_order(entry, spec, version, digest))


def is_made_of(plan: HeldPlan, entry: BundleEntry, spec: BundleSpec) -> bool:
    """Whether a plan was made of the Bundle's present spec, apart from its version and values."""
    found = planned_job_hash(entry, spec, plan.version or "", plan.digest or "")
    return (entry.spec_hash, found) == (plan.spec_hash, plan.job_hash)
