"""Why a Bundle runs its version, and not another: from its status alone.

When a version that waits for its gates is deployed at the earliest, from the status alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from copyrator.api import names
from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.bundle_status import (
    ENOUGH_FAILED_POLLS,
    BundleReason,
    BundleStatus,
    GateState,
    GateStatus,
    Outcome,
    Trust,
    parse_status,
)
from copyrator.api.conditions import ConditionType, conditions_by_type, ready_reason
from copyrator.api.counts import times
from copyrator.api.fields import InvalidSpec
from copyrator.api.freeze import Freeze, in_force, sentence
from copyrator.api.times import format_duration, format_time, parse_time
from copyrator.bundles.gates import signature, windows
from copyrator.bundles.gates.catalog import FREEZE, all_gates
from copyrator.bundles.inputs.reader import references_of
from copyrator.bundles.inputs.watches import Ref
from copyrator.bundles.version.answer import kept_until
from copyrator.bundles.version.rhythm import interval_of
from copyrator.cli.bundles import permissions
from copyrator.cli.core.hints import hint
from copyrator.cli.core.installation import Installation
from copyrator.cli.view import bundle as bundle_view
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import consent_of, explain_plan, said

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


def explain_next(spec: BundleSpec, status: BundleStatus, now: datetime) -> Iterator[str]:
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
    version = _waiting_version(status)
    what = f" of {version}" if version else ""
    yield f"The earliest deploy{what} is at {stamp}{local}, {rows.until(stamp, now)}, when {when}."


def _passes(name: str, spec: BundleSpec) -> str:
    """What happens when a gate passes by itself."""
    gate = _GATES.get(name)
    return gate.ends(spec) if gate and gate.ends else f"gate {name} passes"


def _waiting_version(status: BundleStatus) -> str | None:
    """The version that waits: the newest one that a gate refused, or the resolved one."""
    reasons = {one.reason for one in status.gates if one.state != GateState.PASSED}
    held = (one.version for one in status.available.rejected if one.reason in reasons)
    version = next(held, status.available.version)
    return said(version) if version else None


def _ends_by_itself(found: GateStatus) -> bool:
    """When a plan expires, or is made again, nothing is deployed yet."""
    gate = _GATES.get(found.name or "")
    return found.state == GateState.WAITING and (gate is None or gate.ends is not None)


_REJECTED: dict[str, str] = {
    "OutOfRange": "isn't in the range {wanted}",
    "PreRelease": "is a pre-release; spec.prerelease: true admits them",
    "Filtered": "doesn't match spec.tagFilter",
    "Quarantined": "failed too often; {retry} retries it",
    "LowerThanDeployed": "is lower than the deployed version; to downgrade, set spec.version to it",
    "NotAVersion": "isn't a version: {message}",
    **{reason: text for gate in _GATES.values() for reason, text in gate.rejected.items()},
}

_OF_THE_TAG = {"OutOfRange", "PreRelease", "Filtered", "NotAVersion"}
"""Reasons for which a tag doesn't match."""

ASSUMED = " by default (WERF_OPERATOR_TIMER_INTERVAL of the operator isn't known)"


def explain_bundle(
    body: Mapping[str, Any],
    installation: Installation,
    now: datetime,
    polled: Collection[Ref] = (),
    freezes: Collection[Freeze] = (),
) -> Iterator[str]:
    """One sentence a line.

    `polled` are the objects of all Bundles that no watch covers, `freezes` those that concern it.
    """
    settings = installation.settings
    defaults = BundleDefaults(interval=settings.timer_interval, jobs_ttl=settings.jobs_ttl)
    spec, status = parse_bundle(body, defaults), parse_status(body)
    metadata = body["metadata"]
    shown = f"Bundle {metadata['namespace']}/{metadata['name']}"
    deployed = status.deployed
    if deployed.version:
        since = rows.age(deployed.time, now)
        digest = rows.digest(deployed.digest)
        yield f"{shown}: {deployed.version} ({digest}) is deployed, for {since}."
    else:
        yield f"{shown} hasn't been deployed yet."
    condition = rows.ready(body)
    if condition:
        yield f"Its status is {condition.get('reason')}: {condition.get('message')}"
    else:
        yield f"No operator has reconciled it yet; see: {hint('doctor')}"
    if isinstance(spec, InvalidSpec):
        return
    yield "Checks before the next deploy, in the order in which they are made:"
    yield from _gates(body, spec, status, now)
    if all(one.name != FREEZE.name for one in status.gates):
        for one in in_force(freezes, now):
            yield f"  {FREEZE.name}: nothing waits, but no deploy would begin: {sentence(one)}."
    yield from explain_next(spec, status, now)
    yield from _trust(status)
    yield from bundle_view.explain_soak(body, now)
    yield from explain_plan(body, now)
    yield from permissions.why_lines(body, spec, now)
    yield from bundle_view.explain_drift(body, spec, now)
    yield from bundle_view.explain_health(body, spec)
    if withheld := conditions_by_type(status.conditions).get(ConditionType.SETTINGS_WITHHELD):
        yield f"Settings are withheld: {said(withheld.get('message'), 2048)}"
    yield from _attempt(spec, status, now)
    yield from _poll(body, spec, status, now, known=installation.is_read)
    for ref in sorted(references_of(spec) & frozenset(polled), key=str):
        yield f"An edit of {ref} takes effect at the next poll only; {hint('doctor')} explains why."


