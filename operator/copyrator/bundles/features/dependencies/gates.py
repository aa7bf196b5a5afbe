"""The gate of ``spec.dependsOn``, and why a Bundle that is named there is waited for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import PAUSES, ConditionStatus, ConditionType
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import first_of
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Verdict,
    Waiting,
    uses,
)
from copyrator.bundles.engine.links import Link
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.features.dependencies.reasons import DependenciesReason

MAX_CAUSE: Final = 300
"""Characters of the reason and message that are named of a Bundle that isn't Ready."""
_NAMED_BUNDLES: Final = 3


@dataclass(frozen=True, slots=True)
class Unready:
    """Why Bundles of ``spec.dependsOn`` aren't Ready, a sentence for each that isn't."""

    texts: tuple[str, ...]


def find_unready(bundles: BundleCache, spec: BundleSpec) -> Unready:
    """The Bundles that this one waits for.

    Of a Bundle of another namespace the sentence is always the same, also where it doesn't exist:
    it may be another team's, whose objects must not be disclosed.
    """
    named = spec.part(DependenciesSpec).depends_on
    found = (_unready_text(key, bundles.get(key), spec) for key in named)
    return Unready(tuple(text for text in found if text))


def _unready_text(key: BundleKey, entry: BundleEntry | None, spec: BundleSpec) -> str:
    if not (fault := find_fault(entry)):
        return ""
    if key.namespace != spec.namespace:
        fault = "isn't Ready (or not Healthy, where that is watched), or doesn't exist"
    return f"Bundle {key.namespace}/{key.name} {fault}"


def find_fault(entry: BundleEntry | None) -> str:
    """Why a Bundle doesn't run, and well, all that its spec requests; empty where it does."""
    if entry is None or entry.deleting:
        return "doesn't exist" if entry is None else "is being deleted"
    status, reason, fault = entry.status, entry.status.ready_reason, ""
    if status.observed_generation != entry.generation:
        edited = "has an edit that" if status.observed_generation else "is new, and"
        return f"{edited} isn't reconciled yet"
    if reason in PAUSES:
        fault = _find_suspended_fault(entry)
    elif reason != BundleReason.DEPLOYED:
        fault = f"isn't Ready: {_cut(reason, status.condition(ConditionType.READY).message)}"
    elif status.failed_polls.count:
        error = status.last_error
        fault = f"is Ready, but its last poll failed: {_cut(error.reason, error.message)}"
    return fault or _find_condition_fault(entry)


def _find_suspended_fault(entry: BundleEntry) -> str:
    """Why a Bundle doesn't run all that its spec requests although it is suspended; else empty.

    While polls are off nothing tells what an edit would deploy.
    """
    status, kept = entry.status, entry.status.suspension
    if not (entry.is_paused or (isinstance(entry.spec, BundleSpec) and entry.spec.suspend)):
        return "was resumed, and isn't reconciled since"
    if kept.status != ConditionStatus.TRUE:
        ready = status.condition(ConditionType.READY)
        return f"isn't Ready: {_cut(status.ready_reason, ready.message)}"
    is_edited = status.deployed.spec_hash != entry.spec_hash
    if entry.is_paused and (is_edited or entry.generation > (kept.generation or 0)):
        return f"was edited while the annotation {ANN_DISABLE_AUTOUPDATE} disables its updates"
    if is_edited or kept.pending:
        return f"is suspended, and doesn't run what it asks for: {kept.pending or 'it was edited'}"
    if status.last_error.reason and not entry.is_paused:
        error = status.last_error
        return f"is suspended, and has an error: {_cut(error.reason, error.message)}"
    return ""


def _find_condition_fault(entry: BundleEntry) -> str:
    """The first condition that its features require and that isn't True; else empty."""
    for kind in entry.spec.required if isinstance(entry.spec, BundleSpec) else ():
        found = entry.status.condition(kind)
        if found.status != ConditionStatus.TRUE:
            text = _cut(found.reason, found.message)
            return f"is Ready, but isn't {kind}{': ' * bool(found)}{text}"
    return ""


def _cut(reason: str | None, message: str | None) -> str:
    """A reason and its message, shortened; empty without either."""
    text = ": ".join(filter(None, (reason, message))).rstrip(". ")
    return text if len(text) <= MAX_CAUSE else f"{text[:MAX_CAUSE].rsplit(' ', 1)[0]} …"


def _judge_bundles(
    _spec: BundleSpec, _candidate: Candidate, facts: Facts, _now: datetime
) -> Verdict:
    found = facts.findings.of(Unready)
    if found is None or not found.texts:
        return PASSED
    text = first_of(found.texts, _NAMED_BUNDLES)
    return Waiting(DependenciesReason.DEPENDENCY_NOT_READY, text)


LINK: Final = Link(
    field="spec.dependsOn",
    verb="depends on",
    part=DependenciesSpec,
    named=lambda part: part.depends_on,
)
GATE: Final = Gate(
    name="dependsOn",
    concerns=uses(DependenciesSpec),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge_bundles,
    link=LINK,
    find=lambda bundles, spec, _: find_unready(bundles, spec),
)
"""A new version waits until the Bundles of ``spec.dependsOn`` are Ready.

Ready means that all that their spec requests is deployed. A newer version of them may not have been
found yet, so their versions have to be pushed first.
"""

GATES: Final = Gates(moment=(GATE,))
