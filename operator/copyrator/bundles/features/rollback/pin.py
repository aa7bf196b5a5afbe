"""The annotation pin, as it is taken into the status. Pure.

A rollback is a pin: the annotation names a version and its digest, which is taken into the status
when it is seen. Only what the history has as deployed from the same repository is taken, so that
nothing gets in that didn't pass the gates once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.structs import replace
from copyrator.api.text import format_time, quoted
from copyrator.bundles.features.rollback.fields import PinStatus, describe_ignored, rollback_targets
from copyrator.bundles.jobs.identity import selection_hash

_PIN: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})@(sha256:[0-9a-f]{64})")


def take_pin(
    annotations: Mapping[str, str], spec: BundleSpec, status: BundleStatus, now: datetime
) -> BundleStatus:
    """The status with the annotation pin taken into it, or without a pin that an edit has ended."""
    pin, asked = status.part(PinStatus), annotations.get(names.ANN_PIN)
    selection = selection_hash(spec)
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
        text = f"{quoted(asked)} isn't VERSION@sha256:… or {names.NO_PIN}"
        return replace(pin, requested=asked, refused=text)
    version, digest = found.groups()
    if (version, digest) == (pin.version, pin.digest):
        return replace(pin, requested=asked, refused=None)  # also once the history lacks it
    if (fault := _find_pin_fault(version, digest, spec, status)) is not None:
        return replace(pin, requested=asked, refused=fault)
    return PinStatus(requested=asked, version=version, digest=digest)


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
