"""The copying half of the operator: what the composition root builds, starts, feeds and stops.

Handlers call ``rule_event``; workers call ``reconcile``; everything else comes from our own
watches. The controller holds nothing that it couldn't rebuild from the API server.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from copyrator.api.keys import CopyKey, Key, ObjectName, RuleKey
from copyrator.api.rule_status import FailureReason
from copyrator.copies.admission import is_served
from copyrator.copies.cache.namespaces import Namespace, NamespaceReader, Namespaces
from copyrator.copies.cache.rules import Rule, RuleCache
from copyrator.copies.context import Clock, CopyContext
from copyrator.copies.copy_reconciler import CopyReconciler
from copyrator.copies.hash_key import load_sealer
from copyrator.copies.kinds import Kinds
from copyrator.copies.rule_reconciler import RuleReconciler
from copyrator.kube.client.client import KubeClient
from copyrator.kube.events import EventRecorder
from copyrator.kube.resources import NAMESPACES, Discovery
from copyrator.kube.watch.informers import InformerFactory, WatchSpec
from copyrator.metrics import Metrics
from copyrator.settings.config import Settings
from copyrator.workqueue.outcome import Outcome
from copyrator.workqueue.queue import Priority, WorkQueue

log = logging.getLogger(__name__)

HEALTH_SECONDS = 2.0
"""How often the watches' health is compared with what the rules know of it."""
READ_SECONDS = 10.0
"""How often copies are chosen to be read for the daily round's sake."""
STALE_SECONDS = 60.0
"""How often writes that no watch told of are given up (see Copies.forget_stale)."""


