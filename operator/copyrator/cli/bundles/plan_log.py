"""A plan's operations and werf's diff, from the log of the Job that made it.

The status names the Job. Its owner, its pod and its log are checked before anything of them is
shown: whoever may create Jobs or pods in the namespace could make others.

Where the operator may not review permissions, `with_refusals` finds those that are missing: werf
quotes the API server's refusal of each dry run in the plan's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from copyrator.api import names
from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import BundleStatus, parse_status
from copyrator.api.plan_status import MAX_RISKY, PlanOutcome, PlanSummary
from copyrator.bundles.deploy.outcome import is_owned
from copyrator.bundles.deploy.pod import DEPLOY_CONTAINER, JobKind
from copyrator.bundles.deploy.werf_error import NO_ERROR
from copyrator.bundles.plan.operations import (
    MAX_TEXT,
    BlockFault,
    Operation,
    OperationType,
    Plan,
    block_lines,
    counts,
    effects,
    plan_id,
    read_block,
)
from copyrator.bundles.plan.rights import ServiceAccount, list_missing, read_refused
from copyrator.bundles.plan.script import NONCE_AT
from copyrator.cli.core.objects import listed
from copyrator.cli.core.output import said
from copyrator.kube import errors
from copyrator.kube.resources import JOBS, PODS
from copyrator.kube.watch.store import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


DIFF_BYTES: Final = 1 << 20
"""Bytes of a diff that are shown."""
_LINE_BYTES: Final = 1024
"""More than the last line of a block has."""
_NO_ERRORS: Final = re.compile(
    f"^(?:{'|'.join(map(re.escape, NO_ERROR))})\r?(?:\n|\\Z)", re.MULTILINE
)

Body = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlanLog:
    """What could be read."""

    operations: tuple[Operation, ...] | None = None
    diff: str | None = None
    cut: bool = False
    """Whether the diff has only its first ``DIFF_BYTES``."""
    fault: str = ""
    """Why operations and diff are missing; empty where they aren't."""


class _UnreadableError(Exception):
    """The log has no plan that may be shown; the message says why."""


async def read_plan_log(client: KubeClient, body: Body, plan: PlanSummary) -> PlanLog:
    """Read the log of a plan's Job; a fault, such as a missing permission, is part of the result.

    Args:
        client: the user's.
        body: the Bundle.
        plan: of its status, with the outcome Planned.
    """
    namespace = release_namespace(body)
    expected = _Expected(plan.job, (JobKind.PLAN,), lambda found: agreed(found, plan, namespace))
    return await _read_log(client, body, expected)


async def read_drift_log(client: KubeClient, body: Body) -> PlanLog:
    """The same of the check that found drift: its plan of what is deployed.

    Args:
        client: the user's.
        body: the Bundle, with the verdict Drifted in its status.
    """
    status, namespace = parse_status(body), release_namespace(body)
    expected = _Expected(
        status.drift.found_job,
        (JobKind.DRIFT, JobKind.PLAN),  # a plan of exactly what is deployed counts as a check
        lambda found: agreed_drift(found, status, namespace),
    )
    return await _read_log(client, body, expected)


@dataclass(frozen=True, slots=True)
class _Expected:
    """What a status says of the plan that is to be read."""

    job: str | None
    kinds: Sequence[JobKind]
    agree: Callable[[Plan], tuple[Operation, ...] | None]
    """Its operations; None where the plan is another one."""


async def _read_log(client: KubeClient, body: Body, expected: _Expected) -> PlanLog:
    try:
        return await _read(client, body, expected)
    except _UnreadableError as error:
        return PlanLog(fault=str(error))
    except errors.NotFound:
        return PlanLog(fault=f"the Job {said(expected.job)} or its pod was deleted")
    except errors.Forbidden as error:
        return PlanLog(fault=f"{error.message}; ask an administrator for this permission")
    except errors.ApiError as error:
        return PlanLog(fault=error.message)


async def _read(client: KubeClient, body: Body, expected: _Expected) -> PlanLog:
    if not expected.job:
        raise _UnreadableError("the status names no Job")
    namespace, name = name_of(body).namespace, expected.job
    job = await client.get(JOBS, namespace, name)
    nonce = nonce_of(job, body, expected.kinds)
    pod = ended_pod(await _pods(client, job), job)
    last = await client.read_log(
        namespace, pod, DEPLOY_CONTAINER, tail_lines=1, limit_bytes=_LINE_BYTES
    )
    lines = block_lines(last, nonce)
    if isinstance(lines, BlockFault):
        raise _fault(lines, name)
    block = await client.read_log(
        namespace, pod, DEPLOY_CONTAINER, tail_lines=lines, limit_bytes=MAX_TEXT
    )
    found = read_block(block, nonce)
    if isinstance(found, BlockFault):
        raise _fault(found, name)
    operations = expected.agree(found)
    if operations is None:
        raise _UnreadableError(f"the log of the Job {said(name)} has another plan")
    log = await client.read_log(namespace, pod, DEPLOY_CONTAINER, limit_bytes=DIFF_BYTES)
    diff = remove_no_errors(log.removesuffix(block)).strip("\n")
    return PlanLog(operations, diff, cut=not log.endswith(block))


def remove_no_errors(log: str) -> str:
    """The log of a plan without the last line of werf's that reads as an error and is none."""
    return _NO_ERRORS.sub("", log)


async def _pods(client: KubeClient, job: Body) -> list[dict[str, Any]]:
    namespace, name = name_of(job)
    selector = f"batch.kubernetes.io/job-name={name}"
    return await listed(client, PODS, namespace, selector=selector)


