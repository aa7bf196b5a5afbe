"""Reconciles one rule: the copies that are due or unwanted, and its status."""

from __future__ import annotations

from copyrator.api.certificates import read_certificates, seconds_until_transition
from copyrator.api.keys import RuleKey
from copyrator.api.rollout import read_rollout_state
from copyrator.api.rule_spec import RuleSpec
from copyrator.copies.admission import is_managed, may_end
from copyrator.copies.cache.rules import Rule
from copyrator.copies.composed_rules import seconds_until_change
from copyrator.copies.consumers import Consumers
from copyrator.copies.context import SUMMARY_REST, CopyContext
from copyrator.copies.deletions import DeletionGuard
from copyrator.copies.kinds import Kinds
from copyrator.copies.notices import notify_owners
from copyrator.copies.removal import RuleRemover
from copyrator.copies.resealing import end_request, queue_unsealed
from copyrator.copies.rollouts import RolloutActions, advance
from copyrator.copies.rule_preparation import RECHECK_SECONDS, RulePreparation, StoppedError
from copyrator.copies.rule_report import report
from copyrator.copies.rule_state import RulePhase, RuleState
from copyrator.copies.status import (
    delay_first_status,
    report_failed,
    report_forbidden,
    write_status,
)
from copyrator.copies.summarize import RuleSummary, summarize_rule
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.workqueue.outcome import Done, Failed, Outcome, Priority, RequeueAfter, sooner


class RuleReconciler:
    """Reconciles rule keys."""

    def __init__(self, context: CopyContext, kinds: Kinds) -> None:
        self._context = context
        self._kinds = kinds
        self._remover = RuleRemover(context, kinds)
        self._preparation = RulePreparation(context, kinds, self._remover)
        self._deletions = DeletionGuard(context)
        self._consumers = Consumers(context)

    async def reconcile(self, key: RuleKey) -> Outcome:
        """Reconcile a rule and queue its copies."""
        rule = self._context.rules.get(key)
        if rule is None:
            self._remover.forget(key)
            self._preparation.forget(key)
            return Done()
        try:
            return await self._reconcile(rule)
        except errors.ConflictError:
            return RequeueAfter(0.2)  # the rule has changed: its watch event follows
        except ApiError as error:
            if isinstance(error, errors.Forbidden):
                await report_forbidden(self._context, rule, error)
            return Failed(error)
        except Exception as error:
            await report_failed(self._context, rule, error)
            return Failed(error)

    async def _reconcile(self, rule: Rule) -> Outcome:
        if rule.deleting and may_end(rule, self._context.settings, self._kinds):
            return await self._remover.remove(rule)
        if not is_managed(rule, self._context.settings):
            self._remover.forget(rule.key)
            return Done()
        return self._until_certificate(rule, await self._serve(rule))

    def _until_certificate(self, rule: Rule, outcome: Outcome) -> Outcome:
        """The outcome, due at the latest when a certificate's warning begins or it ends."""
        wait = seconds_until_transition(
            read_certificates(rule.status),
            self._context.clock(),
            self._context.settings.certificate_warning,
        )
        return sooner(outcome, wait)

    async def _serve(self, rule: Rule) -> Outcome:
        state = self._context.rule_states.setdefault(rule.key, RuleState(rule.key))
        try:
            spec = await self._preparation.prepare(state, rule)
            await self._judge_edit(state, rule, spec)
            wait = await self._advance(state, rule)
        except StoppedError as stopped:
            if stopped.condition:
                await write_status(self._context, state, rule, stopped.condition, stopped.facts)
            return RequeueAfter(stopped.again) if stopped.again else Done()
        return sooner(await self._summarize(state, rule), wait)

    async def _judge_edit(self, state: RuleState, rule: Rule, spec: RuleSpec) -> None:
        """Let the rule write; what an edit would delete is decided, and recorded, before that.

        Otherwise the copies that it creates would change the result after a restart.
        """
        compiled = state.compiled
        assert compiled is not None
        if state.phase is not RulePhase.FROZEN:
            await self._deletions.judge(state, rule, spec)
        if not compiled.active and state.is_unconfirmed(rule.generation):
            state.report_at_once()
            await report(self._context, state, rule, await summarize_rule(self._context, rule))
        state.resume()

    async def _advance(self, state: RuleState, rule: Rule) -> float | None:
        """Decide which copies get changed content now, on a complete view."""
        if state.phase is not RulePhase.SERVING:
            return None

        async def persist() -> bool:
            state.report_at_once()
            await report(self._context, state, rule, await summarize_rule(self._context, rule))
            stored = read_rollout_state(rule.status)
            return bool(stored and state.rollout and stored.ticket == state.rollout.ticket)

        wait = await advance(self._context, state, RolloutActions(self._consumers, persist))
        if state.rollout is not None and state.rollout.running:
            state.forget_lag()  # its copies are delayed by the rollout
        return wait

    async def _summarize(self, state: RuleState, rule: Rule) -> Outcome:
        context = self._context
        began = context.monotonic()
        summary = await summarize_rule(context, rule)
        ended = context.monotonic()
        state.delay_summary(ended + SUMMARY_REST * (ended - began))
        if state.take_request(rule.requested, rule.status.get("lastHandledRequest")):
            for key in (*summary.retrying, *summary.contested):
                context.problems.pop(key, None)
                context.clusters[key.cluster].fights.end(key)
                context.queue.add(key)
            summary = await summarize_rule(context, rule)
        notify_owners(context, state, rule, summary)
        queue_unsealed(context, state, rule, summary)
        await end_request(context, state, rule, summary)
        fresh = state.summarized != rule.generation
        priority = Priority.NORMAL if fresh else Priority.RESYNC
        for key in summary.due:
            context.queue.add(key, priority, respect_backoff=not fresh)
        if fresh:
            for key in summary.retrying:
                context.queue.add(key, priority)
        if state.phase is RulePhase.SERVING:
            await self._deletions.decide(state, rule, summary)
            state.complete(rule.generation)
        self._measure_lag(state, summary)
        if fresh and (summary.due or state.condemned):
            delay_first_status(context, state)
        await report(context, state, rule, summary)
        if state.phase is RulePhase.INCOMPLETE:
            return RequeueAfter(RECHECK_SECONDS)
        wait = seconds_until_change(context, state)
        return Done() if wait is None else RequeueAfter(wait)

    def _measure_lag(self, state: RuleState, summary: RuleSummary) -> None:
        """Failed copies don't count: they may need a person's action."""
        if summary.pending == 0 and (lag := state.take_lag()) is not None:
            self._context.metrics.copy_lag_seconds.observe(lag)
