"""Waits until the operator has handled a change of a rule or Bundle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from copyrator.api.conditions import (
    NO_CONDITION,
    ConditionStatus,
    ConditionType,
    read_conditions,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.text import format_duration, parse_duration
from copyrator.bundles.fields import parse_status
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.objects import RESOURCES, Body, shown
from copyrator.cli.core.output import prose
from copyrator.cli.view import rows
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

LOOK = 0.25
"""Seconds between two reads of the object that is waited for."""


def timeout_option(seconds: float, text: str) -> Callable[..., Any]:
    """The option --timeout, with its default."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=seconds,
        show_default=True,
        metavar="SECONDS",
        help=text,
    )


class Duration(click.ParamType[timedelta]):
    """A duration such as ``720h``, of at least so many seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """The duration; at most 10^9 seconds."""
        if isinstance(value, timedelta):
            return value
        seconds = parse_duration(str(value))
        if seconds is None or seconds < self._least:
            least = f" of {format_duration(self._least)} or more" if self._least else ""
            self.fail(f"{value!r} isn't a duration{least}, such as 720h", param, ctx)
        return timedelta(seconds=min(seconds, 10**9))


response_timeout_option = timeout_option(60.0, "How long to wait for the operator; 0 doesn't wait.")


def result(body: Body, *, waited: bool = True) -> str:
    """The end of a sentence: the status after the wait."""
    condition = rows.ready(body)
    if not waited or not condition:
        return "."
    message = f": {condition.message}" if condition.message else "."
    return f"; status {condition.reason}{message}"


def observed(body: Body) -> int:
    """The generation that the operator has seen."""
    return parse_status(body, "observedGeneration").observed_generation or 0


def in_progress(body: Body) -> bool:
    """Whether work whose outcome isn't known is in progress, as kstatus' InProgress; no rollout."""
    conditions = read_conditions(body)
    ready = conditions.get(ConditionType.READY, NO_CONDITION)
    if ready.reason == RuleReason.ROLLING_OUT:
        return False  # a rollout takes hours, and the request is being handled
    reconciling = conditions.get(ConditionType.RECONCILING, NO_CONDITION)
    return ready.status == ConditionStatus.UNKNOWN and reconciling.is_true


def waits_for_gate(body: Body) -> bool:
    """Whether a gate delays what is asked for, such as a request: a Bundle that isn't Ready."""
    conditions = read_conditions(body)
    pending = conditions.get(ConditionType.UPDATE_PENDING, NO_CONDITION)
    ready = conditions.get(ConditionType.READY, NO_CONDITION)
    return pending.is_true and ready.reason == pending.reason


async def wait(
    client: KubeClient,
    what: str,
    body: dict[str, Any],
    seconds: float,
    handled: Callable[[Body], bool],
    *,
    busy: Callable[[Body], bool] | None = None,
) -> dict[str, Any]:
    """Read the object until the operator has handled the change and isn't busy with it any more.

    Raises:
        Fault: it isn't handled, or still in progress, after so many seconds; 0 doesn't wait.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    told = ""
    while seconds and (not handled(body) or (busy is not None and busy(body))):
        if asyncio.get_running_loop().time() > deadline:
            raise Fault(_late(what, body, seconds, handled=handled(body)))
        if handled(body) or in_progress(body):
            told = _tell(body, told)
        await asyncio.sleep(LOOK)
        body = await client.get(RESOURCES[what], *name_of(body))
    return body


def _tell(body: Body, told: str) -> str:
    """On a terminal: the progress, once for each message; that somebody has to approve is none."""
    condition = rows.ready(body)
    if condition.reason == BundleReason.AWAITING_APPROVAL:
        return told
    text = condition.message or ""
    if not text.startswith(reason := condition.reason or ""):
        text = f"{reason}: {text}"
    if text != told and sys.stderr.isatty():
        prose([text], err=True)
    return text


def _late(what: str, body: Body, timeout: float, *, handled: bool) -> str:
    condition = rows.ready(body)
    said = f"{condition.reason}: {condition.message}" if condition else "empty"
    if handled:
        return (
            f"{shown(what, body)} didn't finish within {timeout:g} s; its status is {said}. "
            "The operator continues; to wait longer, increase --timeout"
        )
    if failed := rows.failed_poll(body):
        return (
            f"{shown(what, body)}: {failed}. The request stays, and is handled when a poll succeeds"
        )
    if waits_for_gate(body):
        return (
            f"{shown(what, body)}: the request still waits after {timeout:g} s: {said}. It stays, "
            "and is handled when that ends"
        )
    return (
        f"{shown(what, body)}: the operator didn't respond within {timeout:g} s. Its status is "
        f"{said}. Check that it is running: {hint('doctor')}"
    )
