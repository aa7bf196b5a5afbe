"""The outcome of a Job: werf's result, or a failure of the infrastructure; and why none comes.

A digest fails only by werf's own result. Everything else (eviction, image pull, scheduling, the
registry, the API server, a kill) isn't the bundle's fault and never counts against it.

werf's report is the termination message, which the kubelet truncates at 4,096 bytes; where werf
failed before it wrote one, the message is the end of the log. So all functions accept partial texts
(docs/facts/werf.md, "Result channel").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_status import MissingPermission, Outcome
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import read_json
from copyrator.api.text import count, parse_time
from copyrator.bundles.jobs.pod import (
    DEPLOY_CONTAINER,
    LOGIN_CONTAINER,
    VALUES_DIR,
    VALUES_VOLUME,
    JobKind,
)
from copyrator.bundles.jobs.rights import ServiceAccount, list_missing, read_refused, sentence
from copyrator.bundles.jobs.script import CheckExit
from copyrator.bundles.jobs.werf_error import (
    ERROR,
    MAX_CAUSE,
    PULLING,
    describe_error,
    find_error,
    first_cause,
    lacks_access,
    refuses_login,
    strip_colours,
)

BUNDLE_TERMINATION_MESSAGE: Final = 4096
"""Characters of a container's termination message, the kubelet's own limit."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a running Job makes no progress."""

    reason: BundleReason
    message: str


def find_blocked_pod(pods: Sequence[Mapping[str, Any]]) -> Blocked | None:
    """Why the newest pod of an unfinished Job doesn't start; None where it does."""
    if not pods:
        return None
    status = pods[-1].get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = condition.get("message") or condition.get("reason") or "no node is suitable"
            return Blocked(BundleReason.JOB_UNSCHEDULABLE, f"the pod can't be scheduled: {text}")
    if (other := _unready_init(pods[-1])) is not None:
        text = f"the pod waits for its init container {other}, which isn't the operator's"
        return Blocked(BundleReason.JOB_UNSCHEDULABLE, text)
    for container in _statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, text = waiting.get("reason") or "", waiting.get("message") or ""
        if reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName"):
            return Blocked(
                BundleReason.IMAGE_PULL_FAILED,
                f"the image {container.get('image')} can't be pulled: {text or reason}",
            )
        if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
            return Blocked(
                BundleReason.JOB_UNSCHEDULABLE, f"a container can't start: {text or reason}"
            )
    return None


def _unready_init(pod: Mapping[str, Any]) -> str | None:
    """The injected init container that runs and that ours wait for; None where none does."""
    status = pod.get("status") or {}
    specs = (pod.get("spec") or {}).get("initContainers") or ()
    stays = {one["name"] for one in specs if one.get("restartPolicy") == "Always"}
    for container in status.get("initContainerStatuses") or ():
        name, state = container.get("name"), container.get("state") or {}
        is_there = name in stays and container.get("started")
        if name != LOGIN_CONTAINER and "running" in state and not is_there:
            return str(name)
    return None


