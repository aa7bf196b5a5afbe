"""Queues the copies that a changed namespace or source makes due, in time slices.

Trusted rules have a task of their own; the tenants share another, one slice each in turn.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from copyrator.copies.context import CopyContext, NamespaceChange, PendingChanges, Tenant
from copyrator.copies.rules.summarize import RuleSummary, summarize_target
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.outcome import Priority

log = logging.getLogger(__name__)


class DueWork:
    """Processes ``context.changes``; each `run` needs a task of its own."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context

    async def run(self, *, trusted: bool) -> None:
        """Process pending changes, for ever."""
        changes, turn = self._context.changes, TimeSlice()
        while True:
            pending = await changes.get(trusted=trusted)
            self._process_slice(pending, turn)
            changes.done(pending)
            await turn.pause()

    def _process_slice(self, pending: PendingChanges, turn: TimeSlice) -> None:
        """Process one tenant's changes for a time slice."""
        while not turn.spent:
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
                    context.requeue_rule(state.key)  # its copy there may be unwanted now
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
        alone = self._context.index.is_alone(binding)
        summarize_target(self._context, summary, binding, namespace, alone=alone)
        for key in (*summary.due, *summary.retrying):
            self._context.queue.add(key, priority)
        for key in (*summary.unsealed, *summary.refused):
            self._context.queue.add(key, Priority.RESYNC)