def _hint(verb: str, spec: BundleSpec) -> str:
    return hint(verb, "bundle", f"{spec.namespace}/{spec.name}")


def _gates(
    body: Mapping[str, Any], spec: BundleSpec, status: BundleStatus, now: datetime
) -> Iterator[str]:
    """The checks of every Bundle, and the gates that this one requires, in their order."""
    annotations = body["metadata"].get("annotations") or {}
    if names.ANN_DISABLE_AUTOUPDATE in annotations:
        yield (
            f"  {names.ANN_DISABLE_AUTOUPDATE}: refused: the annotation stops polls and deploys "
            "until it is removed."
        )
    if spec.project_namespace != spec.namespace:
        text, accepted = consent_of(status.consent, spec.project_namespace)
        verdict = "waiting" if accepted is None else "passed" if accepted else "refused"
        yield f"  consent: {verdict}: the release in namespace {spec.project_namespace} {text}."
    yield from _version(spec, status)
    yield f"  downgrade: {_downgrade(status)}"
    yield f"  quarantine: {_quarantine(spec, status)}"
    if spec.suspend:
        yield (
            "  suspend: refused: spec.suspend is true: the registry is polled, but nothing is "
            f"deployed; {_hint('resume', spec)}"
        )
    for gate in status.gates:
        if gate.state == GateState.PASSED:
            by = f": {gate.message}" if gate.message else ""
            yield f"  {gate.name}: passed{by}."
            continue
        yield f"  {gate.name}: {_state(gate)}, {gate.reason}: {gate.message}{_ends(gate, now)}."


def _trust(status: BundleStatus) -> Iterator[str]:
    """The verdict on the signatures of what is deployed; nothing where none are required."""
    found = status.verification
    if found.verdict == Trust.TRUSTED:
        yield f"The deployed version is trusted: {found.message}."
    elif found.verdict == Trust.NOT_TRUSTED:
        yield (
            f"The deployed version isn't trusted ({found.reason}) and stays deployed: "
            f"{found.message}."
        )
    elif found.verdict == Trust.UNKNOWN:
        yield (
            f"Whether the deployed version is trusted isn't known ({found.reason}): "
            f"{found.message}."
        )


def _is_held_back(status: BundleStatus) -> bool:
    """Whether a tag that matches isn't deployed for another reason."""
    reasons = {one.reason for one in status.available.rejected}
    return bool(reasons - _OF_THE_TAG) or any(one.state != GateState.PASSED for one in status.gates)


def _version(spec: BundleSpec, status: BundleStatus) -> Iterator[str]:
    available = status.available
    where = f"{spec.registry}/{spec.repo}"
    if available.version:
        yield (
            f"  version: passed: {spec.version} of {where} resolves to {available.version} "
            f"({rows.digest(available.digest)})."
        )
    elif available.time and _is_held_back(status):
        yield f"  version: passed: tags of {where} match {spec.version}, but none may be deployed."
    elif available.time:
        yield f"  version: refused: no tag of {where} matches {spec.version}."
    else:
        yield "  version: waiting for the registry."
    for one in available.rejected:
        text = _REJECTED.get(str(one.reason), str(one.reason))
        shown = text.format(
            wanted=spec.version, retry=_hint("reconcile", spec), message=said(one.message, 512)
        )
        yield f"    rejected {one.version}: {shown}"


