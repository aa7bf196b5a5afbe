"""The steps of a rollout: where changed content may be written, and when. Pure.

A target is *old* while it has a copy with other content than the rule wants. Only old targets wait
for a step: what is missing is created with the new content at once. Each step covers the first so
many targets, in an order that doesn't depend on what was written already, so nothing but the state
in the status is needed to continue.

Consumers are the workloads that use a copy: whether they are healthy, and how they are restarted.
What a tenant wrote may have any shape where the API server allows it: a field that isn't of the
expected type counts as absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final

from copyrator.api import names
from copyrator.api.kstatus import Status, compute
from copyrator.api.rollout import UNHEALTHY_BEFORE, Consumer, Rollout, RolloutState
from copyrator.api.schema import map_in, maps_in, text_in
from copyrator.api.structs import replace
from copyrator.api.text import format_time, parse_time, printable_start


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a rule wants now, compared with its copies."""

    content: str
    targets: int
    """Namespaces that get copies."""
    old: int
    """Of these, how many are old."""


@dataclass(frozen=True, slots=True)
class TargetNamespace:
    """A namespace that gets copies."""

    name: str
    labels: Mapping[str, str]
    created: str = ""
    """creationTimestamp."""


def in_order(rollout: Rollout, targets: Iterable[TargetNamespace], began: datetime) -> list[str]:
    """Namespaces in the order of the steps: first those that are selected, then by name.

    Those that were created after a rollout `began` have the new content, and come last, so that
    they don't replace others in a step.
    """
    since, first = format_time(began), rollout.first

    def rank(one: TargetNamespace) -> tuple[bool, bool, str]:
        is_new = one.created >= since
        return is_new, first is None or not first.matches(one.labels), one.name

    return [one.name for one in sorted(targets, key=rank)]


def began(before: RolloutState | None, content: str, now: datetime) -> datetime:
    """When the rollout of a content began; now where it hasn't."""
    if before is not None and before.content == content and before.started_at is not None:
        return before.started_at
    return _whole(now)


def begin(
    rollout: Rollout, before: RolloutState | None, wanted: Wanted, now: datetime
) -> RolloutState:
    """The state for the wanted content: the known one, a new one, or a finished one."""
    if before is not None and before.content == wanted.content:
        last = len(rollout.steps)
        return before if before.step <= last else replace(before, step=last)
    if not wanted.old:
        return RolloutState(wanted.content)
    previous = _held_by_most(rollout, before, wanted.targets)
    if previous == wanted.content and 2 * wanted.old < wanted.targets:
        return RolloutState(wanted.content)  # a change back
    return RolloutState(wanted.content, step=1, previous=previous, started_at=_whole(now))


def _held_by_most(rollout: Rollout, before: RolloutState | None, targets: int) -> str:
    """The content that most copies had before a change."""
    if before is None:
        return ""
    if not before.running:
        return before.content
    step = min(before.step, len(rollout.steps))
    covered = rollout.totals(targets)[step - 1]
    return before.content if 2 * covered > targets else before.previous


def share(rollout: Rollout, step: int, ordered: Sequence[str]) -> Sequence[str]:
    """The namespaces that have the new content after a step."""
    return ordered[: rollout.totals(len(ordered))[step - 1]]


def portion(rollout: Rollout, step: int, ordered: Sequence[str]) -> Sequence[str]:
    """The namespaces that a step adds to those of the steps before."""
    totals = [0, *rollout.totals(len(ordered))]
    earlier = [total for total in totals[:step] if total < totals[step]]
    return ordered[max(earlier, default=0) : totals[step]]


def next_step(rollout: Rollout, step: int, targets: int) -> int:
    """The step after this one that covers more targets; 0: there is none."""
    totals = rollout.totals(targets)
    after = range(step + 1, len(totals) + 1)
    return next((one for one in after if totals[one - 1] > totals[step - 1]), 0)


