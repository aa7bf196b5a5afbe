"""Waits until the operator has handled a change of an object, and what that starts has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.conditions import (
    NO_CONDITION,
    PAUSES,
    ConditionStatus,
    ConditionType,
    read_conditions,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.text import first_of, format_duration, parse_duration
from copyrator.bundles.fields import parse_status
from copyrator.cli.core.cluster import add_options, all_of
from copyrator.cli.core.faults import Fault, hint, hint_about
from copyrator.cli.core.objects import (
    RESOURCES,
    SINGULAR,
    Body,
    ObjectOptions,
    annotations_of,
    is_set_to_suspend,
    shown,
)
from copyrator.cli.core.output import progress, prose, show_result
from copyrator.cli.view import rows
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

LOOK = 0.25
"""Seconds between two reads of the objects that are waited for."""
AT_ONCE: Final = 8
"""Objects that one command changes or reads at the same time."""
RESPONSE: Final = 60.0
"""Seconds to wait for the operator's response by default, and ..."""
OUTCOME: Final = 300.0
"""... for the outcome."""
_NAMED: Final = 3
"""Objects that a line names."""


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


response_timeout_option = timeout_option(
    RESPONSE, "How long to wait for the operator; 0 doesn't wait."
)


def wait_options(goal: str, *, default: bool = False, response: bool = True) -> Callable[..., Any]:
    """The options --wait and --timeout, of a command that starts what ends with this goal.

    The command gets them as ``waits`` and ``timeout``, which is 0 where it doesn't wait at all.
    ``response``: without --wait it waits for the operator's response.
    """

    def seconds(ctx: click.Context, _param: click.Parameter, value: float | None) -> float:
        waits = bool(ctx.params["waits"])
        if not (waits or response):
            return 0.0
        return value if value is not None else OUTCOME if waits else RESPONSE

    ends = f"{OUTCOME:g}{f' with --wait, else {RESPONSE:g}' if response else ''}"
    options = (
        click.option(
            "--wait/--no-wait",
            "waits",
            is_eager=True,  # --timeout depends on it
            default=default,
            show_default=True,
            help=f"Wait until {goal}. Exit code 1 if that fails, waits for a gate, or takes longer "
            "than --timeout.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0),
            callback=seconds,
            metavar="SECONDS",
            show_default=ends,
            help="How long to wait; 0 doesn't wait.",
        ),
    )
    return lambda command: add_options(command, options)


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


_ECHOES: Final = ("lastFailedRequest", "lastFailedForce")


def has_failed_request(body: Body) -> bool:
    """Whether a request failed that the operator handles later."""
    status = parse_status(body, *_ECHOES)
    return bool(status.last_failed_request or status.last_failed_force)


def find_hold(body: Body) -> str:
    """The gate that holds up what is asked for, as the end of a sentence; empty without one."""
    pending = read_conditions(body).get(ConditionType.UPDATE_PENDING, NO_CONDITION)
    is_held = pending.is_true and pending.reason != BundleReason.PLANNING
    if not is_held or not (has_failed_request(body) or waits_for_gate(body)):
        return ""
    if pending.reason == BundleReason.AWAITING_APPROVAL:
        return f"waits for approval: {hint_about('approve', 'bundle', body)}"
    return f"waits: {pending.reason}: {str(pending.message).rstrip('.')}"


def goes_on(body: Body) -> bool:
    """Whether the operator works on it, and needs nobody's help."""
    return in_progress(body) and not rows.failed_poll(body) and not find_hold(body)


def find_fault(what: str, body: Body) -> str:
    """Why what was waited for isn't done; empty where it is.

    So it is of a rule with ``mode: Plan``, whose author wants nothing to be written.
    """
    about, ready = shown(what, body), rows.ready(body)
    if hold := find_hold(body):
        return f"{about} {hold}"
    if failed := rows.failed_poll(body):
        return f"{about}: {failed}".rstrip(".")
    if ready.is_false or ready.reason in PAUSES:
        return f"{about} isn't ready{result(body)}".rstrip(".")
    return ""


def show_end(options: ObjectOptions, body: Body, text: str, fault: str | None = None) -> None:
    """Print what was done to an object, and its status after the wait, or the object in a shape.

    ``fault``: why what it has started isn't done, if not by its status.

    Raises:
        Fault: there is one; in a shape without a text.
    """
    has_waited = options.timeout > 0
    if fault is None:
        fault = find_fault(options.what, body)
    fails = bool(fault) and has_waited and options.waits
    if fails and options.shape is None:
        raise Fault(fault)
    show_result(body, f"{text}{result(body, waited=has_waited)}", options.shape)
    if fails:
        raise click.exceptions.Exit(1)


