"""What the pages can do to a rule or Bundle, with the user's own permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_status import parse_status
from copyrator.cli.bundles import approve
from copyrator.cli.bundles.plan import first_lines, looked_at
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.core import reconcile
from copyrator.cli.core.objects import one
from copyrator.cli.core.output import said
from copyrator.cli.core.reconcile import set_suspend
from copyrator.cli.view.bundle import operation_counts
from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]
LOG_TIMEOUT: Final = 5.0
"""Seconds for which a page waits for a plan's log."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing to do: what it means, and how it is done; it returns what was done."""

    effect: str
    act: Callable[[KubeClient, str, dict[str, Any], str], Coroutine[Any, Any, str]]
    """With the kind (``rules``, ``bundles``), the object, and the ID of the plan that was shown."""
    decides: bool = False
    """Whether it is a decision about a plan."""


async def _suspend(client: KubeClient, what: str, body: dict[str, Any], _plan: str) -> str:
    return (await set_suspend(client, what, body, value=True, timeout=0))[1]


async def _resume(client: KubeClient, what: str, body: dict[str, Any], _plan: str) -> str:
    return (await set_suspend(client, what, body, value=False, timeout=0))[1]


async def _reconcile(client: KubeClient, what: str, body: dict[str, Any], _plan: str) -> str:
    rule = what == "rules"
    annotation = names.ANN_RULE_REQUESTED_AT if rule else names.ANN_REQUESTED_AT
    await reconcile.annotated(client, what, body, annotation)
    return "It is annotated; the operator reconciles it now."


async def _approve(client: KubeClient, _what: str, body: dict[str, Any], plan: str) -> str:
    await approve.decide(client, approve.APPROVE, body, plan)
    return f"Plan {said(plan)} is approved; the operator deploys it when its other gates pass."


async def _reject(client: KubeClient, _what: str, body: dict[str, Any], plan: str) -> str:
    await approve.decide(client, approve.REJECT, body, plan)
    return f"Plan {said(plan)} is rejected; it isn't deployed."


VERBS: Final[Mapping[str, Verb]] = {
    "suspend": Verb("Nothing is written or deployed for it until it is resumed.", _suspend),
    "resume": Verb("The operator writes and deploys for it again.", _resume),
    "reconcile": Verb(
        "A Bundle's registry is polled, and its version is deployed even if it is deployed "
        "already; a rule's failed copies are retried.",
        _reconcile,
    ),
    "approve": Verb("The plan is deployed.", _approve, decides=True),
    "reject": Verb("The plan isn't deployed.", _reject, decides=True),
}


def plan_id(body: Body) -> str:
    """The ID of a Bundle's plan; empty where it has none."""
    return parse_status(body).plan.id or ""


def described(verb: Verb, body: Body) -> str:
    """What the verb does to this object."""
    if not verb.decides:
        return verb.effect
    plan = parse_status(body).plan
    return f"{verb.effect} {said(plan.id)} of {said(plan.version)}: {operation_counts(plan)}."


async def first_of(client: KubeClient, verb: Verb, body: Body, seconds: float) -> list[str]:
    """The lines that a person reads before a decision about a plan; none for other verbs.

    What is in its log only, such as how many Secrets it changes, is missing without an answer in
    so many seconds.
    """
    if not verb.decides:
        return []
    log = PlanLog()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            log = (await looked_at(client, body)).log
    return list(first_lines(parse_status(body).plan, log))


async def act(client: KubeClient, name: str, what: str, key: tuple[str, str], plan: str) -> str:
    """Do it to the object as it is now; return a sentence.

    Raises:
        Fault: it can't be done.
        ApiError: the API server refused it.
    """
    return await VERBS[name].act(client, what, await one(client, what, *key), plan)