def paused(state: RolloutState, now: datetime, seconds: float) -> RolloutState:
    """The same after everything of the step was written, or has failed."""
    return replace(state, next_at=_whole(now + timedelta(seconds=seconds)))


def _whole(moment: datetime) -> datetime:
    """Round up to whole seconds, as a status has them: a pause is never shorter than the spec's."""
    return datetime.fromtimestamp(math.ceil(moment.timestamp()), UTC)


class RolloutBarrier:
    """Closed until its rule has decided about the present content."""

    __slots__ = ("_everywhere", "_share", "portion", "step", "stopped")

    def __init__(self) -> None:
        self.close()

    def close(self) -> None:
        """Write no changed content."""
        self._everywhere = False
        self._share: frozenset[str] = frozenset()
        self.portion: Sequence[str] = ()
        """The namespaces that the open step adds."""
        self.step = 0
        """The step that it is open for; 0: none."""
        self.stopped = False
        """Nothing is changed at all, not even back to the new content."""

    def open(self) -> None:
        """Write all that is wanted: no rollout is in progress."""
        self.close()
        self._everywhere = True

    def admit(self, step: int, namespaces: Iterable[str], portion: Sequence[str] = ()) -> None:
        """Write changed content in these namespaces."""
        self.close()
        self.step = step
        self.portion = portion
        self._share = frozenset(namespaces)

    def stop(self) -> None:
        """Change nothing until the next decision."""
        self.stopped = True

    def holds(self, namespace: str, *, old: bool) -> bool:
        """Whether a copy there isn't written now: an old one, or one that was edited."""
        if self.stopped:
            return True
        return old and not self._everywhere and namespace not in self._share

    def __contains__(self, namespace: str) -> bool:
        return self._everywhere or namespace in self._share


RESTARTED_FOR: Final = 10
"""Rules that a consumer's annotation names as the reason of its restarts: the latest ones."""

COPIES_USED: Final = ("ConfigMap", "Secret", "ServiceAccount")
"""Kinds that a pod can name."""
_MARKS: Final = 8192
"""Characters that are read of the annotation with the marks."""
_TEXT: Final = 200
"""Characters of the reason why a consumer isn't healthy."""
_HEALTHY: Final = (Status.CURRENT, Status.TERMINATING)
"""One that is being deleted counts as gone."""


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """A consumer as it was read."""

    consumer: Consumer
    healthy: bool = True
    lacks: str = ""
    created: datetime | None = None
    may_restart: bool = False
    """It has the annotation, and isn't paused."""
    restarted_for: Mapping[str, str] = field(default_factory=dict)
    """The content that it was last restarted for, by rule (``namespace/name``)."""

    @property
    def matters(self) -> bool:
        """Whether anything may depend on it: most consumers are healthy and aren't restarted."""
        return self.may_restart or not self.healthy


def read_consumer(
    kind: str, body: Mapping[str, Any], copies: tuple[str, frozenset[str]]
) -> ConsumerState | None:
    """A workload of this kind; None where its pods use none of the copies (kind and names)."""
    metadata, spec = map_in(body, "metadata"), map_in(body, "spec")
    if not any(name in copies[1] for name in names_used(copies[0], map_in(spec, "template"))):
        return None
    result = compute(kind, body)
    annotations = map_in(metadata, "annotations")
    wants = annotations.get(names.ANN_RESTART) == "true" and spec.get("paused") is not True
    return ConsumerState(
        Consumer(str(metadata.get("namespace")), kind, str(metadata.get("name"))),
        healthy=result.status in _HEALTHY,
        lacks=printable_start(result.message or result.status.value, _TEXT),
        created=parse_time(metadata.get("creationTimestamp")),
        may_restart=wants and result.status is not Status.TERMINATING,
        restarted_for=_contents(annotations.get(names.ANN_RESTARTED_FOR)),
    )


