"""The copying half of the operator, as the composition root builds, starts and stops it.

Handlers call ``rule_event``; workers call ``reconcile``; everything else comes from our own
watches. The controller has no state that it couldn't rebuild from the API server.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final

from copyrator.api.keys import CopyKey, ObjectName, RuleKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.copies.context import CopyContext, NamespaceChange, PendingChanges, Tenant
from copyrator.copies.rules.admission import is_served
from copyrator.copies.rules.reconciler import RuleReconciler, watch_health
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.status import report_all_writes, report_finished_writes
from copyrator.copies.rules.summarize import RuleSummary, TargetSummary
from copyrator.copies.seal.hash_key import load_sealer
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.copies.targets.kinds import Kinds
from copyrator.copies.targets.namespaces import NAMESPACE_WATCH, Namespace
from copyrator.copies.targets.reconciler import CopyReconciler
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.queue import Outcome, Priority

log = logging.getLogger(__name__)


_RELEVANT: Final = attrgetter("labels", "annotations", "terminating", "uid")
"""Fields of a namespace on which any rule may depend."""


QUEUEING_SECONDS: Final = 0.001
"""Seconds after which workers may write what has been queued; the rest follows while they wait for
answers. Only where no other tenant's changes wait: in turns so short, one with long steps would get
nearly all the time."""


class DueWork:
    """Processes ``context.changes``; each `run` needs a task of its own."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context

    async def run(self, *, trusted: bool) -> None:
        """Process pending changes, for ever."""
        changes = self._context.changes
        alone, shared = TimeSlice(QUEUEING_SECONDS), TimeSlice()
        while True:
            pending = await changes.get(trusted=trusted)
            turn = shared if changes.are_of_several else alone
            self._process_slice(pending, turn)
            changes.done(pending)
            await turn.pause()

    def _process_slice(self, pending: PendingChanges, turn: TimeSlice) -> None:
        """Process one tenant's changes for a time slice, but at least one step."""
        while True:
            if pending.work is None:
                pending.work = self._begin(pending)
                if pending.work is None:
                    return
            try:
                next(pending.work)
            except StopIteration:
                pending.work = None
            except Exception as error:
                log.error(
                    "the copies affected by a change can't be determined: %s", type(error).__name__
                )
                pending.work = None
            if turn.spent:
                return

    def _begin(self, pending: PendingChanges) -> Iterator[None] | None:
        """The work for the next change, new namespaces first; None where none is left."""
        if pending.namespaces:
            name = next(iter(pending.namespaces))
            return self._at_namespace(name, pending.namespaces.pop(name), pending.tenant)
        if pending.bindings:
            return self._of_binding(pending.bindings.pop(next(iter(pending.bindings))))
        return None

    def _at_namespace(self, name: str, moved: NamespaceChange, tenant: Tenant) -> Iterator[None]:
        context = self._context
        for state in list(context.rule_states.values()):
            if state.compiled is None or state.compiled.targets.tenant != tenant:
                continue
            targets = state.compiled.targets
            was, is_target = state.key in moved.members, name in targets
            if was != is_target or name in targets.targets.namespaces.names:
                context.keeps_limit(state)
                context.touch(state.compiled.rule.owner)
                if was and context.namespaces.get(name) is not None:
                    context.queue.add(state.key)  # its copy there may be unwanted now
            yield
            if moved.more and is_target:
                state.trace.namespace_changed(name)
                for binding in list(context.index.of_rule(state.compiled.rule.owner).values()):
                    self._enqueue_if_due(binding, name, Priority.URGENT)
                    yield

    def _of_binding(self, binding: SourceBinding) -> Iterator[None]:
        for name in list(binding.compiled.targets):
            if (
                self._context.index.of_rule(binding.compiled.rule.owner).get(binding.origin)
                is not binding
            ):
                return  # a later state of the source follows
            self._enqueue_if_due(binding, name, Priority.NORMAL)
            yield

    def _enqueue_if_due(self, binding: SourceBinding, namespace: str, priority: Priority) -> None:
        """Queue one copy if it is due; one that failed before is retried at once."""
        summary = RuleSummary()
        TargetSummary(self._context, summary, binding).add(namespace)
        for key in (*summary.due, *summary.retrying):
            self._context.queue.add(key, priority)
        for key in (*summary.unsealed, *summary.refused):
            self._context.queue.add(key, Priority.RESYNC)


