"""What keeps a Job from starting: its pods, the objects they mount, a missing service account.

A pod that waits for a ConfigMap or Secret to mount doesn't report it, nor does a Job whose pod is
refused: both only emit Events, which the operator may not list. So the objects are requested.
"""

from __future__ import annotations

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.client import JobClient
from copyrator.bundles.jobs.job import ADDED_VOLUME, login_secret
from copyrator.bundles.jobs.outcome import (
    Blocked,
    JobRecord,
    find_blocked_pod,
    has_started,
    mounts_of,
)
from copyrator.bundles.pod import VALUES_VOLUME
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import CONFIGMAPS, SECRETS, SERVICEACCOUNTS


async def find_blocked(
    client: KubeClient, jobs: JobClient, job: JobRecord, spec: BundleSpec
) -> Blocked | None:
    """Why a Job that hasn't ended makes no progress; None where it does or the cause is unknown."""
    pods = await jobs.output.pods(job)
    jobs.record_pods(job, pods)
    if blocked := find_blocked_pod(pods):
        return blocked
    if has_started(pods):
        return None
    if not pods:
        return await _find_pod_fault(client, job, spec)
    for mount in mounts_of(pods):
        resource = SECRETS if mount.secret else CONFIGMAPS
        try:
            await client.get(resource, job.namespace, mount.name)
        except NotFound:
            if mount.volume == ADDED_VOLUME or mount.name.startswith(f"{job.name}-"):
                is_login = mount.name == login_secret(job.name)
                what = "the registry's credentials" if is_login else "what was planned"
                text = f"Secret {job.namespace}/{mount.name} with {what} was deleted"
                return Blocked(BundleReason.PLAN_CHANGED, text)
            is_values = mount.volume.startswith(VALUES_VOLUME)
            return Blocked(
                BundleReason.VALUES_MISSING if is_values else BundleReason.AUTHENTICATION_FAILED,
                f"{resource.kind} {job.namespace}/{mount.name}, which its pod mounts, doesn't "
                "exist; create it, or remove it from the spec",
            )
    return None


async def _find_pod_fault(client: KubeClient, job: JobRecord, spec: BundleSpec) -> Blocked:
    if text := await missing_account(client, spec):
        return Blocked(BundleReason.SERVICE_ACCOUNT_MISSING, text)
    return Blocked(
        BundleReason.JOB_UNSCHEDULABLE,
        "it has no pod; its Events may name the cause, such as a quota or policy: "
        f"kubectl -n {job.namespace} describe job {job.name}",
    )


async def missing_account(client: KubeClient, spec: BundleSpec) -> str | None:
    """The message for the status where the service account of the Jobs doesn't exist, else None.

    Raises:
        ApiError: it can't be read.
    """
    try:
        await client.get(SERVICEACCOUNTS, spec.namespace, spec.service_account)
    except NotFound:
        return (
            f"ServiceAccount {spec.namespace}/{spec.service_account}, which werf runs as, "
            "doesn't exist; create it and grant it the permissions that the bundle needs"
        )
    return None
