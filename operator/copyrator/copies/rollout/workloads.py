"""Workloads whose pods use a copy: what their manifests show. Pure.

What a tenant wrote may have any shape where the API server allows it: a field that isn't of the
expected type counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Final

from copyrator.api import names
from copyrator.api.kstatus import Status, compute
from copyrator.api.rollout import Consumer, RolloutState
from copyrator.api.times import format_time, parse_time
from copyrator.settings.limits import UNHEALTHY_BEFORE

RESTARTED_FOR: Final = 10  # limit: copies, sources, consent
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
    metadata, spec = _map(body, "metadata"), _map(body, "spec")
    if not any(name in copies[1] for name in names_used(copies[0], _map(spec, "template"))):
        return None
    result = compute(kind, body)
    annotations = _map(metadata, "annotations")
    wants = annotations.get(names.ANN_RESTART) == "true" and spec.get("paused") is not True
    return ConsumerState(
        Consumer(str(metadata.get("namespace")), kind, str(metadata.get("name"))),
        healthy=result.status in _HEALTHY,
        lacks=_one_line(result.message or result.status.value),
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


def names_used(kind: str, template: Mapping[str, Any]) -> Iterator[str]:
    """The objects of a kind that a pod template names."""
    spec = _map(template, "spec")
    if kind == "ServiceAccount":
        yield _text(spec, "serviceAccountName")
        return
    yield from _in_volumes(kind, spec)
    for place in ("containers", "initContainers"):
        for container in _maps(spec, place):
            yield from _in_environment(kind, container)
    if kind == "Secret":
        for one in _maps(spec, "imagePullSecrets"):
            yield _text(one, "name")


def _in_volumes(kind: str, spec: Mapping[str, Any]) -> Iterator[str]:
    field, name = ("secret", "secretName") if kind == "Secret" else ("configMap", "name")
    for volume in _maps(spec, "volumes"):
        yield _text(_map(volume, field), name)
        for source in _maps(_map(volume, "projected"), "sources"):
            yield _text(_map(source, field), "name")


def _in_environment(kind: str, container: Mapping[str, Any]) -> Iterator[str]:
    key, whole = (
        ("secretKeyRef", "secretRef") if kind == "Secret" else ("configMapKeyRef", "configMapRef")
    )
    for one in _maps(container, "env"):
        yield _text(_map(_map(one, "valueFrom"), key), "name")
    for one in _maps(container, "envFrom"):
        yield _text(_map(one, whole), "name")


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


# --- fields --------------------------------------------------------------------------------------


def _map(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, Mapping) else {}


def _maps(found: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    value = found.get(name)
    return (
        (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else iter(())
    )


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    """Short, and without control characters: it may be another controller's."""
    cut = text[:_TEXT] + ("…" if len(text) > _TEXT else "")
    return "".join(one if one.isprintable() else " " for one in cut)