def _fault(fault: BlockFault, job: str) -> _UnreadableError:
    return _UnreadableError(f"the Job {said(job)}: {fault.message}")


def nonce_of(job: Body, bundle: Body, kinds: Sequence[JobKind] = (JobKind.PLAN,)) -> str:
    """The nonce of a Bundle's plan Job of one of these kinds.

    Raises:
        _UnreadableError: the Job isn't one that plans this Bundle.
    """
    metadata, owner = job["metadata"], bundle["metadata"]
    labels = metadata.get("labels") or {}
    is_ours = is_owned(job, owner["uid"]) and labels.get(names.LABEL_BUNDLE) == owner["name"]
    if not (is_ours and labels.get(names.LABEL_JOB_KIND) in kinds):
        raise _UnreadableError(
            f"the Job {said(metadata['name'])} isn't a plan Job of this Bundle, by its owner or "
            "labels"
        )
    for container in job["spec"]["template"]["spec"]["containers"]:
        command: Sequence[Any] = container.get("command") or ()
        if container["name"] == DEPLOY_CONTAINER and len(command) > NONCE_AT:
            return str(command[NONCE_AT])
    raise _UnreadableError(f"the Job {said(metadata['name'])} has no container that plans")


def ended_pod(pods: Iterable[Body], job: Body) -> str:
    """The name of the Job's pod that planned successfully.

    Raises:
        _UnreadableError: there is none.
    """
    mine = [pod for pod in pods if is_owned(pod, job["metadata"]["uid"])]
    for pod in mine:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (status.get("state") or {}).get("terminated") or {}
            if status.get("name") == DEPLOY_CONTAINER and ended.get("exitCode") == 0:
                return name_of(pod).name
    shown = said(name_of(job).name)
    if mine:
        raise _UnreadableError(f"the pod of the Job {shown} hasn't ended with exit code 0")
    raise _UnreadableError(f"the pod of the Job {shown} was deleted")


def release_namespace(body: Body) -> str:
    """The namespace that the Bundle's release is in."""
    spec = parse_bundle(body, BundleDefaults())
    if isinstance(spec, BundleSpec):
        return spec.project_namespace
    return name_of(body).namespace


def agreed(found: Plan, plan: PlanSummary, namespace: str) -> tuple[Operation, ...] | None:
    """The operations, if they are those that the status counts and names; else None.

    The status has one more where the release's namespace is missing: werf creates it unplanned.
    """
    wanted = {type_: getattr(plan.counts, type_) or 0 for type_ in OperationType}
    for missing in (None, namespace):
        if missing and not _may_name(plan, f"create ::Namespace:{missing}"):
            continue
        operations = effects(found, missing)
        counted = counts(operations)
        if (
            found.revision == plan.revision
            and wanted == {type_: counted.get(type_, 0) for type_ in OperationType}
            and set(map(str, operations)).issuperset(plan.risky)
        ):
            return operations
    return None


def agreed_drift(found: Plan, status: BundleStatus, namespace: str) -> tuple[Operation, ...] | None:
    """The operations, if the drifted objects of the status are among them; else None.

    Those of the newest check also have to have its ID.
    """
    check, drift = status.drift.check, status.drift
    is_newest = check.job == drift.found_job and check.id is not None
    for missing in (None, namespace):
        operations = effects(found, missing)
        is_same = not is_newest or check.id == plan_id(
            digest=check.digest or "",
            values_hash=check.values_hash,
            job={"hash": check.job_hash},
            revision=found.revision,
            operations=operations,
            render=found.render,
        )
        if is_same and set(map(str, operations)).issuperset(drift.objects):
            return operations
    return None


def _may_name(plan: PlanSummary, operation: str) -> bool:
    """Whether the status names a risky operation, or has more of them than it names."""
    return operation in plan.risky or len(plan.risky) >= MAX_RISKY


_REFUSED: Final = "is forbidden: User "
_CHANGES: Final = ("+", "-")
"""How lines of an object's content begin."""


async def with_refusals(client: KubeClient, body: Body) -> Body:
    """A Bundle whose status has what its plan's blind applies name, where nothing was reviewed.

    Where the log can't be read, the Bundle as it is.
    """
    if not _is_asked(parse_status(body)):
        return body
    return with_refusals_of(body, (await read_plan_log(client, body, parse_status(body).plan)).diff)


def with_refusals_of(body: Body, diff: str | None) -> Body:
    """The same, by the diff of its plan."""
    spec, status = parse_bundle(body, BundleDefaults()), parse_status(body)
    if not diff or not isinstance(spec, BundleSpec) or not _is_asked(status):
        return body
    missing = list_missing(read_refused(_words(diff), ServiceAccount.of(spec)))
    plan = {**body["status"]["plan"], "missing": [one.to_dict() for one in missing]}
    return {**body, "status": {**body["status"], "plan": plan}}


def _is_asked(status: BundleStatus) -> bool:
    plan = status.plan
    return (
        plan.outcome == PlanOutcome.PLANNED
        and plan.missing_permissions is None
        and bool(plan.counts.apply)
    )


def _words(diff: str) -> str:
    """The refusals in a plan's text, each once; no object's content."""
    lines = (line.strip() for line in diff.splitlines() if _REFUSED in line)
    found = (line[line.index(_REFUSED) :] for line in lines if not line.startswith(_CHANGES))
    return "\n".join(dict.fromkeys(found))
