"""What pages draw of the way of a version that waits to be promoted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from copyrator.api.bundle_status import BundleStatus, GateState
from copyrator.api.keys import BundleKey
from copyrator.api.schema import SpecError, map_in, read
from copyrator.api.text import format_duration, format_time, parse_time, said, time_until
from copyrator.bundles.features.promotion.fields import (
    PROMOTION_GATE,
    PromotionSpec,
    PromotionStatus,
)
from copyrator.bundles.fields import parse_status
from copyrator.bundles.words import Body, Environment, Soak, View


def promotes_from(body: Body) -> PromotionSpec:
    """``spec.promoteFrom`` of a Bundle; empty where that is invalid or absent."""
    metadata = body["metadata"]
    found = map_in(map_in(body, "spec"), PromotionSpec.FIELD)
    try:
        return read(PromotionSpec, found, "").within(
            BundleKey(metadata["namespace"], metadata["name"])
        )
    except SpecError:
        return PromotionSpec()


def environments_of(view: View) -> Iterator[Environment]:
    """The environments of other clusters that a Bundle is promoted from."""
    gate = next((one for one in view.summary.gates if one.name == PROMOTION_GATE), None)
    for wanted in promotes_from(view.body).attestations:
        is_missing = None
        if gate is not None and gate.state == GateState.PASSED:
            is_missing = False
        elif gate is not None and f"environment {wanted.environment} " in (gate.message or ""):
            is_missing = True  # the verdict names those that object, see gates.evidence
        release = f"release {said(wanted.release)}" if wanted.release else ""
        cluster = f"cluster {said(wanted.cluster)}" if wanted.cluster else ""
        where = ", ".join(filter(None, (release, cluster)))
        soak = f"soak {format_duration(wanted.soak)}, " if wanted.soak else ""
        asked = f"{soak}at most {format_duration(wanted.max_age)} old"
        yield Environment(wanted.environment, where, asked, is_missing)


def waiting_soak(view: View, sources: Sequence[Body]) -> Soak | None:
    """The soak of the version that waits for it in a Bundle's gate; None where none does.

    Evidence of other clusters has no end that is known here.
    """
    gate = next((one for one in view.summary.gates if one.name == PROMOTION_GATE), None)
    if gate is None or gate.state != GateState.WAITING:
        return None
    spec = promotes_from(view.body)
    if not sources and spec.attestations:
        return None
    wanted = spec.soak
    statuses = [_read(one) for one in sources]
    there = view.summary.deployed.digest
    running = (one.deployed for one in statuses if one.deployed.digest not in (None, there))
    waits = next(running, None)
    rejected = (one.version for one in view.summary.available.rejected if one.reason == gate.reason)
    version = said(next(rejected, waits.version if waits else None))
    until = parse_time(gate.until)
    if until is None and waits is not None:
        known = [
            end for one in statuses if (end := _end_of_soak(one, waits.digest, wanted)) is not None
        ]
        until = max(known) if known and len(known) == len(sources) else None
    if until is None:
        return Soak(version, 0.0, text=f"{version} waits: its soak hasn't begun, or was broken off")
    left = max((until - view.now).total_seconds(), 0.0)
    done = 1.0 - min(left / wanted, 1.0) if wanted else 1.0
    passed = format_duration(int(max(wanted - left, 0.0)) // 60 * 60)
    shown = f"{version} soaked {passed} of {format_duration(wanted)}"
    ends_in = time_until(format_time(until), view.now).removeprefix("in ")
    return Soak(version, done, format_time(until), f"{shown}, {ends_in} left" if left else shown)


def _read(body: Body) -> BundleStatus:
    """What a status says of the soak."""
    return parse_status(body, "soak", "deployed")


def _end_of_soak(status: BundleStatus, digest: str | None, wanted: float) -> datetime | None:
    record = next((one for one in status.part(PromotionStatus).soak if one.digest == digest), None)
    since = parse_time(record.since) if record is not None else None
    if record is None or record.until is not None or since is None:
        return None
    with suppress(OverflowError):  # of a forged time
        return since + timedelta(seconds=wanted)
    return None
