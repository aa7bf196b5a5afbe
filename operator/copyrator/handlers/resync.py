"""The periodic resync: every rule and Bundle is reconciled, with or without an event.

On a healthy cluster it changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random

from copyrator.api.keys import BundleKey, Key, RuleKey
from copyrator.handlers.deduplication import EventDeduplicator, PageLister
from copyrator.kube.errors import ApiError
from copyrator.workqueue.outcome import Priority
from copyrator.workqueue.queue import WorkQueue

log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""Seconds between two resyncs, plus or minus a tenth."""

CONFIRM_AGAIN = 5.0
"""Seconds until the API server is queried again about objects that a list lacked."""


async def resync_for_ever(
    reader: PageLister,
    rules: EventDeduplicator,
    bundles: EventDeduplicator,
    queue: WorkQueue[Key],
    seconds: float = RESYNC_SECONDS,
) -> None:
    """List both kinds every so many seconds and queue all objects; a fault skips one resync."""
    while True:
        await asyncio.sleep(seconds * random.uniform(0.9, 1.1))  # noqa: S311 - no secret
        try:
            await rules.resync(reader)
            await bundles.resync(reader)
        except ApiError as error:
            log.warning("The resync is skipped: %s", error)
            continue
        enqueue_all(rules, bundles, queue, respect_backoff=True)


async def confirm_missed(
    reader: PageLister, deduplicators: tuple[EventDeduplicator, ...], missed: asyncio.Event
) -> None:
    """Whenever `missed` is set, check whether the objects that kopf's lists lacked are gone."""
    while True:
        await missed.wait()
        missed.clear()
        try:
            for deduplicator in deduplicators:
                await deduplicator.confirm(reader)
        except ApiError as error:
            log.warning("Can't check now whether objects were deleted: %s", error)
            await asyncio.sleep(CONFIRM_AGAIN)
            missed.set()


def enqueue_all(
    rules: EventDeduplicator,
    bundles: EventDeduplicator,
    queue: WorkQueue[Key],
    *,
    respect_backoff: bool = False,
) -> None:
    """Queue every rule and Bundle, with or without those in back-off."""
    keys: list[Key] = [RuleKey(*name) for name in rules.names()]
    keys += [BundleKey(*name) for name in bundles.names()]
    for key in keys:
        queue.add(key, Priority.RESYNC, respect_backoff=respect_backoff)
