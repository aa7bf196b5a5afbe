"""Why a rule is in its state: pure, from the object and the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from copyrator.cli import certificate_state, grouping, rollout_state, rows, rule_rows
from copyrator.cli.grouping import Sample
from copyrator.cli.hints import hint_about

Body = Mapping[str, Any]


def explain_rule(body: Body, now: datetime) -> Iterator[str]:
    """Its state, its failures, and the certificates in its copies."""
    metadata, condition = body["metadata"], rows.ready(body)
    shown = f"The rule {metadata['namespace']}/{metadata['name']}"
    if not condition:
        yield f"{shown} is {rows.trouble(body)}"
        return
    since = rows.age(condition.get("lastTransitionTime"), now)
    state = f"Ready={condition.get('status')} for {since}, {condition.get('reason')}"
    message = f": {condition['message']}" if condition.get("message") else ""
    yield f"{shown} is {state}{message}"
    yield from (f"  {line}" for line in _details(body, now))


def _details(body: Body, now: datetime) -> Iterator[str]:
    spec, status = body.get("spec"), body.get("status") or {}
    if isinstance(spec, Mapping) and spec.get("suspend"):
        yield f"It is suspended; to resume it: {hint_about('resume', 'rule', body)}"
    yield f"Copies: {rows.copies(body)} are as wanted."
    if made_of := rule_rows.composed_of(body):
        yield f"They are made from {made_of}."
    for line in rollout_state.state_lines(status, now):
        yield f"Rollout: step {line}"
    for line in grouping.lines(failures_of(status)):
        yield line
    for line in certificate_state.lines(status, now):
        yield f"Certificate: {line}"


def failures_of(status: Body) -> list[Sample]:
    """The samples of failing copies that the status has."""
    parts = ("namespace", "name", "reason", "message")
    return [
        Sample(*(str(one.get(part) or "") for part in parts))
        for one in status.get("failures") or ()
        if isinstance(one, Mapping)
    ]