def check_may_act(what: str, body: Body) -> None:
    """Refuse a request that the operator wouldn't handle until a user changes the object.

    Raises:
        Fault: it is suspended, or its updates are off.
    """
    if is_set_to_suspend(body):
        advice = hint_about("resume", SINGULAR[what], body)
        raise Fault(f"{shown(what, body)} is suspended; resume it: {advice}")
    check_updates_are_on(what, body)


def check_updates_are_on(what: str, body: Body) -> None:
    """Refuse a request that the operator wouldn't handle until an annotation is removed.

    Raises:
        Fault: the Bundle's updates are off.
    """
    if what == "bundles" and names.ANN_DISABLE_AUTOUPDATE in annotations_of(body):
        namespace, name = name_of(body)
        raise Fault(
            f"{shown(what, body)} has the annotation {names.ANN_DISABLE_AUTOUPDATE}, so nothing is "
            f"polled or deployed; remove it: kubectl annotate bndl -n {namespace} {name} "
            f"{names.ANN_DISABLE_AUTOUPDATE}-"
        )


@dataclass(frozen=True, slots=True)
class Awaited:
    """An object that a command has changed."""

    what: str
    body: dict[str, Any]
    handled: Callable[[Body], bool]
    """Whether the operator has handled the change."""
    busy: Callable[[Body], bool] | None = None
    """Whether what that has started goes on; None: only the response is waited for."""

    @property
    def is_open(self) -> bool:
        """Whether to wait on."""
        return not self.handled(self.body) or (self.busy is not None and self.busy(self.body))

    @property
    def progress(self) -> str:
        """What is done; empty where nothing is, as while somebody has to approve."""
        condition = rows.ready(self.body)
        is_begun = self.handled(self.body) or in_progress(self.body)
        if not is_begun or condition.reason == BundleReason.AWAITING_APPROVAL:
            return ""
        text, reason = condition.message or "", condition.reason or ""
        return f"{shown(self.what, self.body)}: " + (
            text if text.startswith(reason) else f"{reason}: {text}"
        )


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
    return (await wait_for_all(client, [Awaited(what, body, handled, busy)], seconds))[0]


async def wait_as_asked(
    client: KubeClient,
    options: ObjectOptions,
    body: dict[str, Any],
    handled: Callable[[Body], bool],
    busy: Callable[[Body], bool] = goes_on,
) -> dict[str, Any]:
    """The same, and with --wait until what the change has started has ended.

    Raises:
        Fault: as `wait`.
    """
    end = busy if options.waits else None
    return await wait(client, options.what, body, options.timeout, handled, busy=end)


async def wait_for_all(
    client: KubeClient, awaited: Sequence[Awaited], seconds: float
) -> list[dict[str, Any]]:
    """The same of several objects. Where more than the response is waited for, progress is printed.

    Raises:
        Fault: of those that aren't handled, or still in progress, after so many seconds.
    """
    now = asyncio.get_running_loop().time
    deadline, found, left = now() + seconds, list(awaited), list(awaited)
    limit, is_told = asyncio.Semaphore(AT_ONCE), any(one.busy for one in awaited)

    async def read(one: Awaited) -> Awaited:
        if not one.is_open:
            return one
        async with limit:
            body = await client.get(RESOURCES[one.what], *name_of(one.body))
        return replace(one, body=body)

    try:
        with progress() as tell:
            while seconds and (left := [one for one in found if one.is_open]):
                if now() > deadline:
                    raise Fault("; ".join(_late(one, seconds) for one in left))
                if is_told and (text := left[0].progress):
                    tell(f"{len(found) - len(left)}/{len(found)} {text}" if found[1:] else text)
                await asyncio.sleep(LOOK)
                found = await all_of(map(read, found))
    except asyncio.CancelledError:
        if is_told:  # Ctrl-C
            prose([_interrupted(left)], err=True)
        raise
    return [one.body for one in found]


def _interrupted(left: Sequence[Awaited]) -> str:
    about = first_of([shown(one.what, one.body) for one in left], _NAMED, ", ")
    see = hint_about("describe", SINGULAR[left[0].what], left[0].body)
    return f"Interrupted. The operator continues with {about}; to see it: {see}"


def _late(one: Awaited, timeout: float) -> str:
    what, body = one.what, one.body
    condition = rows.ready(body)
    said = f"{condition.reason}: {condition.message}" if condition else "empty"
    if one.handled(body):
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
