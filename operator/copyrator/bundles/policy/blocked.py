"""Why a pod of a Job doesn't start, by its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from copyrator.api.bundle_status import BundleReason


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a running Job makes no progress."""

    reason: BundleReason
    message: str


def blocked_by(pods: Sequence[Mapping[str, Any]]) -> Blocked | None:
    """Why the newest pod of an unfinished Job doesn't start; None where it does."""
    if not pods:
        return None
    status = pods[-1].get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = condition.get("message") or condition.get("reason") or "no node is suitable"
            return Blocked(BundleReason.JOB_UNSCHEDULABLE, f"the pod can't be scheduled: {text}")
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


def has_started(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a container of the newest pod runs or has run: then its volumes exist."""
    statuses = _statuses((pods[-1].get("status") or {}) if pods else {})
    states = [container.get("state") or {} for container in statuses]
    return any("running" in state or "terminated" in state for state in states)


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


def _statuses(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