def _downgrade(status: BundleStatus) -> str:
    if ready_reason(status.conditions) != BundleReason.WOULD_DOWNGRADE:
        return "passed."
    return f"refused: what is left is lower than the deployed {status.deployed.version}."


def _quarantine(spec: BundleSpec, status: BundleStatus) -> str:
    attempt, failures = status.attempted, status.attempted.failures or 0
    if attempt.outcome != Outcome.FAILED or failures <= spec.retry.limit:
        return "passed."
    return f"refused: {attempt.version} failed {times(failures)}."


def _state(gate: GateStatus) -> str:
    return (gate.state or "").lower()


def _ends(gate: GateStatus, now: datetime) -> str:
    if not gate.until:
        return ""
    ends = _GATES[gate.name].until if gate.name in _GATES else "ends"
    ends = "the plan expires" if gate.reason == BundleReason.AWAITING_APPROVAL else ends
    return f"; {ends} {rows.until(gate.until, now)}"


def _attempt(spec: BundleSpec, status: BundleStatus, now: datetime) -> Iterator[str]:
    attempt = status.attempted
    if attempt.outcome == Outcome.RUNNING:
        yield f"{attempt.version} is being deployed by the Job {attempt.job}."
    if attempt.outcome not in (Outcome.FAILED, Outcome.INTERRUPTED):
        return
    failures = attempt.failures or 0
    yield f"The last attempt, {attempt.version}, {attempt.outcome}: {attempt.message}"
    if attempt.next_retry_at:
        yield f"It is retried {rows.until(attempt.next_retry_at, now)}."
    elif failures > spec.retry.limit:
        yield (
            f"It failed {times(failures)} and isn't retried until its tag, the spec or the values "
            f"change, or on request: {_hint('reconcile', spec)}"
        )
    yield f"werf's log: {_hint('logs', spec)}"


def _poll(
    body: Mapping[str, Any], spec: BundleSpec, status: BundleStatus, now: datetime, *, known: bool
) -> Iterator[str]:
    if names.ANN_DISABLE_AUTOUPDATE in (body["metadata"].get("annotations") or {}):
        return
    yield from _failed_polls(spec, status, now)
    every, said = format_duration(spec.interval), parse_time(status.next_poll_at)
    assumed = not known and not body["spec"].get("interval")
    how = f"every {every}{ASSUMED if assumed else ''}"
    if said is None:
        yield f"The registry is polled {how}."
        return
    wait = next_poll(said, interval_of(spec), now)
    if is_retried(status) and said < now:
        yield f"The registry is polled {how}, and now again sooner."
    else:
        yield f"The registry is polled {how}; next poll in {format_duration(wait)}."


def _failed_polls(spec: BundleSpec, status: BundleStatus, now: datetime) -> Iterator[str]:
    """The polls that have failed while Ready is kept."""
    failed, until = status.failed_polls, kept_until(status, spec)
    if until is None:
        return
    error, count = status.last_error, failed.count or 0
    enough = count >= ENOUGH_FAILED_POLLS
    number = f"{count} or more" if enough else f"{count}"
    yield (
        f"Polls have failed for {rows.age(failed.since, now)} ({number} in a row), the last one "
        f"with {error.reason}: {said(error.message, 512)}"
    )
    if spec.suspend:
        return  # Ready is kept for as long as that
    yield (
        f"If none succeeds, Ready becomes False {rows.until(format_time(until), now)}"
        f"{'' if enough else ', or sooner with the third failure'}."
    )


def is_retried(status: BundleStatus) -> bool:
    """Whether polls are made before the interval has passed, at times that no status has."""
    awaits = any(
        one.name == signature.GATE.name and one.state != GateState.PASSED for one in status.gates
    )
    return awaits or ready_reason(status.conditions) == BundleReason.TAG_NOT_FOUND


def next_poll(announced: datetime, interval: float, now: datetime) -> int:
    """Seconds until the next poll.

    A poll without a change doesn't write the status, so an announced time in the past is
    whole intervals ago.
    """
    wait = (announced - now).total_seconds()
    return int(wait if wait >= 0 else wait % interval) + 1