def has_started(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a container of the newest pod runs or has run: then its volumes exist."""
    return any(map(_has_run, _statuses((pods[-1].get("status") or {}) if pods else {})))


def has_begun(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the operator's containers does: those of others may run before them."""
    statuses = _statuses((pods[-1].get("status") or {}) if pods else {})
    return any(one.get("name") in _OURS and _has_run(one) for one in statuses)


def _has_run(container: Mapping[str, Any]) -> bool:
    state = container.get("state") or {}
    return "running" in state or "terminated" in state


@dataclass(frozen=True, slots=True)
class Mount:
    """A ConfigMap or Secret that a pod can't start without."""

    volume: str
    name: str
    secret: bool


def mounts_of(pods: Sequence[Mapping[str, Any]]) -> list[Mount]:
    """The ConfigMaps and Secrets that the newest pod mounts; projected volumes are left out."""
    spec = (pods[-1].get("spec") or {}) if pods else {}
    found = []
    for volume in spec.get("volumes") or ():
        if "configMap" in volume:
            found.append(Mount(volume["name"], volume["configMap"]["name"], secret=False))
        elif "secret" in volume:
            found.append(Mount(volume["name"], volume["secret"]["secretName"], secret=True))
    return found


def secrets_of(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the Secrets that the newest pod mounts or has as variables."""
    spec = (pods[-1].get("spec") or {}) if pods else {}
    names = [mount.name for mount in mounts_of(pods) if mount.secret]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference:
                names.append(reference["name"])
    return sorted(set(names))


_FILE: Final = re.compile(r"/[-._A-Za-z0-9/]{1,400}")
_VALUES_FILE: Final = re.compile(rf"{VALUES_DIR}/([0-9]{{3}})/([^/]{{1,253}})")


def name_values(text: str, job: JobRecord, pods: Sequence[Mapping[str, Any]]) -> str:
    """A text of werf's with the keys of values in place of the files in the newest pod."""
    spec = (pods[-1].get("spec") or {}) if pods else {}
    words = [word for one in spec.get("containers") or () for word in one.get("command") or ()]
    files = dict(zip(words[2:], words, strict=False))  # the arguments of ``unseal``: of a copy
    mounts = (one for one in mounts_of(pods) if one.volume.startswith(VALUES_VOLUME))
    origins = (job.mark(names.ANN_VALUES) or "").split() or [
        f"{'Secret' if one.secret else 'ConfigMap'}/{one.name}" for one in mounts
    ]

    def name(found: re.Match[str]) -> str:
        match = _VALUES_FILE.fullmatch
        file = match(found[0]) or match(files.get(found[0], ""))
        if file is None or int(file[1]) >= len(origins):
            return found[0]
        kind, _, origin = origins[int(file[1])][:300].partition("/")
        return f"{kind} {job.namespace}/{origin}, key {file[2]}"

    return _FILE.sub(name, text)


def _statuses(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


_OURS: Final = (DEPLOY_CONTAINER, LOGIN_CONTAINER)
_DIGEST_LINE: Final = re.compile(
    r"^[^\w\n]*digest:[ \t]+(?:sha256:)?([0-9a-f]{64})[ \t\r]*$", re.MULTILINE
)
"""No part of it matches across lines, so time grows linearly with the text's length."""
_FIELD: Final = r'"{}"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)'
_SHOWN_OPERATIONS: Final = 5
_NO_REVISION: Final = 2**63
"""The API server accepts no such number in a status."""


@dataclass(frozen=True, slots=True)
class DeployReport:
    """werf's report of a deploy. ``status`` is ``deployed``, ``skipped`` or ``failed``."""

    status: str
    revision: int | None = None
    completed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the bundle was deployed (also with "non-critical errors", exit code 1)."""
        return self.status in ("deployed", "skipped", "succeeded")

    def describe(self) -> str:
        """One sentence for a condition."""
        if self.succeeded:
            done = (
                count(len(self.completed), "operation") if self.completed else ("nothing to change")
            )
            return f"revision {self.revision}, {done}" if self.revision else done
        if not self.failed:
            return "werf reports that the release failed"
        named = ", ".join(self.failed[:_SHOWN_OPERATIONS])
        more = len(self.failed) - _SHOWN_OPERATIONS
        return named + (f" and {more} more failed" if more > 0 else " failed")


def parse_report(message: str | None) -> DeployReport | None:
    """Parse a termination message; None where it has no report."""
    text = (message or "")[:BUNDLE_TERMINATION_MESSAGE].strip()
    if not text.startswith("{"):
        return None
    try:
        return _from_map(read_json(text))
    except ValueError:
        return _from_fragment(text)


def _from_map(found: Any) -> DeployReport | None:
    if not isinstance(found, dict) or not isinstance(found.get("status"), str):
        return None
    status, revision = found["status"], found.get("revision")
    # of a skipped deploy it is the number of the revision that it would have stored
    stored = revision - (status == "skipped") if type(revision) is int else 0
    return DeployReport(
        status=status,
        revision=stored if 0 < stored < _NO_REVISION else None,
        completed=_texts(found.get("completedOperations")),
        failed=_texts(found.get("failedOperations")),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, Sequence) else ()


def _from_fragment(text: str) -> DeployReport | None:
    """A truncated report: its short fields come first."""
    found: dict[str, Any] = {}
    for name in ("status", "revision"):
        if match := re.search(_FIELD.format(name), text):
            with suppress(ValueError):  # not JSON: a line break in it, or 5,000 digits
                found[name] = read_json(match[1])
    return _from_map(found)


def printed_digests(log: str) -> tuple[str, ...]:
    """The manifest digests that werf pulled by its log, ``sha256:…``, in order."""
    return tuple(f"sha256:{found}" for found in _DIGEST_LINE.findall(strip_colours(log)))


_REGISTRY_TROUBLE: Final = re.compile(
    r"dial tcp|connection (?:refused|reset)|i/o timeout|no such host|TLS handshake|x509:"
    r"|unexpected EOF|context deadline exceeded|(?:status|code)[^\n]{0,20}\b(?:429|50[0234])\b"
    r"|too many requests|bad gateway|service unavailable|gateway timeout",
    re.IGNORECASE,
)
_CLUSTER_TROUBLE: Final = re.compile(
    r"kubernetes cluster unreachable|the server is currently unable|etcdserver:"
    r"|connection to the server|failed calling webhook",
    re.IGNORECASE,
)
_TOO_LONG: Final = "the Job exceeded the Bundle's timeout and was terminated"
KILLED: Final = 128
"""Exit codes from this on are of a container that was killed: this and the signal."""
_ERROR: Final = 4096
"""Characters of werf's error that are searched for missing permissions."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The fields of a Job that decisions need; about 1 KB, so that all Jobs fit in memory."""

    namespace: str
    name: str
    uid: str
    bundle: str
    bundle_uid: str
    kind: JobKind
    attempt: int
    created: datetime | None
    finished: datetime | None
    complete: bool = False
    failed: str | None = None
    """The reason of the Failed condition; None while it hasn't failed."""
    message: str = ""
    ttl: int | None = None
    deleting: bool = False
    suspended: bool = False
    """Whether a queue, such as Kueue, or a person lets it wait: it has no pods meanwhile."""
    began: datetime | None = None
    """When it was started, or resumed last; the time of its deadline runs from here."""
    deadline: int | None = None
    """Seconds after which the Job controller ends it."""
    started: bool = False
    """A pod of it is ready, or was seen to have started."""
    given_up: bool = False
    """The operator ended it before it had started: the spec had changed, or it was ``unsealed`` or
    ``frozen``.
    """
    unsealed: bool = False
    """A Secret that was made for it had been deleted."""
    frozen: bool = False
    """Deploys were frozen before its pod had started."""
    generation: int = 0
    """The Bundle's generation, of an uninstall Job; else 0."""
    resource_version: str = ""
    server: str = ""
    """The API server of spec.kubeConfig that it was made for; empty: the operator's own."""
    marks: tuple[tuple[str, str], ...] = ()
    """The annotations that features have added (``names.JOB_MARKS``)."""
    ended: datetime | None = None
    """When the operator's containers ended in a pod that containers of others keep running."""
    succeeded: bool = False
    """Whether werf's exit code was 0 there."""
    is_let_go: bool = False
    """Whether its deadline was shortened for that reason."""

    def mark(self, name: str) -> str | None:
        """The annotation of a feature; None where it has none."""
        return next((value for key, value in self.marks if key == name), None)

    @property
    def is_finished(self) -> bool:
        """Whether the Job controller regards it as succeeded or failed."""
        return self.complete or self.failed is not None

    @property
    def is_held(self) -> bool:
        """Whether containers of others keep it running."""
        return self.ended is not None and not self.is_finished

    @property
    def done(self) -> bool:
        """Whether it has its outcome: no container of the operator's runs, or will run."""
        is_dropped = self.given_up and self.suspended  # a deadline doesn't end a suspended Job
        return self.is_finished or self.ended is not None or is_dropped

    def with_end(self, pod: PodRecord | JobRecord | None) -> JobRecord:
        """The record with the end in its pod, or in an earlier record of it."""
        if pod is None or pod.ended is None:
            return self
        finished = self.finished or pod.ended
        return replace(self, ended=pod.ended, succeeded=pod.succeeded, finished=finished)


def read_job(body: Mapping[str, Any]) -> JobRecord | None:
    """Read a Job; None for one that isn't the operator's."""
    metadata = body.get("metadata") or {}
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    try:
        kind = JobKind(labels.get(names.LABEL_JOB_KIND, ""))
    except ValueError:
        return None
    spec, status = body.get("spec") or {}, body.get("status") or {}
    conditions = {
        condition.get("type"): condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
    failed = conditions.get("Failed")
    complete = conditions.get("Complete")
    ended = failed or complete or {}
    return JobRecord(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        bundle=labels.get(names.LABEL_BUNDLE, ""),
        bundle_uid=annotations.get(names.ANN_BUNDLE_UID, ""),
        kind=kind,
        attempt=_number(annotations.get(names.ANN_ATTEMPT, "")),
        generation=_number(annotations.get(names.ANN_GENERATION, "")),
        created=parse_time(metadata.get("creationTimestamp")),
        finished=parse_time(status.get("completionTime") or ended.get("lastTransitionTime")),
        complete=complete is not None,
        failed=str(failed.get("reason") or "Failed") if failed else None,
        message=str(ended.get("message") or "")[:512],
        ttl=spec.get("ttlSecondsAfterFinished"),
        deleting="deletionTimestamp" in metadata,
        suspended=bool(spec.get("suspend")),
        began=parse_time(status.get("startTime")),
        deadline=spec.get("activeDeadlineSeconds"),
        started=bool(status.get("ready")),
        given_up=names.ANN_GIVEN_UP in annotations,
        unsealed=annotations.get(names.ANN_GIVEN_UP) == BundleReason.PLAN_CHANGED,
        frozen=annotations.get(names.ANN_GIVEN_UP) == BundleReason.FROZEN,
        resource_version=metadata.get("resourceVersion", ""),
        server=annotations.get(names.ANN_SERVER, ""),
        marks=tuple((name, annotations[name]) for name in names.JOB_MARKS if name in annotations),
        is_let_go=names.ANN_WERF_ENDED in annotations,
    )


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What the watch of the Jobs' pods keeps."""

    namespace: str
    bundle: str
    job_uid: str
    ended: datetime | None
    """When the operator's containers ended, where others keep the pod running; else None."""
    is_over: bool = False
    """Whether none of its containers runs, or will run."""
    succeeded: bool = False
    """Whether werf's exit code was 0."""
    resource_version: str = ""


def read_pod(body: Mapping[str, Any]) -> PodRecord:
    """Read a Job's pod: injected containers may run for ever, so ours are looked at by name."""
    metadata, status = body["metadata"], body.get("status") or {}
    owners = metadata.get("ownerReferences") or ()
    ended = None
    if not is_over(body):  # else the Job tells
        ended = _end_of_ours(metadata, status)
    werf = _terminated_state(status.get("containerStatuses"), DEPLOY_CONTAINER) or {}
    return PodRecord(
        namespace=metadata.get("namespace", ""),
        bundle=(metadata.get("labels") or {}).get(names.LABEL_BUNDLE, ""),
        job_uid=next((str(one.get("uid")) for one in owners if one.get("controller")), ""),
        ended=ended,
        is_over=is_over(body),
        succeeded=ended is not None and werf.get("exitCode") == 0,
        resource_version=metadata.get("resourceVersion", ""),
    )


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether no container of a pod runs, or will run."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _end_of_ours(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> datetime | None:
    """When werf's container ended, or the login failed; None where a deletion ended them."""
    ours = _terminated_state(status.get("containerStatuses"), DEPLOY_CONTAINER)
    if ours is None:
        ours = _terminated_state(status.get("initContainerStatuses"), LOGIN_CONTAINER)
        if ours is None or ours.get("exitCode") == 0:
            return None
    ended = parse_time(ours.get("finishedAt")) or parse_time(metadata.get("creationTimestamp"))
    deleted = parse_time(metadata.get("deletionTimestamp"))
    if deleted is None or ended is None or ours.get("exitCode") == 0:
        return ended
    grace = timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
    return ended if ended < deleted - grace else None


def is_owned(body: Mapping[str, Any], uid: str) -> bool:
    """Whether an object has an owner with this uid, such as a pod its Job.

    Everybody who can create a pod can give it the label of a Job, but that makes it none of the
    Job's. Who gives it this owner reference as well fakes the Job's outcome: only the permission to
    create pods prevents that.
    """
    owners = body["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, as values of the status."""

    outcome: Outcome
    reason: Reason
    message: str
    revision: int | None = None
    exit_code: int | None = None
    missing: tuple[MissingPermission, ...] = ()
    """Missing permissions that made it fail."""
    is_raw: bool = field(default=False, compare=False)
    """Whether the message is the end of werf's log, of any length and with line breaks."""


_GIVEN_UP: Final = Ending(
    Outcome.INTERRUPTED,
    BundleReason.JOB_LOST,
    "the Job couldn't start and was deleted because the spec was edited",
)
_UNSEALED: Final = Ending(
    Outcome.INTERRUPTED,
    BundleReason.PLAN_CHANGED,
    "the Job couldn't start and was ended, as a Secret that was made for it had been deleted",
)
_FROZEN: Final = Ending(
    Outcome.INTERRUPTED,
    BundleReason.FROZEN,
    "deploys were frozen before the Job's pod had started, so the Job was ended",
)


def ending_of(job: JobRecord, pods: Sequence[Mapping[str, Any]]) -> Ending:
    """The outcome of a finished deploy Job, from its pods (newest last) and its own condition."""
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    main = _terminated_state(status.get("containerStatuses"), DEPLOY_CONTAINER)
    login = _terminated_state(status.get("initContainerStatuses"), LOGIN_CONTAINER)
    if main is None:
        return _ending_without_werf(job, pods, login)
    ending = _ending_of_werf(main, job.server)
    if job.complete or ending.outcome is Outcome.SUCCEEDED:
        return _read_success(main)
    if job.given_up and ending.outcome is Outcome.INTERRUPTED:
        return _read_given_up(job)  # a kubelet may report a container that never ran as killed
    if job.failed == "DeadlineExceeded" and ending.outcome is Outcome.INTERRUPTED:
        return _interruption(BundleReason.TIMED_OUT, _TOO_LONG)
    if why := _disruption(status):
        return _interruption(BundleReason.JOB_LOST, f"the pod was terminated: {why}")
    return ending


def _read_given_up(job: JobRecord) -> Ending:
    if job.frozen:
        return _FROZEN
    return _UNSEALED if job.unsealed else _GIVEN_UP


def exit_code(pods: Sequence[Mapping[str, Any]]) -> int | None:
    """The exit code of werf's container; None where it has none."""
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    main = _terminated_state(status.get("containerStatuses"), DEPLOY_CONTAINER)
    code = main.get("exitCode") if main else None
    return code if isinstance(code, int) else None


_CHECKS: Final[Mapping[int, BundleReason]] = {
    CheckExit.CHANGED: BundleReason.PLAN_CHANGED,
    CheckExit.FAILED: BundleReason.PLAN_FAILED,
    CheckExit.NOT_VENDORED: BundleReason.DEPENDENCIES_NOT_VENDORED,
}


def check_reason(code: int | None) -> BundleReason | None:
    """The reason for which a script's checks ended a Job; None where they didn't."""
    return _CHECKS.get(code or 0)


def checked_ending(ending: Ending) -> Ending:
    """The outcome of a deploy whose script may have ended it before any write."""
    reason = check_reason(ending.exit_code)
    if reason is None or ending.reason is BundleReason.CLUSTER_UNREACHABLE:
        return ending
    by_bundle = reason is BundleReason.DEPENDENCIES_NOT_VENDORED
    outcome = Outcome.FAILED if by_bundle else Outcome.INTERRUPTED
    return replace(ending, outcome=outcome, reason=reason)


def add_cause(ending: Ending, log: str) -> Ending:
    """An ending with werf's error from the redacted log: its report only names operations."""
    error = find_error(log)
    if ending.is_raw:
        error = error if error.startswith(ERROR) else ending.message
        text = describe_error(error)
        text = f"{ERROR} {text}" if error.startswith(ERROR) else text
        return replace(ending, message=text, is_raw=False)
    if ending.outcome is not Outcome.FAILED or not error.startswith(ERROR):
        return ending
    why = describe_error(error, MAX_CAUSE)
    if why[-40:] in ending.message:
        return ending
    return replace(ending, message=f"{ending.message}: {why}")


def excuse_lost_access(ending: Ending, log: str, server: str) -> Ending:
    """A failure because another cluster's API server was lost, which isn't the digest's fault.

    Args:
        ending: of a Job; its report only names operations.
        log: redacted.
        server: as in the Job's record.
    """
    if ending.outcome is not Outcome.FAILED or not lacks_access(find_error(log), server):
        return ending
    return replace(ending, outcome=Outcome.INTERRUPTED, reason=BundleReason.CLUSTER_UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Excuse:
    """What a feature knows of the failure of a Job."""

    text: str
    """Follows the failure's message, with its separator."""
    reason: BundleReason | None = None
    """In place of the failure's, which isn't the digest's fault then."""


def excused(ending: Ending, excuse: Excuse | None) -> Ending:
    """A failure with what a feature knows of it."""
    if excuse is None:
        return ending
    ending = replace(ending, message=f"{ending.message}{excuse.text}")
    if excuse.reason is None:
        return ending
    return replace(ending, outcome=Outcome.INTERRUPTED, reason=excuse.reason)


def add_missing_permissions(ending: Ending, log: str, account: ServiceAccount | None) -> Ending:
    """A failure by missing permissions with these in the message; other endings are unchanged.

    ``account`` is None in another cluster: its accounts aren't known, whatever their names.

    The part of the message about werf's operations is kept; werf's error is in the log. Where
    its first cause is another, the message isn't changed.
    """
    if ending.reason not in (BundleReason.DEPLOY_FAILED, BundleReason.PLAN_FAILED):
        return ending
    if account is None:
        return ending
    error = find_error(log)
    denied = read_refused(f"{ending.message}\n{error[:_ERROR]}", account)
    if not denied:
        return ending
    missing = list_missing(denied)
    first = first_cause(ending.message if ending.is_raw else error)
    if not read_refused(f"{first}\n{'' if ending.is_raw else ending.message}", account):
        return replace(ending, missing=missing)
    text = sentence(account, missing)
    if not read_refused(ending.message, account):
        text = f"{ending.message}: {text}"
    return replace(ending, message=text, missing=missing, is_raw=False)


def _ending_without_werf(
    job: JobRecord, pods: Sequence[Mapping[str, Any]], login: Mapping[str, Any] | None
) -> Ending:
    """The ending of a Job whose werf container never ended, or whose end is unknown."""
    if job.complete or job.succeeded:
        return Ending(
            Outcome.SUCCEEDED, BundleReason.DEPLOYED, "succeeded; its pod no longer exists"
        )
    if login is not None and login.get("exitCode") != 0:
        text = " ".join(find_error(str(login.get("message") or "")).split())[:1024]
        reason = BundleReason.AUTHENTICATION_FAILED
        if _REGISTRY_TROUBLE.search(text):
            reason = BundleReason.REGISTRY_UNREACHABLE
        return _interruption(reason, f"werf cr login failed: {text}")
    if job.given_up:
        return _read_given_up(job)
    blocked = find_blocked_pod(pods)
    if blocked is not None:
        return _interruption(blocked.reason, f"{blocked.message}; the Job was deleted")
    if job.failed == "DeadlineExceeded":
        return _interruption(BundleReason.TIMED_OUT, _TOO_LONG)
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    why = _disruption(status) or _failure_of_others(status)
    why = why or job.message or job.failed or "its pod no longer exists"
    return _interruption(BundleReason.JOB_LOST, f"the Job ended without a result of werf: {why}")


def _ending_of_werf(terminated: Mapping[str, Any], server: str) -> Ending:
    code = int(terminated.get("exitCode") or 0)
    text = str(terminated.get("message") or "")
    report = parse_report(text)
    if code == 0 or (report is not None and report.succeeded):
        return _read_success(terminated)
    if code >= KILLED or terminated.get("reason") == "OOMKilled":
        why = terminated.get("reason") or f"signal {code - KILLED}"
        return _interruption(BundleReason.JOB_LOST, f"the container was killed ({why})", code)
    if report is not None:
        return Ending(
            Outcome.FAILED, BundleReason.DEPLOY_FAILED, report.describe(), report.revision, code
        )
    error = find_error(text)
    if not error:
        error = f"werf ended with exit code {code} and no report"
    return replace(_judge_error(error, code, server), is_raw=True)


def _judge_error(error: str, code: int, server: str) -> Ending:
    """The ending by an error before any report: of the registry, the cluster or the bundle.

    Args:
        error: whole.
        code: the exit code.
        server: as in the Job's record.
    """
    line = first_cause(error)
    pulling = PULLING.search(line)
    if pulling and _REGISTRY_TROUBLE.search(line):
        return _interruption(BundleReason.REGISTRY_UNREACHABLE, error, code)
    if refuses_login(error):
        return _interruption(BundleReason.AUTHENTICATION_FAILED, error, code)
    if lacks_access(error, server) or (server and _CLUSTER_TROUBLE.search(line)):
        return _interruption(BundleReason.CLUSTER_UNREACHABLE, error, code)
    if _CLUSTER_TROUBLE.search(line):
        return _interruption(BundleReason.JOB_LOST, error, code)
    return Ending(Outcome.FAILED, BundleReason.DEPLOY_FAILED, error, None, code)


def _read_success(terminated: Mapping[str, Any]) -> Ending:
    report = parse_report(str(terminated.get("message") or ""))
    code = int(terminated.get("exitCode") or 0)
    if report is None:
        return Ending(Outcome.SUCCEEDED, BundleReason.DEPLOYED, "done", None, code)
    text = report.describe() + (" (with non-critical errors)" if code else "")
    return Ending(Outcome.SUCCEEDED, BundleReason.DEPLOYED, text, report.revision, code)


def _interruption(reason: BundleReason, message: str, code: int | None = None) -> Ending:
    return Ending(Outcome.INTERRUPTED, reason, message, None, code)


def _terminated_state(statuses: Any, name: str) -> Mapping[str, Any] | None:
    for container in statuses or ():
        if container.get("name") == name:
            found = (container.get("state") or {}).get("terminated")
            return found if isinstance(found, Mapping) else None
    return None


def _failure_of_others(status: Mapping[str, Any]) -> str:
    """The injected container that failed before ours could run; empty where none did."""
    for container in _statuses(status):
        name = str(container.get("name"))
        if name in _OURS:
            continue
        if code := (_terminated_state([container], name) or {}).get("exitCode"):
            return f"the container {name}, which isn't the operator's, ended with exit code {code}"
    return ""


def _disruption(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason") or "disrupted")
    reason = status.get("reason")
    return str(status.get("message") or reason) if reason in ("Evicted", "NodeLost") else ""