class CopyController:
    """Keeps the copies of all rules as they should be.

    Everything is keyword-only. ``rules`` and ``namespaces`` are empty stores that the controller
    fills; they are passed in so that others (status pages, ``why``) can read them.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        watch_pool: InformerFactory,
        discovery: Discovery,
        rules: RuleCache,
        namespaces: Namespaces,
        queue: WorkQueue[Key],
        recorder: EventRecorder,
        settings: Settings,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._context = CopyContext(
            client=client,
            watch_pool=watch_pool,
            discovery=discovery,
            rules=rules,
            namespaces=namespaces,
            queue=queue,
            recorder=recorder,
            settings=settings,
            metrics=metrics,
            clock=clock,
            monotonic=time.monotonic,
        )
        self._kinds = Kinds(self._context)
        self._rules = RuleReconciler(self._context, self._kinds)
        self._copies = CopyReconciler(self._context)
        self._health: dict[RuleKey, tuple[bool, ...]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def new_hash(self) -> hashlib.blake2b:
        """Begin a hash with the operator's own key, 64 hexadecimal digits.

        Raises:
            RuntimeError: before ``start`` has read the key.
        """
        if self._context.sealer is None:
            raise RuntimeError("the hash key hasn't been read yet")
        return self._context.sealer.new_hash()

    async def prepare(self) -> None:
        """Begin to watch, and write nothing: what a standby does to be warm.

        Raises:
            ApiError: the API server can't be had; may be called again.
        """
        context = self._context
        if context.sealer is None:
            context.sealer = await load_sealer(
                context.client, context.settings.namespace, make=False
            )
        if context.namespace_watch is None:
            context.namespace_watch = context.watch_pool.acquire(
                WatchSpec(
                    resource=NAMESPACES,
                    metadata_only=True,
                    decode=NamespaceReader(),
                    reserved=True,
                ),
                self._namespace_changed,
                on_synced=context.look_at_all_rules,
            )
        if context.sealer is not None:
            await self._kinds.watch_allowed()
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._keep_watch(), name="health of the rules' watches"),
                asyncio.create_task(context.due.run(trusted=True), name="what is due"),
                asyncio.create_task(context.due.run(trusted=False), name="what is due of tenants"),
            ]

    async def start(self) -> None:
        """Make sure of the hash key too; to be awaited before the workers start.

        Raises:
            ApiError: the API server can't be had; may be called again.
        """
        context = self._context
        sealer = await load_sealer(context.client, context.settings.namespace, make=True)
        if context.sealer not in (None, sealer):
            self._kinds.forget()  # what was read with another key proves nothing
        context.sealer = sealer
        await self.prepare()

    async def stop(self) -> None:
        """Let go of the watches. Work in hand is the workers' to finish."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        context = self._context
        for state in context.rule_states.values():
            for subscription in state.sources:
                subscription.release()
        self._kinds.forget()
        context.foreign.close()
        if context.namespace_watch is not None:
            context.namespace_watch.release()
        await context.isolated.close()

    def rule_event(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Take in a CopyratorRule as its handler saw it; cheap.

        Whether it is served at all is told from its name: what isn't is not parsed.
        """
        metadata = body["metadata"]
        key = RuleKey(metadata["namespace"], metadata["name"])
        if deleted:
            self._context.rules.drop(key, metadata.get("uid"))
            self._context.look_at_rule(key, Priority.URGENT)
            return
        rule = Rule.from_body(body, served=is_served(key, self._context.settings))
        known = self._context.rules.get(key)
        if not self._context.rules.put(rule):
            return
        if known is None or not known.says_the_same(rule):
            # Urgent: what is in the queue for its copies may be superseded by this.
            self._context.look_at_rule(key, Priority.URGENT)

    async def reconcile(self, key: RuleKey | CopyKey) -> Outcome:
        """Do what the key asks for; the workers' handler for rule and copy keys."""
        if isinstance(key, CopyKey):
            return await self._copies.reconcile(key)
        return await self._rules.reconcile(key)

    def tenant_of(self, key: RuleKey | CopyKey) -> str | None:
        """Whose a key is, for the queue: None for trusted rules and their copies, else a namespace.

        A copy that no rule wants is its owner's; of one without an owner its namespace.
        """
        context = self._context
        home = context.settings.namespace
        if isinstance(key, RuleKey):
            return None if key.namespace == home else key.namespace
        if not context.settings.tenant_rules:
            return None
        place = key.kind, key.namespace, key.name
        if context.index.is_trusted(*place):
            return None
        view = context.kinds.get(key.kind)
        record = view.copies.get((key.namespace, key.name)) if view else None
        owner = record.owner.partition("/")[0] if record else ""
        if owner == home:
            return None
        return context.index.tenant_at(*place) or owner or key.namespace

    def ask_for_rules(self, knows: Callable[[str], bool]) -> None:
        """Tell how to find out whether all rules of a namespace are known."""
        self._context.knows_rules = knows

    def retry_forbidden(self) -> None:
        """Try again what was refused for want of a right: one has been granted."""
        for key, problem in list(self._context.problems.items()):
            if problem.reason is FailureReason.FORBIDDEN:
                self._context.queue.add(key, Priority.RESYNC)

    # --- namespaces ------------------------------------------------------------------------------

    def _namespace_changed(
        self, name: ObjectName, old: Namespace | None, new: Namespace | None
    ) -> None:
        context = self._context
        before = {
            state.key
            for state in context.rule_states.values()
            if state.maker is not None and state.maker.targets.had(name.name)
        }
        if new is None:
            context.namespaces.drop(name.name)
        else:
            context.namespaces.put(new)
        context.index.forget_namespace(name.name)
        if context.namespaces_seen:
            more = new is not None and (old is None or _means_more(old, new))
            context.due.namespace_changed(name.name, before, more=more)

    # --- watches ---------------------------------------------------------------------------------

    async def _keep_watch(self) -> None:
        context = self._context
        stale_at = read_at = time.monotonic() + STALE_SECONDS
        while True:
            await asyncio.sleep(HEALTH_SECONDS)
            try:
                self._compare_health()
                if time.monotonic() >= read_at:
                    read_at = time.monotonic() + READ_SECONDS
                    self._kinds.read_next()
                if time.monotonic() >= stale_at:
                    stale_at = time.monotonic() + STALE_SECONDS
                    context.drift.forget_old()
                    self._kinds.forget_stale_writes()
                    if self._kinds.missing or context.sealer is None:
                        await self.prepare()
            except Exception:
                log.exception("looking after the rules' watches failed; it goes on")

    def _compare_health(self) -> None:
        """A watch that fails, or works again, changes what its rules may do and say."""
        context = self._context
        common = (context.namespaces_synced,)
        for state in list(context.rule_states.values()):
            view = context.kinds.get(state.maker.resource) if state.maker else None
            health = (
                *common,
                view is None or view.synced,
                *(subscription.synced for subscription in state.sources),
            )
            if self._health.get(state.key) != health:
                self._health[state.key] = health
                context.look_at_rule(state.key, Priority.RESYNC)
        for key in self._health.keys() - context.rule_states.keys():
            del self._health[key]


def _means_more(old: Namespace, new: Namespace) -> bool:
    """Whether a namespace changed in a way that any rule could care about."""
    return (
        old.labels != new.labels
        or old.annotations != new.annotations
        or old.terminating != new.terminating
        or old.uid != new.uid
    )
