"""Why a Bundle runs its version, and not another: from its status alone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    ENOUGH_FAILED_POLLS,
    BundleStatus,
    GateState,
    GateStatus,
    Outcome,
)
from copyrator.api.conditions import ConditionType
from copyrator.api.reasons.bundles import BundleReason, Rejection
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import (
    Detail,
    detail_lines,
    format_time,
    parse_time,
    said,
    short_digest,
    time_since,
    time_until,
    times,
)
from copyrator.bundles.engine.gate import load_gates
from copyrator.bundles.engine.poll import kept_until
from copyrator.bundles.fields import bundle_reasons
from copyrator.bundles.words import (
    DeployStep,
    Opening,
    Place,
    StepState,
    lines_at,
    load_words,
    rows_at,
)
from copyrator.cli.bundles.permissions import explain_permissions
from copyrator.cli.core.faults import hint
from copyrator.cli.view.bundle import (
    BundleView,
    describe_gates,
    describe_next_poll,
    next_attempt,
)

if TYPE_CHECKING:
    from copyrator.bundles.engine.references import Ref

_GATES = {gate.name: gate for gate in load_gates()}


def next_chance(spec: BundleSpec, status: BundleStatus) -> Opening | None:
    """The time when all gates that haven't passed will have, and a deploy may begin.

    None where all gates have passed, or where something else than time has to change.
    """
    objecting = [one for one in status.gates if one.state != GateState.PASSED]
    ends = [parse_time(one.until) if _ends_by_itself(one) else None for one in objecting]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends) or spec.suspend:
        return None
    moment = max(known)
    openings = (one.opens(spec, moment) for one in load_words())
    found = next(filter(None, openings), Opening(moment))
    return None if found.at is None else found


def explain_next(spec: BundleSpec, status: BundleStatus, now: datetime) -> Iterator[str]:
    """The sentence for `copyrator why`; nothing where no time is known."""
    found = next_chance(spec, status)
    if found is None:
        return
    moment, zone, gate = found
    assert moment is not None
    stamp = format_time(moment)
    local = f" ({moment.astimezone(zone):%A %H:%M} {zone.key})" if zone else f" ({moment:%A})"
    names = [one.name or "" for one in status.gates if one.state != GateState.PASSED]
    if gate and gate not in names:
        names.append(gate)
    when = " and ".join(_passes(name, spec) for name in names)
    version = waiting_version(status)
    what = f" of {version}" if version else ""
    yield f"The earliest deploy{what} is at {stamp}{local}, {time_until(stamp, now)}, when {when}."


def _passes(name: str, spec: BundleSpec) -> str:
    """What happens when a gate passes by itself."""
    gate = _GATES.get(name)
    return gate.ends(spec) if gate and gate.ends else f"gate {name} passes"


def waiting_version(status: BundleStatus) -> str | None:
    """The version that waits: the newest one that a gate refused, or the resolved one."""
    reasons = {one.reason for one in status.gates if one.state != GateState.PASSED}
    held = (one.version for one in status.available.rejected if one.reason in reasons)
    version = next(held, status.available.version)
    return said(version) if version else None


def _ends_by_itself(found: GateStatus) -> bool:
    """When a plan expires, or is made again, nothing is deployed yet."""
    gate = _GATES.get(found.name or "")
    return found.state == GateState.WAITING and (gate is None or gate.ends is not None)


_SUBJECT: Final = "the version "
_REJECTED: Final[Mapping[str, str]] = {
    one: one.meaning.removeprefix(_SUBJECT)
    for one in (*bundle_reasons().values(), *Rejection)
    if one.meaning.startswith(_SUBJECT)
}
"""What is said of a tag, by the reason why it is rejected."""
_OF_THE_TAG: Final = frozenset(Rejection) - {Rejection.QUARANTINED, Rejection.LOWER_THAN_DEPLOYED}
"""Reasons for which a tag doesn't match."""


