"""Writing a rule's status: seldom, and only news."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from copyrator.api import names
from copyrator.api.conditions import Health, Verdict, ready_reason
from copyrator.api.rule_status import RuleFacts, RuleReason, build_rule_status
from copyrator.kube import errors
from copyrator.kube.client import PatchType
from copyrator.kube.events import ObjectRef
from copyrator.kube.resources import RULES
from copyrator.reconcile import verdicts
from copyrator.reconcile.world import SETTLING, STATUS_INTERVAL, Service, World
from copyrator.registry.rules import Rule

_NOT_NEWS = (RuleReason.PROGRESSING,)
"""Reasons that come and go while all is well."""


def delay_first_status(world: World, service: Service) -> None:
    """Work has just been given out: what it comes to is a better first status than "working"."""
    service.next_status = max(service.next_status, world.monotonic() + SETTLING)


async def write_status(
    world: World, service: Service, rule: Rule, verdict: Verdict, facts: RuleFacts
) -> None:
    """Write the status if it says anything new; at most once a second for a rule.

    Raises:
        ApiError: it can't be written.
    """
    world.tally.note(rule.key, verdict.reason, facts.copies)
    if verdict.reason not in _NOT_NEWS:
        facts = dataclasses.replace(facts, request=rule.requested)
    status = build_rule_status(
        rule.status, verdict, facts, generation=rule.generation, now=world.clock()
    )
    if _is_known(status, rule.status):
        return
    if service.next_status > world.monotonic():
        world.touch(rule.owner)
        return
    service.next_status = world.monotonic() + STATUS_INTERVAL
    before = ready_reason(rule.status.get("conditions"))
    try:
        await world.client.patch(
            RULES,
            rule.key.namespace,
            rule.key.name,
            {
                "apiVersion": names.RULE_API_VERSION,
                "kind": names.RULE_KIND,
                "metadata": {
                    "name": rule.key.name,
                    "namespace": rule.key.namespace,
                    "uid": rule.uid,
                },
                "status": status,
            },
            kind=PatchType.APPLY,
            subresource="status",
            force=True,
        )
    except (errors.NotFound, errors.ConflictError):
        return  # gone, or another one of the same name: its event is on the way
    rule.status = status
    if before != verdict.reason and verdict.reason not in _NOT_NEWS:
        _tell(world, rule, verdict)


async def say_forbidden(world: World, rule: Rule, error: errors.Forbidden) -> None:
    """Name a right that is missing, unless it's the right to do so."""
    service = world.services.setdefault(rule.key, Service(rule.key))
    with suppress(errors.ApiError):
        await write_status(world, service, rule, verdicts.forbidden(error), RuleFacts())


async def say_failed(world: World, rule: Rule, error: Exception) -> None:
    """Tell of an error of the operator's own that keeps a rule from being served."""
    service = world.services.setdefault(rule.key, Service(rule.key))
    with suppress(Exception):  # the first error is the one to be told, and the worker logs it
        await write_status(world, service, rule, verdicts.failed(error), RuleFacts())


def _is_known(status: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    return all(before.get(name) == value for name, value in status.items())


def _tell(world: World, rule: Rule, verdict: Verdict) -> None:
    good = verdict.health in (Health.READY, Health.PAUSED)
    world.recorder.record(
        ObjectRef(
            names.RULE_API_VERSION,
            names.RULE_KIND,
            rule.key.namespace,
            rule.key.name,
            rule.uid,
        ),
        "Normal" if good else "Warning",
        verdict.reason,
        verdict.message,
    )
