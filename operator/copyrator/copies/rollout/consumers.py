"""Reads and restarts the workloads that use a rule's copies, for rules with ``spec.rollout``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Final

from copyrator.api.rollout import Consumer
from copyrator.copies.context import CopyContext
from copyrator.copies.rollout.steps import (
    COPIES_USED,
    ConsumerState,
    RestartCause,
    read_consumer,
    restart_patch,
    to_restart,
)
from copyrator.copies.rules.state import CompiledRule
from copyrator.kube import errors
from copyrator.kube.resources import DAEMONSETS, DEPLOYMENTS, STATEFULSETS, Resource
from copyrator.workqueue.fairness import TimeSlice

CONSUMER_LISTS: Final = 8
"""Lists of consumers that all rollouts have in flight."""

MAY_READ: Final = (
    "set rules.consumers in the chart, or grant get and list of deployments, statefulsets and "
    "daemonsets"
)
MAY_RESTART: Final = (
    "set rules.restart in the chart, or grant patch of deployments, statefulsets and daemonsets"
)
LISTED_TOGETHER: Final = 32
"""Namespaces whose lists are begun together, so that the memory doesn't grow with their number."""
CONSUMER_KINDS: Final = {one.kind: one for one in (DEPLOYMENTS, STATEFULSETS, DAEMONSETS)}


class ConsumersError(Exception):
    """Consumers can't be read or restarted (now); the message is for the status."""


@contextmanager
def _requests(remedy: str) -> Iterator[None]:
    """Errors of requests, with the remedy for a missing permission."""
    try:
        yield
    except errors.NotLeading:
        raise
    except errors.Forbidden as error:
        raise ConsumersError(f"{error.message}; {remedy}") from error
    except errors.ApiError as error:
        raise ConsumersError(f"consumers can't be read or restarted: {error.message}") from error


class Consumers:
    """The consumers of all rules' copies."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._lists = asyncio.Semaphore(CONSUMER_LISTS)

    async def find(self, compiled: CompiledRule, namespaces: Iterable[str]) -> list[ConsumerState]:
        """The consumers that matter in some namespaces, from a list of each kind in each namespace.

        Raises:
            ConsumersError: they can't be listed.
        """
        if compiled.spec.kind not in COPIES_USED:
            return []
        found: list[ConsumerState] = []
        places = list(namespaces)
        for start in range(0, len(places), LISTED_TOGETHER):
            found += await self._find_together(compiled, places[start : start + LISTED_TOGETHER])
        return found

    async def _find_together(
        self, compiled: CompiledRule, namespaces: Sequence[str]
    ) -> list[ConsumerState]:
        tasks = [
            asyncio.ensure_future(self._list(copies, namespace, resource))
            for namespace, copies in ((one, self._copies(compiled, one)) for one in namespaces)
            for resource in CONSUMER_KINDS.values()
        ]
        try:
            with _requests(MAY_READ):
                found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return [one for some in found for one in some]

    async def read(self, compiled: CompiledRule, consumer: Consumer) -> ConsumerState | None:
        """One consumer; None where it doesn't exist, or uses no copy any more.

        Raises:
            ConsumersError: it can't be read.
        """
        resource = CONSUMER_KINDS.get(consumer.kind)
        if resource is None:
            return None
        client = self._context.client
        with _requests(MAY_READ):
            try:
                body = await client.get(resource, consumer.namespace, consumer.name)
            except errors.NotFound:
                return None
        return read_consumer(resource.kind, body, self._copies(compiled, consumer.namespace))

    async def restart(self, cause: RestartCause, seen: Iterable[ConsumerState]) -> None:
        """Restart those that are to be restarted, once for each content.

        Raises:
            ConsumersError: one can't be restarted.
        """
        context = self._context
        for one in to_restart(cause, seen):
            consumer = one.consumer
            patch = restart_patch(one, cause, context.clock())
            with _requests(MAY_RESTART), suppress(errors.NotFound):
                await context.client.patch(
                    CONSUMER_KINDS[consumer.kind], consumer.namespace, consumer.name, patch
                )
                context.metrics.consumer_restarts.inc()

    async def _list(
        self, copies: tuple[str, frozenset[str]], namespace: str, resource: Resource
    ) -> Sequence[ConsumerState]:
        found: list[ConsumerState] = []
        async with self._lists:
            turn = TimeSlice()
            pages = self._context.client.list_pages(resource, namespace)
            async with aclosing(pages) as read:
                async for page in read:
                    for body in page.items:
                        one = read_consumer(resource.kind, body, copies)
                        if one is not None and one.matters:
                            found.append(one)
                        await turn.pause()
        return found

    def _copies(self, compiled: CompiledRule, namespace: str) -> tuple[str, frozenset[str]]:
        """The names of a rule's copies in a namespace, with their kind."""
        place = self._context.namespaces.get(namespace)
        bindings = self._context.index.of_rule(compiled.rule.owner).values()
        names = {one.at(place).name for one in bindings if place is not None and one.covers(place)}
        return compiled.spec.kind, frozenset(names - {""})