class CopyController:
    """Reconciles the copies of all rules.

    The context's ``rules`` and ``namespaces`` are empty stores that it fills, and others (status
    pages, ``why``) read.
    """

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._kinds = Kinds(self._context)
        self._rules = RuleReconciler(self._context, self._kinds)
        self._copies = CopyReconciler(self._context)
        self._due = DueWork(self._context)
        self._tasks: list[asyncio.Task[None]] = []

    def new_hash(self) -> hashlib.blake2b:
        """Begin a hash with the operator's own key, 64 hexadecimal digits.

        Raises:
            RuntimeError: before ``start`` has read the key.
        """
        sealer = self._context.sealer
        if sealer is None:
            raise RuntimeError("the hash key hasn't been read yet")
        return sealer.new_hash()

    async def prepare(self) -> None:
        """Begin to watch, and write nothing: a standby's warm start.

        Raises:
            ApiError: the API server can't be reached or refuses; may be called again.
        """
        context = self._context
        if context.sealer is None:
            context.sealer = await load_sealer(
                context.client, context.settings.namespace, make=False
            )
        if context.namespace_watch is None:
            context.namespace_watch = context.informers.acquire(
                NAMESPACE_WATCH,
                self._namespace_changed,
                on_synced=context.requeue_all_rules,
            )
        if context.sealer is not None:
            await self._kinds.watch_allowed()
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._keep_watch(), name="health of the rules' watches"),
                asyncio.create_task(self._due.run(trusted=True), name="the requeue timer"),
                asyncio.create_task(
                    self._due.run(trusted=False), name="the requeue timer of tenant rules"
                ),
            ]

    async def start(self) -> None:
        """Read or make the hash key too; await it before the workers start.

        Raises:
            ApiError: the API server can't be reached or refuses; may be called again.
        """
        context = self._context
        sealer = await load_sealer(context.client, context.settings.namespace, make=True)
        if context.sealer not in (None, sealer):
            self._kinds.forget()  # digests read with another key prove nothing
        context.sealer = sealer
        await self.prepare()

    async def stop(self) -> None:
        """Release the watches. The workers finish work in progress."""
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        context = self._context
        report_all_writes(context, context.rules)
        context.reports.flush()
        for state in context.rule_states.values():
            for registration in state.sources:
                registration.release()
        await self._rules.remotes.close()
        self._kinds.forget()
        context.unmanaged.close()
        if context.namespace_watch is not None:
            context.namespace_watch.release()
        await context.isolated.close()

    def publish(self) -> None:
        """Set the gauges that are computed at a scrape."""
        self._rules.remotes.publish()

    def rule_event(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Process a CopyratorRule from its handler; cheap.

        Whether it is served is decided by its name: one that isn't is not parsed.
        """
        metadata = body["metadata"]
        key = RuleKey(metadata["namespace"], metadata["name"])
        if deleted:
            self._context.rules.drop(key, metadata.get("uid"))
            self._context.queue.add(key, Priority.URGENT)
            return
        rule = Rule.from_body(body, served=is_served(key, self._context.settings))
        known = self._context.rules.get(key)
        if not self._context.rules.put(rule):
            return
        if known is None or not known.is_equivalent_to(rule):
            # Urgent: this may supersede keys that are queued for its copies.
            self._context.queue.add(key, Priority.URGENT)

    async def reconcile(self, key: RuleKey | CopyKey) -> Outcome:
        """Reconcile one key; the workers' handler for rule and copy keys."""
        if isinstance(key, CopyKey):
            return await self._copies.reconcile(key)
        return await self._rules.reconcile(key)

    def tenant_of(self, key: RuleKey | CopyKey) -> str | None:
        """The tenant's namespace of a key, for the queue; None for trusted rules and their copies.

        A copy that no rule requests belongs to its owner's tenant; without an owner, to its
        namespace.
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
        record = context.record(key)
        owner = record.owner.partition("/")[0] if record else ""
        if owner == home:
            return None
        return context.index.tenant_at(*place) or owner or key.namespace

    def set_rules_known(self, knows: Callable[[str], bool]) -> None:
        """Set the function that returns whether all rules of a namespace are known."""
        self._context.knows_rules = knows

    def retry_forbidden(self) -> None:
        """Retry what was forbidden: a permission has been granted."""
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
            if state.compiled is not None and state.compiled.targets.had(name.name)
        }
        if new is None:
            context.namespaces.drop(name.name)
        else:
            context.namespaces.put(new)
        affects = old is None or new is None or _RELEVANT(old) != _RELEVANT(new)
        if affects:
            context.index.forget_namespace(name.name)
        if context.namespace_watch is not None and context.namespace_watch.reflector.lists:
            tenants = {
                state.compiled.targets.tenant
                for state in context.rule_states.values()
                if state.compiled is not None
            }
            context.changes.add_namespace(
                name.name, before, tenants, more=affects and new is not None
            )

    # --- watches ---------------------------------------------------------------------------------

    async def _keep_watch(self) -> None:
        context = self._context
        timing = context.timing
        stale_at = read_at = time.monotonic() + timing.stale
        while True:
            await asyncio.sleep(timing.health)
            try:
                await self._compare_health()
                await report_finished_writes(context)
                context.metrics.copies_contested.set(len(context.fights))
                if time.monotonic() >= read_at:
                    read_at = time.monotonic() + timing.read_period
                    self._kinds.read_next()
                if time.monotonic() >= stale_at:
                    stale_at = time.monotonic() + timing.stale
                    context.drift.forget_old()
                    context.fights.forget_old()
                    self._kinds.drop_stale_writes()
                    if self._kinds.missing or context.sealer is None:
                        await self.prepare()
            except Exception:
                log.exception("the check of the rules' watches failed; it is repeated")

    async def _compare_health(self) -> None:
        """Queue the rules whose watches began to fail or have recovered."""
        context = self._context
        pause = TimeSlice().pause
        for state in list(context.rule_states.values()):
            health = watch_health(context, state)
            if state.watch_health != health and state.key in context.rule_states:
                state.watch_health = health
                context.queue.add(state.key, Priority.RESYNC)
            await pause()
