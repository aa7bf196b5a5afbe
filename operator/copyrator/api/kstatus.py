"""Whether an object is as its controller wants it. Pure.

Of Deployments, StatefulSets, DaemonSets and Jobs that is judged by kstatus's rules, in its order.
Source: sigs.k8s.io/cli-utils, pkg/kstatus/status (generic.go, core.go) at 5895ad6; there is no
library of them for Python. Fields that aren't of the expected type count as absent, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeGuard

from copyrator.api.schema import NOT_WHOLE, map_in, maps_in, text_in

Object = Mapping[str, Any]

_NO_DEADLINE: Final = 2**31 - 1
"""``progressDeadlineSeconds`` with this value means no deadline to the Deployment controller."""


class Status(StrEnum):
    """kstatus's statuses."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"
    """The object can't be judged."""


@dataclass(frozen=True, slots=True)
class Result:
    """A status, and what is missing to Current; the message may be another controller's text."""

    status: Status
    message: str = ""


CURRENT: Final = Result(Status.CURRENT)


def compute(kind: str, body: Object) -> Result:
    """The status of an object of this kind, one of RULES, as the API server returns it."""
    metadata = map_in(body, "metadata")
    if NOT_WHOLE in metadata:
        return Result(Status.UNKNOWN, "it is too large to be read")
    return _generic(metadata, body) or RULES[kind](body)


def _generic(metadata: Object, body: Object) -> Result | None:
    """Rules of all kinds (checkGenericProperties)."""
    if text_in(metadata, "deletionTimestamp"):
        return Result(Status.TERMINATING, "it is being deleted")
    status = map_in(body, "status")
    generation, observed = metadata.get("generation"), status.get(_OBSERVED)
    if _is_int(generation) and _is_int(observed) and generation != observed:
        return _progress("its controller hasn't seen its newest generation")
    for one in maps_in(status, "conditions"):
        if one.get("type") == "Reconciling" and _is_true(one):
            return _progress(text_in(one, "message"))
        if one.get("type") == "Stalled" and _is_true(one):
            return Result(Status.FAILED, text_in(one, "message"))
    return None


def _deployment(body: Object) -> Result:
    """Rules of a Deployment (deploymentConditions)."""
    spec, status = map_in(body, "spec"), map_in(body, "status")
    found = {text_in(one, "type"): one for one in maps_in(status, "conditions")}
    progressing, available = found.get("Progressing", {}), found.get("Available", {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Result(Status.FAILED, "Progress deadline exceeded")
    wanted, there = _int(spec, "replicas", 1), _int(status, "replicas")
    updated = _int(status, "updatedReplicas")
    few = (
        _too_few("Replicas", there, wanted)
        or _too_few("Updated", updated, wanted)
        or _too_many(there, wanted)
        or _too_few("Available", _int(status, "availableReplicas"), updated)
        or _too_few("Ready", _int(status, "readyReplicas"), wanted)
    )
    if few is not None:
        return few
    has_come = _is_true(progressing) and progressing.get("reason") == "NewReplicaSetAvailable"
    if not has_come and _int(spec, "progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE:
        return _progress("ReplicaSet not Available")
    return CURRENT if _is_true(available) else _progress("Deployment not Available")


def _stateful_set(body: Object) -> Result:
    """Rules of a StatefulSet (stsConditions), which is never Failed: it has no conditions."""
    spec, status = map_in(body, "spec"), map_in(body, "status")
    strategy = map_in(spec, "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return CURRENT
    wanted, there = _int(spec, "replicas", 1), _int(status, "replicas")
    few = (
        _too_few("Replicas", there, wanted)
        or _too_few("Ready", _int(status, "readyReplicas"), wanted)
        or _too_many(there, wanted)
    )
    if few is not None:
        return few
    partition = _int(map_in(strategy, "rollingUpdate"), "partition", -1)
    if partition != -1:
        updated = _int(status, "updatedReplicas")
        return _too_few("Updated", updated, wanted - partition) or CURRENT
    few = _too_few("Current", _int(status, "currentReplicas"), wanted)
    if few is None and text_in(status, "currentRevision") != text_in(status, "updateRevision"):
        return _progress("Waiting for updated revision to match current")
    return few or CURRENT


def _daemon_set(body: Object) -> Result:
    """Rules of a DaemonSet (daemonsetConditions)."""
    status = map_in(body, "status")
    if not _is_int(map_in(body, "metadata").get("generation")) or not _is_int(
        status.get(_OBSERVED)
    ):
        return _progress("its controller hasn't seen it")
    wanted = _int(status, "desiredNumberScheduled", -1)
    if wanted == -1:
        return _progress("Missing .status.desiredNumberScheduled")
    return (
        _too_few("Current", _int(status, "currentNumberScheduled"), wanted)
        or _too_few("Updated", _int(status, "updatedNumberScheduled"), wanted)
        or _too_few("Available", _int(status, "numberAvailable"), wanted)
        or _too_few("Ready", _int(status, "numberReady"), wanted)
        or CURRENT
    )


def _job(body: Object) -> Result:
    """Rules of a Job (jobConditions): one that runs is Current."""
    spec, status = map_in(body, "spec"), map_in(body, "status")
    completions = _int(spec, "completions", _int(spec, "parallelism", 1))
    for one in maps_in(status, "conditions"):
        if not _is_true(one):
            continue
        if one.get("type") == "Complete":
            return CURRENT
        if one.get("type") == "Failed":
            failed = _int(status, "failed")
            return Result(Status.FAILED, f"Job Failed. failed: {failed}/{completions}")
        if one.get("type") == "Suspended" and spec.get("suspend") is True:
            return CURRENT
    return CURRENT if text_in(status, "startTime") else _progress("Job not started")


RULES: Final[Mapping[str, Callable[[Object], Result]]] = {
    "Deployment": _deployment,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
}
"""The rules of each kind, after those of all kinds."""

_OBSERVED: Final = "observedGeneration"


def _too_few(what: str, found: int, wanted: int) -> Result | None:
    return _progress(f"{what}: {found}/{wanted}") if wanted > found else None


def _too_many(found: int, wanted: int) -> Result | None:
    return _progress(f"Pending termination: {found - wanted}") if found > wanted else None


def _is_true(condition: Object) -> bool:
    return condition.get("status") == "True"


def _progress(message: str) -> Result:
    return Result(Status.IN_PROGRESS, message)


def _int(found: Object, name: str, default: int = 0) -> int:
    value = found.get(name)
    return value if _is_int(value) else default


def _is_int(value: Any) -> TypeGuard[int]:
    return type(value) is int
