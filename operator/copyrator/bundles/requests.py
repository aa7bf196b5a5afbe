"""Users' requests beside the spec: annotations, and the original's ``status.forceUpdate``.

A rollback is a pin: the annotation names a version and its digest, which is taken into the status
when it is seen. Only what the history has as deployed from the same repository is taken, so that
nothing gets in that didn't pass the gates once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, HistoryEntry, Outcome
from copyrator.api.plan_status import PlanRequests
from copyrator.api.rollback import PinStatus
from copyrator.api.structs import replace
from copyrator.api.syntax import shown
from copyrator.api.times import format_time
from copyrator.bundles.identity import hash_of

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


_PIN: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})@(sha256:[0-9a-f]{64})")


def take_pin(
    annotations: Mapping[str, str], spec: BundleSpec, status: BundleStatus, now: datetime
) -> BundleStatus:
    """The status with the annotation pin taken into it, or without a pin that an edit has ended."""
    pin, asked = status.part(PinStatus), annotations.get(names.ANN_PIN)
    chooses = spec.version, spec.tag_filter, spec.prerelease, spec.registry, spec.repo
    selection = hash_of(*chooses)
    if pin.digest is not None and pin.selection != selection:
        pin = PinStatus(requested=pin.requested)
    if asked != pin.requested:
        pin = _take_value(pin, asked, spec, status)
        if pin.digest is not None and pin.at is None:
            pin = replace(pin, selection=selection, at=format_time(now))
    return status if pin == status.part(PinStatus) else status.with_part(pin)


def _take_value(
    pin: PinStatus, asked: str | None, spec: BundleSpec, status: BundleStatus
) -> PinStatus:
    """The pin after a new value of the annotation; removing the annotation changes nothing else."""
    if asked is None:
        return replace(pin, requested=None, refused=None)
    if asked == names.NO_PIN:
        return PinStatus(requested=asked)
    found = _PIN.fullmatch(asked)
    if found is None:
        text = f"{shown(asked)} isn't VERSION@sha256:… or {names.NO_PIN}"
        return replace(pin, requested=asked, refused=text)
    version, digest = found.groups()
    if (version, digest) == (pin.version, pin.digest):
        return replace(pin, requested=asked, refused=None)  # also once the history lacks it
    if (fault := _find_pin_fault(version, digest, spec, status)) is not None:
        return replace(pin, requested=asked, refused=fault)
    return PinStatus(requested=asked, version=version, digest=digest)


def rollback_targets(status: BundleStatus, reference: str) -> tuple[HistoryEntry, ...]:
    """The successful deploys from this repository, newest first."""
    return tuple(
        one
        for one in status.past
        if one.outcome == Outcome.SUCCEEDED and one.digest and one.reference == reference
    )


def _find_pin_fault(
    version: str, digest: str, spec: BundleSpec, status: BundleStatus
) -> str | None:
    """Why a version can't be pinned; None where it can be."""
    targets = rollback_targets(status, spec.reference)
    tags = [one.version or "" for one in targets if one.digest == digest]
    if version in tags:
        return None
    if tags:
        return f"{digest} was deployed as {tags[0]}, not as {version}"
    others = describe_ignored((at for at in status.past if at.digest == digest), spec.reference)
    return (
        f"the history has no successful deploy of {version} ({digest[:19]}) from {spec.reference}"
        f"{others}"
    )


def describe_ignored(deploys: Iterable[HistoryEntry], reference: str) -> str:
    """Why the successful ones of these are no targets, as clauses; empty where all others are."""
    found: dict[str, str] = {}
    for one in deploys:
        if one.outcome == Outcome.SUCCEEDED and one.reference != reference:
            found.setdefault(one.reference or "", f"; it has {one.version} from {one.reference}")
    return "".join(found.values())


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


def requested_plan(annotations: Mapping[str, str], status: BundleStatus) -> str | None:
    """The value of plan-at, where a plan of the next deploy is requested; None once handled."""
    token = annotations.get(names.ANN_PLAN_AT)
    is_new = (
        token != status.part(PlanRequests).last_handled_plan
        and names.ANN_PLAN_VERSION not in annotations
    )
    return token if is_new else None
