"""What is said of freezes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import GateState
from copyrator.api.conditions import ConditionType
from copyrator.api.names import ANN_FREEZE
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.notices import About
from copyrator.api.text import Detail, format_time, said, time_since, time_until
from copyrator.bundles.features.freeze.fields import (
    CONFIG_MAP,
    Freeze,
    in_force,
    read_annotation,
    read_config_map,
    sentence,
)
from copyrator.bundles.words import (
    Banner,
    Beside,
    DeployStep,
    Mark,
    Notice,
    Place,
    StepState,
    Told,
    View,
    Words,
)

GATE: Final = "freeze"
"""The gate's name; its module isn't imported, as lists need no more."""
_REASONS: Final = (BundleReason.FROZEN, BundleReason.FREEZE_UNREADABLE)


def freeze_of(namespace: Mapping[str, Any]) -> Freeze | None:
    """The freeze of a Namespace; None where it has none."""
    metadata = namespace["metadata"]
    value = (metadata.get("annotations") or {}).get(ANN_FREEZE)
    return None if value is None else read_annotation(metadata["name"], str(value))


def gap(unread: Sequence[str]) -> str:
    """What isn't known, as a sentence without its full stop; empty where all is."""
    if not unread:
        return ""
    return f"whether deploys are frozen isn't known: you can't read {', '.join(unread)}"


def _find(
    found: Sequence[object], now: datetime
) -> Callable[[Mapping[str, Any]], tuple[Freeze, ...]]:
    """Those in force for a Bundle: of all namespaces, of its own, and of its release's."""
    places: dict[object, list[tuple[int, Freeze]]] = {}
    for number, one in enumerate(in_force(freezes_in(found), now)):
        places.setdefault(one.namespace, []).append((number, one))

    def of(bundle: Mapping[str, Any]) -> tuple[Freeze, ...]:
        release = (bundle.get("spec") or {}).get("project_namespace")
        named = {"", bundle["metadata"]["namespace"], release if isinstance(release, str) else ""}
        near = [each for place in named for each in places.get(place, ())]
        return tuple(one for _, one in sorted(near, key=lambda each: each[0]))

    return of


def freezes_in(found: Iterable[object]) -> list[Freeze]:
    """The freezes of what was read beside Bundles."""
    return [one for one in found if isinstance(one, Freeze)]


def _remarks(found: Sequence[object], unread: Sequence[str]) -> Iterator[str]:
    yield from (f"No deploy begins: {sentence(one)}." for one in freezes_in(found))
    if text := gap(unread):
        yield f"{text[0].upper()}{text[1:]}."


def _banners(found: Sequence[object], now: datetime, hint: Callable[..., str]) -> Iterator[Banner]:
    """The freezes in force; that of all namespaces first."""
    for one in sorted(in_force(freezes_in(found), now), key=lambda one: one.namespace):
        where = f"the namespace {one.namespace}" if one.namespace else "all namespaces"
        label, title = f"Freeze of {where}", f"Deploys are frozen in {where}"
        if one.fault:
            yield Banner(GATE, label, title, f" because {said(one.fault, 1000)}")
            continue
        since = until = ""
        if one.since is not None:
            stamp = format_time(one.since)
            since = f"since {stamp} ({time_since(stamp, now)} ago)"
        if one.until is not None:
            stamp = format_time(one.until)
            until = f"until {stamp} ({time_until(stamp, now)})"
        who = f"By {said(one.who)}" if one.who else ""
        yield Banner(
            GATE,
            label,
            title,
            f": {said(one.reason, 600)}" if one.reason else "; no reason is given",
            notes=[text for text in (who, since, until or "until somebody ends it") if text],
            command=hint("thaw", *(("-n", one.namespace) if one.namespace else ("--all",))),
        )


BESIDE: Final = Beside(
    what="freezes",
    config_map=CONFIG_MAP,
    of_config_map=read_config_map,
    of_namespace=freeze_of,
    find=_find,
    remarks=_remarks,
    banners=_banners,
)


class FreezeWords(Words):
    """A freeze is said also where nothing waits for it yet, so that no status has it."""

    beside = BESIDE
    tells_ready = _REASONS

    def marks(self, view: View) -> Iterator[Mark]:
        """Beside other reasons of Ready."""
        frozen = freezes_in(view.beside) or GATE in view.summary.open_gates
        if frozen and view.summary.ready_reason not in _REASONS:
            yield Mark(0, "Frozen")

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """The freezes, and whether there may be others."""
        if place is Place.STATE:
            for one in freezes_in(view.beside):
                yield Detail("Frozen", sentence(one))
            if text := gap(view.unread):
                yield Detail("Frozen", f"unknown: {text}")

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """The same, where the gate isn't among the checks; and the end of a freeze."""
        if place is Place.NEWS:
            yield from map(sentence, freezes_in(view.beside))
        elif place is Place.RETRY and (GATE in view.summary.open_gates or freezes_in(view.beside)):
            yield "the freeze ends"
        elif place is Place.STATE and all(one.name != GATE for one in view.status.gates):
            for one in freezes_in(view.beside):
                yield f"  {GATE}: nothing waits, but no deploy would begin: {sentence(one)}."
            if text := gap(view.unread):
                yield f"  {GATE}: unknown: {text}."

    def steps(self, view: View, spec: BundleSpec, place: Place) -> Iterator[DeployStep]:  # noqa: ARG002
        """A step for each freeze."""
        for one in freezes_in(view.beside) if place is Place.STATE else ():
            until = format_time(one.until) if one.until else ""
            yield DeployStep(GATE, StepState.WAITING, sentence(one), until=until, ends="ends")

    def notices(self, told: Told) -> Iterator[Notice]:
        """That a deploy waits for its end."""
        waiting = (one for one in told.status.gates if one.state != GateState.PASSED)
        if (gate := next((one for one in waiting if one.reason in _REASONS), None)) is not None:
            pending = told.status.condition(ConditionType.UPDATE_PENDING)
            since, message = pending.last_transition_time or "", gate.message or ""
            what, key = "waits, because deploys are frozen", f"{since} {gate.reason}"
            yield Notice(5, About.FROZEN, what, since, key, message, told.why)


WORDS: Final = FreezeWords()
