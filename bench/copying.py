"""Copying beside the bare client: one source to many namespaces, many sources to new ones."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.objects import (
    creations,
    from_labelled,
    marked,
    namespace,
    secret,
    secret_path,
    to_labelled,
)
from bench.rig import Rig, span, until, verbs
from bench.scenario import Figures, Goal, Run, scenario
from localcluster.audit import AuditEvent

Body = dict[str, Any]

ONE_WRITE = Goal("writes per copy", "", 1.0)
NO_READ = Goal("reads per copy", "", 0.0)
CPU = Goal("CPU time per write", "ms")
RSS = Goal("memory afterwards", "MB")
REPORTED = 4.0
"""Seconds after which a burst's Events are written."""


@scenario(
    "fan-out",
    "One Secret of 2 KB into {size} namespaces, then its update, then the rule's deletion",
    size=1000,
    runs=11,
    goals={
        "create_ratio": Goal("creating, against the bare client", "times", 1.3),
        "update_ratio": Goal("updating, against the bare client", "times", 1.3),
        "create_unmarked_ratio": Goal("creating, against it without marks", "times", 1.5),
        "update_unmarked_ratio": Goal("updating, against it without marks", "times", 1.5),
        "delete_ratio": Goal("deleting, against the bare client", "times"),
        "create_seconds": Goal("creating", "s"),
        "bare_create_seconds": Goal("creating, bare client", "s"),
        "update_seconds": Goal("updating", "s"),
        "bare_update_seconds": Goal("updating, bare client", "s"),
        "writes_a_copy": ONE_WRITE,
        "reads_a_copy": NO_READ,
        "cpu_ms_a_write": CPU,
        "rss_mb": RSS,
        "peak_mb": Goal("memory, peak", "MB"),
    },
)
def fan_out(rig: Rig, size: int) -> Iterator[Run]:
    """One rule, one source."""
    label = f"fan-out-{size}"
    spaces = [f"{label}-{number:05}" for number in range(size)]
    rig.bare("POST", [namespace(space, {label: "yes"}) for space in spaces])
    rig.namespaces(f"{label}-source")
    source = secret_path(f"{label}-source", label)
    turns = itertools.count(1)
    with rig.operator() as operator:

        def run() -> Figures:
            first = next(turns)
            rig.api.create(secret_path(f"{label}-source"), secret(label, turn=first))
            unmarked, bare = _bare(rig, spaces, dict), _bare(rig, spaces, marked)
            operator.forget_peak()
            rig.rest()
            cpu, since = operator.cpu, rig.cluster.audit_offset()
            start = since
            rig.rule(
                label,
                {
                    "source": {"kind": "Secret", "namespace": f"{label}-source", "name": label},
                    "targets": to_labelled(label),
                },
            )
            rig.wait_copies(label, size)
            made = rig.written(since, rig.user)
            create = span(made, _asked(rig, since, "copyrators"))
            rig.rest()
            since = rig.cluster.audit_offset()
            rig.api.replace(source, secret(label, turn=-first))
            until(lambda: len(rig.written(since, rig.user)) >= size, "all are updated", 300)
            changed = rig.written(since, rig.user)
            update = span(changed, _asked(rig, since, "secrets"))
            rig.wait_copies(label, size)
            rig.rest()
            since = rig.cluster.audit_offset()
            rig.end_rule(label)
            removed = rig.written(since, rig.user)
            delete = span(removed, _asked(rig, since, "copyrators"))
            spent = operator.cpu - cpu
            rig.api.delete(source)
            return {
                "create_ratio": create / bare["POST"],
                "update_ratio": update / bare["PUT"],
                "create_unmarked_ratio": create / unmarked["POST"],
                "update_unmarked_ratio": update / unmarked["PUT"],
                "delete_ratio": delete / bare["DELETE"],
                "create_seconds": create,
                "bare_create_seconds": bare["POST"],
                "update_seconds": update,
                "bare_update_seconds": bare["PUT"],
                "writes_a_copy": max(len(made), len(changed), len(removed)) / size,
                "reads_a_copy": _reads(rig, start, f"{label}-source") / size,
                "cpu_ms_a_write": 1000 * spent / (3 * size),
                "rss_mb": operator.rss,
                "peak_mb": operator.peak,
            }

        yield run


def _bare(rig: Rig, spaces: list[str], mark: Callable[[Body], Body]) -> dict[str, float]:
    """Seconds that the bare client needs for the same writes, each with what ``mark`` adds."""
    seconds = {}
    made, changed = mark(secret("bare")), mark(secret("bare", turn=1))
    for method, body in (("POST", made), ("PUT", changed), ("DELETE", {})):
        rig.rest()
        since = rig.cluster.audit_offset()
        name = "" if method == "POST" else "bare"
        rig.bare(method, [(secret_path(space, name), body) for space in spaces])
        seconds[method] = span(rig.written(since, rig.bare_user))
    return seconds


def _asked(rig: Rig, since: int, resource: str) -> float:
    """When the user's request came in that all this follows from."""
    return min(
        event.began
        for event in rig.cluster.audit_events(since)
        if event.resource == resource
        and not event.user.startswith("system:serviceaccount:")
        and event.verb in ("create", "update", "delete")
    )


