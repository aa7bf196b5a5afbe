"""The copying half of the operator: what the composition root builds, starts, feeds and stops.

Handlers call ``rule_event``; workers call ``reconcile``; everything else comes from our own
watches. The controller holds nothing that it couldn't rebuild from the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from copyrator.api.keys import CopyKey, Key, RuleKey

if TYPE_CHECKING:
    from copyrator.config import Settings
    from copyrator.engine.queue import Outcome, WorkQueue
    from copyrator.kube.client import KubeClient
    from copyrator.kube.events import EventRecorder
    from copyrator.kube.reflector import WatchPool
    from copyrator.kube.resources import Discovery
    from copyrator.metrics import Metrics
    from copyrator.registry.namespaces import Namespaces
    from copyrator.registry.rules import RuleRegistry

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware; for what people read. Delays are the queue's."""


class CopyController:
    """Keeps the copies of all rules as they should be.

    Everything is keyword-only. ``rules`` and ``namespaces`` are empty stores that the controller
    fills; they are passed in so that others (status pages, ``why``) can read them.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        watch_pool: WatchPool,
        discovery: Discovery,
        rules: RuleRegistry,
        namespaces: Namespaces,
        queue: WorkQueue[Key],
        recorder: EventRecorder,
        settings: Settings,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Read the hash key, list the rules and begin to watch.

        To be awaited before the queue's workers start. Needs the API server: raises ApiError when
        it can't be had, and the process should try again or exit.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Let go of the watches. Work in hand is the workers' to finish."""
        raise NotImplementedError

    def rule_event(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Take in a CopyratorRule as its handler saw it; cheap, never raises."""
        raise NotImplementedError

    async def reconcile(self, key: RuleKey | CopyKey) -> Outcome:
        """Do what the key asks for; the workers' handler for rule and copy keys."""
        raise NotImplementedError
