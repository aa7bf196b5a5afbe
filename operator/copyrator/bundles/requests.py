"""Users' requests beside the spec: annotations, and the original's ``status.forceUpdate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from copyrator.api import names
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.structs import replace

FORCE_UPDATE: Final = "forceUpdate"
_RESET: Final = "forceUpdate=0"
"""Replaces the token in the record of an attempt, once the field is reset."""


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """A deploy that a user requests, whether or not anything changed."""

    requested_at: str | None = None
    """Value of the annotation, where it is a new one; likewise ``force_at``."""
    force_at: str | None = None
    force_update: bool = False

    @property
    def token(self) -> str:
        """Text that identifies this request; equal for an equal request."""
        parts = (
            f"requestedAt={self.requested_at}" if self.requested_at is not None else "",
            f"forceAt={self.force_at}" if self.force_at is not None else "",
            FORCE_UPDATE if self.force_update else "",
        )
        return " ".join(part for part in parts if part)


def pending_request(annotations: Mapping[str, str], status: BundleStatus) -> DeployRequest | None:
    """The request that hasn't been handled yet, or None.

    A ``forceUpdate`` for which an attempt is running isn't pending: it only has to be reset.
    """
    requested = annotations.get(names.ANN_REQUESTED_AT)
    force = annotations.get(names.ANN_FORCE_AT)
    found = DeployRequest(
        requested_at=requested if requested != status.last_handled_request else None,
        force_at=force if force != status.last_handled_force else None,
        force_update=status.forced and not awaits_reset(status),
    )
    return found if found.token else None


def acknowledge(status: BundleStatus, request: DeployRequest) -> BundleStatus:
    """The status with the values of a handled request's annotations."""
    if request.requested_at is not None:
        status = replace(
            status, last_handled_request=request.requested_at, last_failed_request=None
        )
    if request.force_at is not None:
        status = replace(status, last_handled_force=request.force_at, last_failed_force=None)
    return status


def record_failed_request(status: BundleStatus, request: DeployRequest) -> BundleStatus:
    """The status with the values of a failed request's annotations; it remains pending.

    A client that waits for the outcome finds it there, as in Flux's lastHandledReconcileAt.
    """
    if request.requested_at not in (None, status.last_handled_request):
        status = replace(status, last_failed_request=request.requested_at)
    if request.force_at not in (None, status.last_handled_force):
        status = replace(status, last_failed_force=request.force_at)
    return status


def awaits_reset(status: BundleStatus) -> bool:
    """Whether ``forceUpdate`` was handled and has to be reset to 0."""
    attempted = status.attempted
    return (
        status.forced
        and attempted.outcome == Outcome.RUNNING
        and FORCE_UPDATE in (attempted.request or "").split()
    )


def reset_patch(status: BundleStatus) -> list[dict[str, object]]:
    """The JSON Patch of a status that resets ``forceUpdate``, unless it isn't 1 any more.

    The same patch records it on the attempt. So a second force during the attempt is recognised,
    also by a process that starts after this one has died.
    """
    patch: list[dict[str, object]] = [
        {"op": "test", "path": f"/status/{FORCE_UPDATE}", "value": 1},
        {"op": "replace", "path": f"/status/{FORCE_UPDATE}", "value": 0},
    ]
    if awaits_reset(status):
        path, asked = "/status/attempted/request", status.attempted.request or ""
        done = " ".join(_RESET if part == FORCE_UPDATE else part for part in asked.split())
        patch.append({"op": "test", "path": path, "value": asked})
        patch.append({"op": "replace", "path": path, "value": done})
    return patch