def _contents(text: Any) -> dict[str, str]:
    """``ops/creds=HASH,ops/ca=HASH``."""
    parts = text[:_MARKS].split(",") if isinstance(text, str) else []
    pairs = (part.partition("=") for part in parts)
    return {rule: content for rule, sign, content in pairs if sign}


# --- what a pod names ----------------------------------------------------------------------------


_REFERENCES: Final = {
    "ConfigMap": ("configMap", "name", "configMapKeyRef", "configMapRef"),
    "Secret": ("secret", "secretName", "secretKeyRef", "secretRef"),
}
"""By kind: a volume's field and that of the name in it, the fields of env and envFrom."""


def names_used(kind: str, template: Mapping[str, Any]) -> Iterator[str]:
    """The objects of a kind, one of COPIES_USED, that a pod template names."""
    spec = map_in(template, "spec")
    if kind not in _REFERENCES:
        yield text_in(spec, "serviceAccountName")
        return
    volume, name, key, whole = _REFERENCES[kind]
    for one in maps_in(spec, "volumes"):
        yield text_in(map_in(one, volume), name)
        for source in maps_in(map_in(one, "projected"), "sources"):
            yield text_in(map_in(source, volume), "name")
    for container in (*maps_in(spec, "containers"), *maps_in(spec, "initContainers")):
        for one in maps_in(container, "env"):
            yield text_in(map_in(map_in(one, "valueFrom"), key), "name")
        for one in maps_in(container, "envFrom"):
            yield text_in(map_in(one, whole), "name")
    if kind == "Secret":
        for one in maps_in(spec, "imagePullSecrets"):
            yield text_in(one, "name")


# --- decisions -----------------------------------------------------------------------------------


def unhealthy(seen: Iterable[ConsumerState]) -> tuple[str, ...]:
    """The consumers that aren't healthy before a step; at most UNHEALTHY_BEFORE."""
    found = sorted(one.consumer.to_string() for one in seen if not one.healthy)
    return tuple(found[:UNHEALTHY_BEFORE])


def merge_unhealthy(*found: tuple[str, ...]) -> tuple[str, ...]:
    """The consumers of several such lists; at most UNHEALTHY_BEFORE."""
    return tuple(sorted(set(chain.from_iterable(found)))[:UNHEALTHY_BEFORE])


def newly_unhealthy(state: RolloutState, seen: Iterable[ConsumerState]) -> ConsumerState | None:
    """The first consumer that was healthy before the step and isn't now.

    One that was created after the rollout began wasn't healthy before.
    """
    known, began = set(state.unhealthy_before), state.started_at
    found = [
        one
        for one in seen
        if not one.healthy
        and one.consumer.to_string() not in known
        and not (one.created and began and one.created > began)
    ]
    return min(found, key=lambda one: one.consumer, default=None)


@dataclass(frozen=True, slots=True)
class RestartCause:
    """Why consumers are restarted."""

    rule: str
    """``namespace/name``."""
    content: str
    back: bool = False
    """A change back: only those that were restarted for another content."""


def to_restart(cause: RestartCause, seen: Iterable[ConsumerState]) -> Sequence[ConsumerState]:
    """Those to restart: once for each content."""
    found = []
    for one in seen:
        last = one.restarted_for.get(cause.rule, "")
        if one.may_restart and last != cause.content and (last or not cause.back):
            found.append(one)
    return found


def restart_patch(one: ConsumerState, cause: RestartCause, now: datetime) -> dict[str, Any]:
    """What ``kubectl rollout restart`` patches, and the mark that it was done."""
    others = [pair for pair in one.restarted_for.items() if pair[0] != cause.rule]
    marks = [*others, (cause.rule, cause.content)][-RESTARTED_FOR:]
    template = {"metadata": {"annotations": {_RESTARTED_AT: format_time(now)}}}
    return {
        "metadata": {
            "annotations": {names.ANN_RESTARTED_FOR: ",".join(map("=".join, marks))},
        },
        "spec": {"template": template},
    }


_RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