def _reads(rig: Rig, since: int, source: str) -> int:
    """Gets of Secrets elsewhere than in the sources' namespace."""
    seen = [e for e in rig.seen(since, rig.user) if e.resource == "secrets"]
    return verbs(e for e in seen if e.namespace != source)["get"]


_BURST = {
    "ratio": Goal("all, against the bare client", "times", 1.3),
    "seconds": Goal("all", "s"),
    "bare_seconds": Goal("all, bare client", "s"),
    "first_seconds": Goal("the first namespace is complete", "s", 1.0),
    "writes_a_copy": ONE_WRITE,
    "reads_a_copy": NO_READ,
    "statuses": Goal("writes of statuses"),
    "events": Goal("Events"),
    "cpu_ms_a_write": CPU,
    "rss_mb": RSS,
}


@scenario(
    "burst",
    "100 sources of one rule into 10 namespaces that are created at once ({size} copies)",
    size=1000,
    runs=11,
    goals=_BURST,
)
def burst(rig: Rig, size: int) -> Iterator[Run]:
    """A team is taken on: its namespaces come with all that every namespace gets."""
    yield from _bursts(rig, size, {"burst": from_labelled("burst-source", "burst")})


@scenario(
    "burst-rules",
    "100 rules with a source each, into 10 namespaces that are created at once ({size} copies)",
    size=1000,
    runs=11,
    goals=_BURST
    | {
        "statuses": Goal("writes of statuses", "", 100.0),
        "events": Goal("Events", "", 20.0),
    },
)
def burst_rules(rig: Rig, size: int) -> Iterator[Run]:
    """The same, and what every namespace gets is named by as many rules."""
    source = {"kind": "Secret", "namespace": "burst-source"}
    yield from _bursts(rig, size, {name: {**source, "name": name} for name in _names(size)})


def _names(size: int) -> list[str]:
    return [f"burst-{number:04}" for number in range(max(size // 10, 1))]


def _bursts(rig: Rig, size: int, sources: dict[str, dict[str, Any]]) -> Iterator[Run]:
    """Bursts of rules with these sources."""
    names = _names(size)
    count = len(names) * 10
    labels = {"burst": "yes"}
    rig.namespaces("burst-source")
    rig.bare("POST", [(secret_path("burst-source"), secret(n, labels=labels)) for n in names])
    for rule, source in sources.items():
        rig.rule(rule, {"source": source, "targets": to_labelled("target")})
    turns = itertools.count()
    with rig.operator() as operator:

        def run() -> Figures:
            turn = next(turns)
            bare_spaces = [f"burst-bare-{turn}-{number}" for number in range(10)]
            rig.rest()
            since = rig.cluster.audit_offset()
            rig.bare("POST", [namespace(space, {}) for space in bare_spaces])
            rig.bare("POST", creations(bare_spaces, names, **labels))
            bare = _without_the_gap(rig, since)
            spaces = [
                namespace(f"burst-{turn}-{number}", {"target": "yes"}) for number in range(10)
            ]
            rig.rest()
            cpu, since = operator.cpu, rig.cluster.audit_offset()
            rig.bare("POST", spaces)
            time.sleep(REPORTED)  # a look reads all rules, and nobody looks at the bare client
            until(lambda: rig.all_copies() == count, f"{count} copies", 60 + count / 50)
            spent = operator.cpu - cpu
            time.sleep(REPORTED)
            asked = min(e.began for e in rig.written(since, rig.bare_user, "namespaces"))
            made = rig.written(since, rig.user)
            seconds = span(made, asked)
            figures = {
                "ratio": seconds / bare,
                "seconds": seconds,
                "bare_seconds": bare,
                "first_seconds": _first_complete(made, len(names)) - asked,
                "writes_a_copy": len(made) / count,
                "reads_a_copy": _reads(rig, since, "burst-source") / count,
                "statuses": len(rig.written(since, rig.user, "copyrators")),
                "events": len(rig.written(since, rig.user, "events")),
                "cpu_ms_a_write": 1000 * spent / len(made),
                "rss_mb": operator.rss,
            }
            for path, body in spaces:
                unlabelled = {"metadata": {"labels": {"target": None}}}
                rig.api.patch(f"{path}/{body['metadata']['name']}", unlabelled)
            until(lambda: rig.all_copies() == 0, "all copies are deleted", 60 + count / 50)
            return figures

        yield run


def _without_the_gap(rig: Rig, since: int) -> float:
    """The bare client's two lots, without the start of a process between them."""
    spaces = rig.written(since, rig.bare_user, "namespaces")
    return span(spaces) + span(rig.written(since, rig.bare_user))


def _first_complete(made: list[AuditEvent], each: int) -> float:
    """When the first namespace had all its copies."""
    by_space: dict[str, list[float]] = {}
    for event in made:
        by_space.setdefault(event.namespace, []).append(event.ended)
    return min(max(ends) for ends in by_space.values() if len(ends) >= each)