def explain_bundle(view: BundleView, polled: Collection[Ref] = ()) -> Iterator[str]:
    """One sentence a line; `polled` are the objects of all Bundles that no watch covers."""
    spec, status, now = view.spec, view.status, view.now
    shown, deployed = f"Bundle {view.name}", status.deployed
    if deployed.version:
        since = time_since(deployed.time, now)
        digest = short_digest(deployed.digest)
        yield f"{shown}: {deployed.version} ({digest}) is deployed, for {since}."
    else:
        yield f"{shown} hasn't been deployed yet."
    if condition := status.condition(ConditionType.READY):
        yield f"It is {view.state}: {condition.reason}: {condition.message}"
    else:
        yield f"No operator has reconciled it yet; see: {hint('doctor')}"
    if isinstance(spec, InvalidSpec):
        return
    yield f"Its gates: {describe_gates(view)}."
    yield "Checks before the next deploy, in the order in which they are made:"
    for step in list_checks(view, spec):
        yield from step.lines(now)
    yield from lines_at(view, Place.STATE)
    yield from explain_next(spec, status, now)
    yield from detail_lines(rows_at(view, Place.TRUST, Place.HISTORY))
    yield from lines_at(view, Place.HISTORY)
    yield from detail_lines(rows_at(view, Place.PLAN))
    yield from explain_permissions(view, spec)
    yield from detail_lines(rows_at(view, Place.RELEASE, Place.OBJECTS))
    if withheld := status.condition(ConditionType.SETTINGS_WITHHELD):
        yield f"Settings are withheld: {said(withheld.message, 2048)}"
    yield from _attempt(view, spec)
    yield from lines_at(view, Place.SOURCE)
    yield from _failed_polls(spec, status, now)
    yield Detail("Next poll", describe_next_poll(view)).line
    if polled:
        from copyrator.bundles.engine.references import references_of  # noqa: PLC0415 - rarely needed

        for ref in sorted(references_of(spec) & frozenset(polled), key=str):
            why = f"{hint('doctor')} explains why"
            yield f"An edit of {ref} takes effect at the next poll only; {why}."


_STATES: Final[Mapping[str | None, StepState]] = {
    GateState.PASSED: StepState.PASSED,
    GateState.WAITING: StepState.WAITING,
}


def list_checks(view: BundleView, spec: BundleSpec) -> Iterator[DeployStep]:
    """The checks of every Bundle, and the gates that this one requires, in their order."""
    status = view.status
    if names.ANN_DISABLE_AUTOUPDATE in view.annotations:
        text = "the annotation stops polls and deploys until it is removed"
        yield DeployStep(names.ANN_DISABLE_AUTOUPDATE, StepState.REFUSED, text)
    yield from _steps_at(view, spec, Place.NAMESPACE)
    yield _version(view, spec)
    yield from _steps_at(view, spec, Place.VERSIONS)
    if status.ready_reason == BundleReason.WOULD_DOWNGRADE:
        text = f"what is left is lower than the deployed {status.deployed.version}"
        yield DeployStep("downgrade", StepState.REFUSED, text)
    else:
        yield DeployStep("downgrade", StepState.PASSED)
    if is_quarantined(spec, status):
        attempt = status.attempted
        text = f"{attempt.version} failed {times(attempt.failures or 0)}"
        yield DeployStep("quarantine", StepState.REFUSED, text)
    else:
        yield DeployStep("quarantine", StepState.PASSED)
    if spec.suspend:
        text = "spec.suspend is true: the registry is polled, but nothing is deployed"
        yield DeployStep("suspend", StepState.REFUSED, text, command=view.hint("resume"))
    for gate in status.gates:
        passed = gate.state == GateState.PASSED
        yield DeployStep(
            gate.name or "",
            _STATES.get(gate.state, StepState.REFUSED),
            gate.message or "",
            reason="" if passed else gate.reason or "",
            until="" if passed else gate.until or "",
            ends=_ends(gate),
        )


def _steps_at(view: BundleView, spec: BundleSpec, place: Place) -> Iterator[DeployStep]:
    """The checks of features at a place."""
    for one in load_words():
        yield from one.steps(view, spec, place)


def is_quarantined(spec: BundleSpec, status: BundleStatus) -> bool:
    """Whether what was tried last failed so often that it isn't tried again by itself."""
    attempt = status.attempted
    return attempt.outcome == Outcome.FAILED and (attempt.failures or 0) > spec.retry.limit


def list_steps(view: BundleView, spec: BundleSpec) -> list[DeployStep]:
    """The checks with those that weren't made, and the deploy at the end."""
    found = list(list_checks(view, spec))
    known = {one.name for one in found}
    missing = [
        DeployStep(gate.name, StepState.NOT_REACHED)
        for gate in _GATES.values()
        if gate.name not in known and gate.is_permanent and gate.concerns(spec)
    ]
    missing += (step for step in _steps_at(view, spec, Place.STATE) if step.name not in known)
    order = {name: number for number, name in enumerate(_GATES, 1)}
    steps = sorted((*found, *missing), key=lambda one: order.get(one.name, 0))
    return [*steps, _deploy_step(view, is_free=all(one.state is StepState.PASSED for one in steps))]


