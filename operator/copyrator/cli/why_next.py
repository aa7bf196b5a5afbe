"""When a version that waits for its gates is deployed at the earliest, from the status alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, GateState, GateStatus
from copyrator.api.times import format_time, parse_time
from copyrator.bundles.gates import windows
from copyrator.bundles.gates.catalog import all_gates
from copyrator.cli import rows
from copyrator.cli.plan_state import said

_GATES = {gate.name: gate for gate in all_gates()}


def next_chance(spec: BundleSpec, status: BundleStatus) -> tuple[datetime, ZoneInfo | None] | None:
    """The time when all gates that haven't passed will have, and a window is open.

    With it, the time zone of the window that opens then; None where no window has to open. None
    where all gates have passed, or where something else than time has to change.
    """
    objecting = [one for one in status.gates if one.state != GateState.PASSED]
    ends = [parse_time(one.until) if _ends_by_itself(one) else None for one in objecting]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends) or spec.suspend:
        return None
    moment = max(known)
    if not spec.windows or windows.is_open(spec.windows, moment):
        return moment, None
    found = windows.next_opening(spec.windows, moment)
    return None if found is None else (found[0], ZoneInfo(found[1].zone))


def why_lines(spec: BundleSpec, status: BundleStatus, now: datetime) -> Iterator[str]:
    """The sentence for `copyrator why`; nothing where no time is known."""
    found = next_chance(spec, status)
    if found is None:
        return
    moment, zone = found
    stamp = format_time(moment)
    local = f" ({moment.astimezone(zone):%A %H:%M} {zone.key})" if zone else f" ({moment:%A})"
    names = [one.name or "" for one in status.gates if one.state != GateState.PASSED]
    if zone and windows.GATE.name not in names:
        names.append(windows.GATE.name)
    when = " and ".join(_passes(name, spec) for name in names)
    version = _version(status)
    what = f" of {version}" if version else ""
    yield f"The earliest deploy{what} is at {stamp}{local}, {rows.until(stamp, now)}, when {when}."


def _passes(name: str, spec: BundleSpec) -> str:
    """What happens when a gate passes by itself."""
    gate = _GATES.get(name)
    return gate.ends(spec) if gate and gate.ends else f"gate {name} passes"


def _version(status: BundleStatus) -> str | None:
    """The version that waits: the newest one that a gate refused, or the resolved one."""
    reasons = {one.reason for one in status.gates if one.state != GateState.PASSED}
    held = (one.version for one in status.available.rejected if one.reason in reasons)
    version = next(held, status.available.version)
    return said(version) if version else None


def _ends_by_itself(found: GateStatus) -> bool:
    """When a plan expires, or is made again, nothing is deployed yet."""
    gate = _GATES.get(found.name or "")
    return found.state == GateState.WAITING and (gate is None or gate.ends is not None)