def _deploy_step(view: BundleView, *, is_free: bool) -> DeployStep:
    status = view.status
    attempt, there = status.attempted, status.deployed
    wanted = status.pin if status.pin.digest else status.available
    if attempt.is_running:
        text = f"{said(attempt.version)} is being deployed by the Job {said(attempt.job)}"
        since = time_since(attempt.started_at, view.now)
        return DeployStep("deploy", StepState.WAITING, f"{text}, for {since}")
    if attempt.outcome in (Outcome.FAILED, Outcome.INTERRUPTED):
        word = "failed" if attempt.outcome == Outcome.FAILED else "was interrupted"
        many = attempt.failures or 0
        text = f"{said(attempt.version)} {word}{f' {times(many)}' if many > 1 else ''}"
        return DeployStep(
            "deploy",
            StepState.FAILED,
            text,
            reason=said(attempt.reason) if attempt.reason else "",
            until=(attempt.next_retry_at or "") if is_free else "",
            ends="is retried",
            command=view.hint("logs"),
        )
    if not is_free or not wanted.version:
        text = f"{said(there.version)} stays deployed" if there.version else ""
        return DeployStep("deploy", StepState.NOT_REACHED, text)
    if there.digest == wanted.digest:
        text = f"{said(there.version)} is deployed, for {time_since(there.time, view.now)}"
        return DeployStep("deploy", StepState.PASSED, text)
    return DeployStep("deploy", StepState.WAITING, f"that of {said(wanted.version)} begins soon")


def _version(view: BundleView, spec: BundleSpec) -> DeployStep:
    available, gates = view.status.available, view.status.gates
    others = {one.reason for one in available.rejected} - _OF_THE_TAG
    where = f"{spec.registry}/{spec.repo}"
    state = StepState.REFUSED
    if available.version:
        digest = short_digest(available.digest)
        text = f"{spec.version} of {where} resolves to {available.version} ({digest})"
        state = StepState.PASSED
    elif available.time and (others or any(one.state != GateState.PASSED for one in gates)):
        if any(one.state == GateState.WAITING for one in gates):
            state = StepState.WAITING
        text = f"tags of {where} match {spec.version}, but none may be deployed now (see below)"
    elif available.time:
        text = f"no tag of {where} matches {spec.version}"
    else:
        state, text = StepState.WAITING, "the registry hasn't answered yet"
    rejected = []
    for one in available.rejected:
        cause = _REJECTED.get(str(one.reason), str(one.reason))
        retry, message = view.hint("reconcile"), said(one.message, 512)
        cause = cause.format(wanted=spec.version, retry=retry, message=message)
        rejected.append((str(one.version), cause))
    return DeployStep("version", state, text, rejected=rejected)


def _ends(gate: GateStatus) -> str:
    """What happens at the time of a gate's verdict, as a verb."""
    for one in load_words():
        if ends := one.ends(gate):
            return ends
    return _GATES[gate.name].until if gate.name in _GATES else "ends"


def _attempt(view: BundleView, spec: BundleSpec) -> Iterator[str]:
    attempt = view.status.attempted
    if attempt.outcome == Outcome.RUNNING:
        yield f"{attempt.version} is being deployed by the Job {attempt.job}."
    if attempt.outcome not in (Outcome.FAILED, Outcome.INTERRUPTED):
        return
    failures = attempt.failures or 0
    ready = view.status.condition(ConditionType.READY).message or ""
    said_before = not attempt.message or attempt.message in ready
    why = "." if said_before else f": {attempt.message}"
    yield f"The last attempt, {attempt.version}, {attempt.outcome}{why}"
    if attempt.next_retry_at:
        yield f"It is retried {next_attempt(view)}."
    elif failures > spec.retry.limit:
        yield (
            f"It failed {times(failures)} and isn't retried until its tag, the spec or the values "
            f"change, or on request: {view.hint('reconcile')}"
        )
    yield f"werf's log: {view.hint('logs')}"


def _failed_polls(spec: BundleSpec, status: BundleStatus, now: datetime) -> Iterator[str]:
    """The polls that have failed while Ready is kept."""
    failed, until = status.failed_polls, kept_until(status, spec)
    if until is None:
        return
    error, number = status.last_error, failed.count or 0
    enough = number >= ENOUGH_FAILED_POLLS
    shown = f"{number} or more" if enough else f"{number}"
    yield (
        f"Polls have failed for {time_since(failed.since, now)} ({shown} in a row), the last one "
        f"with {error.reason}: {said(error.message, 512)}"
    )
    if spec.suspend:
        return  # Ready is kept for as long as that
    yield (
        f"If none succeeds, Ready becomes False {time_until(format_time(until), now)}"
        f"{'' if enough else ', or sooner with the third failure'}."
    )
