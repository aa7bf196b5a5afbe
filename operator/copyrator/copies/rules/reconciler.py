"""Reconciles one rule: the copies that are due or unwanted, and its status.

First it prepares what planning the copies needs: the spec, watches, complete caches, sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from copyrator.api import names
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import RuleKey
from copyrator.api.rule_spec import Mode, RuleSpec
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import count
from copyrator.copies.certificates.expiry import CertificateEnds
from copyrator.copies.composed.composer import Composer, binding_of
from copyrator.copies.context import CopyContext
from copyrator.copies.remotes.clusters import CLUSTER_AGAIN, Remotes, RemoteUse
from copyrator.copies.rollout.progress import Rollouts
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.admission import (
    RuleCompiler,
    is_managed,
    may_end,
    name_group,
    refusal,
    tenant_of,
)
from copyrator.copies.rules.deletions import DeletionGuard, RuleRemover
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import CompiledRule, RulePhase, RuleState, StoppedError
from copyrator.copies.rules.status import (
    delay_first_status,
    dropped_fields,
    notify_owners,
    patch_metadata,
    report_fault,
    what_changed,
    write_status,
)
from copyrator.copies.rules.summarize import RuleSummary, summarize_rule
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.copies.sources.watches import (
    SourceWatches,
    no_room,
    unused_sources,
)
from copyrator.copies.targets.kinds import Kinds
from copyrator.copies.template.rendering import Text
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import Registration
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.queue import Done, Failed, Outcome, Priority, RequeueAfter

RECHECK_SECONDS = 2.0
"""Seconds before a rule whose watches aren't complete is reconciled again."""
WATCH_PATIENCE = 10.0
"""Seconds before it is reported that a rule's watches fail, unless they are refused; their recovery
is an event. Those of a process that was suspended seem to have failed for all that time."""
KIND_AGAIN = 15.0
"""Seconds before a kind that the cluster doesn't serve is looked up again."""

SUMMARY_REST = 20.0
"""Pause between two summaries that only the status needs, in multiples of the last one's duration.

A summary takes 5 us for a copy that is right; while some of 100,000 change all the time, it must
not take half of a core.
"""


def watch_health(context: CopyContext, state: RuleState) -> tuple[bool, ...]:
    """Whether each watch that a rule depends on is complete."""
    view = context.kinds.get(state.compiled.resource) if state.compiled else None
    return (
        context.namespaces_synced,
        view is None or view.synced,
        *(registration.synced for registration in state.sources),
    )


class RuleReconciler:
    """Reconciles rule keys; without `in_steps`, as in a dry run, ``spec.rollout`` doesn't count."""

    def __init__(self, context: CopyContext, kinds: Kinds, *, in_steps: bool = True) -> None:
        self._context = context
        self._kinds = kinds
        self._compiler = RuleCompiler(context)
        self._watches = SourceWatches(context)
        self._deletions = DeletionGuard(context)
        # What rules may use; called for those that use it.
        self.remotes = Remotes(context)
        self._composer = Composer(context)
        self._rollouts = Rollouts(context) if in_steps else None
        self._certificates = CertificateEnds(context)
        self._remover = RuleRemover(context, self.remotes.release, self._certificates.gauge.forget)

    async def reconcile(self, key: RuleKey) -> Outcome:
        """Reconcile a rule and queue its copies."""
        rule = self._context.rules.get(key)
        if rule is None:
            self._remover.forget(key)
            self._compiler.forget(key)
            return Done()
        try:
            return await self._reconcile(rule)
        except errors.ConflictError:
            return RequeueAfter(0.2)  # the rule has changed: its watch event follows
        except ApiError as error:
            if isinstance(error, errors.Forbidden):
                await report_fault(self._context, rule, ready_conditions.forbidden(error))
            return Failed(error)
        except Exception as error:
            await report_fault(self._context, rule, ready_conditions.failed(error))
            return Failed(error)

    async def _reconcile(self, rule: Rule) -> Outcome:
        if rule.deleting and may_end(rule, self._context.settings, self._kinds):
            return await self._remover.remove(rule)
        if not is_managed(rule, self._context.settings):
            self._remover.forget(rule.key)
            return Done()
        return sooner(await self._serve(rule), self._certificates.settle(rule))

    async def _serve(self, rule: Rule) -> Outcome:
        state = self._context.rule_states.setdefault(rule.key, RuleState(rule.key))
        try:
            spec = await self._prepare(state, rule)
            await self._judge_edit(state, rule, spec)
            wait = await self._advance(state, rule)
        except StoppedError as stopped:
            if stopped.freezes:
                self._remover.freeze(rule)
            if stopped.condition:
                await write_status(self._context, state, rule, stopped.condition, stopped.facts)
            return RequeueAfter(stopped.again) if stopped.again else Done()
        return sooner(await self._summarize(state, rule), wait)

    async def _prepare(self, state: RuleState, rule: Rule) -> RuleSpec:
        """Watch what the rule needs, and return its spec once all of it is known.

        Raises:
            StoppedError: it isn't known yet, or the rule can't be served.
        """
        spec = await self._accepted_spec(rule)
        if spec.kubeconfigs or state.has_remotes:
            await self.remotes.connect(state, rule, spec.kubeconfigs)
        await self._serve_spec(state, rule, spec)
        if state.compiled is not None:
            await state.compiled.targets.settle(TimeSlice())
        self._check_complete(state, spec)
        if spec.sources:
            await self._composer.compose(state)
        return spec

    async def _accepted_spec(self, rule: Rule) -> RuleSpec:
        condition, spec = refusal(rule, self._context.settings, self._kinds), rule.spec
        if condition is None:
            assert not isinstance(spec, InvalidSpec)
            return spec
        self._remover.freeze(rule)
        self.remotes.release(rule.key)
        if not isinstance(spec, InvalidSpec):
            condition = await name_group(condition, spec, self._kinds, self._context.discovery)
        again = KIND_AGAIN if condition.health is Health.RETRYING else None
        raise StoppedError(condition, again)

    async def _serve_spec(self, state: RuleState, rule: Rule, spec: RuleSpec) -> None:
        """Compile a new version of the spec, add the finalizer, and watch what the rule needs."""
        try:
            resolve = self._context.discovery.resolve
            resource = await resolve(spec.kind, spec.api_version)
            read = spec.composed_sources
            sources = [await resolve(entry.kind, entry.api_version) for entry in read]
        except (errors.KindUnavailable, errors.AmbiguousKind) as error:
            state.phase = RulePhase.INCOMPLETE
            raise StoppedError(ready_conditions.kind_unavailable(error), KIND_AGAIN) from error
        for wide in (one for one in (resource, *sources) if not one.namespaced):
            path = "spec.template.kind" if spec.template else "spec.source.kind"
            path = path if wide is resource else "spec.sources"
            problem = InvalidSpec(path, f"a {wide.kind} isn't namespaced")
            raise StoppedError(ready_conditions.invalid(problem))
        if state.compiled is None or state.compiled.rule.uid != rule.uid:
            state.replaced()
        remotes = self.remotes if state.has_remotes else None
        served = state.generation == rule.generation
        if remotes:
            served = served and remotes.are_served(rule.key)
        if served and state.compiled is not None:
            await self._ensure_finalizer(rule)
            state.compiled.rule = rule
            return
        texts = await self._compiler.compile(rule, spec)
        if isinstance(texts, ReadyCondition):
            raise StoppedError(texts, freezes=True)
        await self._ensure_finalizer(rule)
        if remotes and not remotes.serve(rule.key):
            raise StoppedError(None, RECHECK_SECONDS)
        self._begin(state, rule, spec, (resource, texts, sources))

    async def _ensure_finalizer(self, rule: Rule) -> None:
        if names.FINALIZER_RULE not in rule.finalizers:
            finalizers = [*rule.finalizers, names.FINALIZER_RULE]
            await patch_metadata(self._context, rule, finalizers=finalizers)

    def _begin(
        self,
        state: RuleState,
        rule: Rule,
        spec: RuleSpec,
        made: tuple[Resource, Mapping[str, Text], Sequence[Resource]],
    ) -> None:
        """Begin to serve a new rule, or a new version of it."""
        context = self._context
        assert context.sealer is not None
        resource, texts, sources = made
        tenant = tenant_of(rule, context.settings)
        self._await_watches(rule, spec, resource, tenant)
        self._kinds.watch(resource)
        compiled = CompiledRule(
            rule,
            spec,
            resource=resource.key,
            targets=context.namespaces.targets(spec.targets, tenant),
            sealer=context.sealer,
            texts=texts,
        )
        earlier, served = state.sources, state.compiled
        state.trace.begin(what_changed(rule, spec, served.spec if served else None))
        self._remover.drop_bindings(rule.owner)
        rollouts = self._rollouts if spec.rollout else None
        state.barrier = rollouts.begin(compiled, state.barrier) if rollouts else None
        compiled.barrier = state.barrier
        state.begin(compiled, rule.generation)
        delay_first_status(context, state)
        if spec.source is not None:
            remote = self._remote_of(rule.key, spec)
            informers = remote.informers if remote else context.informers
            share = remote.share if remote else context.shares.of(tenant)
            state.sources = self._watches.join(state, resource, informers, share)
            if remote:
                remote.watches += state.sources
        elif spec.sources:
            remotes = self.remotes.of_rule(rule.key) if spec.kubeconfigs else {}
            state.sources = self._composer.begin(state, sources, remotes)
        else:
            state.sources = []
            context.index.add(SourceBinding(compiled, None))
        for registration in earlier:
            registration.release()
        context.shares.of(tenant).next_rule()

    def _remote_of(self, key: RuleKey, spec: RuleSpec) -> RemoteUse | None:
        """The other cluster that a rule's source is in, or None."""
        kubeconfig = spec.source.kubeconfig if spec.source else None
        return self.remotes.of_rule(key)[kubeconfig] if kubeconfig else None

    def _await_watches(
        self, rule: Rule, spec: RuleSpec, resource: Resource, tenant: str | None
    ) -> None:
        """Stop here while there is no room for the rule's watches; its own earlier ones make some.

        Nothing is read for a rule that waits.
        """
        context = self._context
        context.shares.forget(rule.key, tenant)
        if spec.source is None or self._watches.has_room(tenant, spec.source, resource):
            return
        self._remover.freeze(rule)
        if self._watches.has_room(tenant, spec.source, resource):
            return
        share = context.shares.of(tenant)
        share.waiting[rule.key] = None
        raise StoppedError(ready_conditions.waits(share.no_watch))

    def _check_complete(self, state: RuleState, spec: RuleSpec) -> None:
        """Set the rule's phase: nothing is done on a view that was never complete."""
        context, compiled = self._context, state.compiled
        assert compiled is not None
        watches = self._watches_of(state, compiled)
        state.watch_health = watch_health(context, state)
        if not all(watch.seen for watch in watches):
            state.phase = RulePhase.INCOMPLETE
            condition, facts = None, None
            if state.has_remotes and (condition := self.remotes.judge(compiled.rule)):
                facts = self.remotes.facts_kept(compiled.rule)
            condition = condition or ready_conditions.watch_fault(watches)
            if condition is None and not compiled.rule.is_observed:
                condition = ready_conditions.reading()
            raise StoppedError(condition, RECHECK_SECONDS, facts)
        remote = self._remote_of(state.key, spec)
        share = remote.share if remote else context.shares.of(compiled.targets.tenant)
        if why := no_room(state.sources, share):
            state.freeze()
            raise StoppedError(ready_conditions.waits(why), context.timing.room_again)
        wanted = context.copies_requested(compiled)
        if wanted > spec.limit:
            state.freeze()
            text = (
                f"the rule requires {count(wanted, 'copy', 'copies')}, more than {spec.limit}; "
                "reduce its targets or sources, or raise spec.limit"
            )
            raise StoppedError(ready_conditions.invalid(InvalidSpec("spec.limit", text)))
        if spec.suspend or spec.mode is Mode.PLAN:
            state.phase = RulePhase.FROZEN
        elif all(watch.synced for watch in watches):
            state.phase = RulePhase.SERVING
        else:
            now = context.monotonic()
            if state.phase is RulePhase.SERVING:
                state.next_fault = now + WATCH_PATIENCE
            state.phase = RulePhase.INCOMPLETE
            refusals = errors.Forbidden, errors.NotFound
            is_refused = any(isinstance(watch.failure, refusals) for watch in watches)
            if now < state.next_fault and not is_refused:
                raise StoppedError(None, state.next_fault - now)

    def _watches_of(self, state: RuleState, compiled: CompiledRule) -> list[Registration]:
        view, namespaces = self._context.kinds[compiled.resource], self._context.namespace_watch
        assert namespaces is not None
        return [*state.sources, view.registration, namespaces]

    async def _judge_edit(self, state: RuleState, rule: Rule, spec: RuleSpec) -> None:
        """Let the rule write; what an edit would delete is decided, and recorded, before that.

        Otherwise the copies that it creates would change the result after a restart.
        """
        compiled = state.compiled
        assert compiled is not None
        if state.phase is not RulePhase.FROZEN:
            await self._deletions.judge(state, rule, spec)
        if not compiled.active and state.deletions.is_unconfirmed(rule.generation):
            await self._report_now(state, rule)
        state.resume()

    async def _advance(self, state: RuleState, rule: Rule) -> float | None:
        """Decide which copies get changed content now, on a complete view."""
        rollouts = self._rollouts
        if state.phase is not RulePhase.SERVING or not state.barrier or not rollouts:
            return None
        return await rollouts.advance(state, partial(self._report_now, state, rule))

    async def _summarize(self, state: RuleState, rule: Rule) -> Outcome:
        context = self._context
        began = context.monotonic()
        summary = await summarize_rule(context, rule)
        ended = context.monotonic()
        state.next_summary = ended + SUMMARY_REST * (ended - began)
        if state.take_request(rule.requested, rule.status.last_handled_request):
            for key in (*summary.retrying, *summary.contested):
                context.problems.pop(key, None)
                context.fights.end(key)
                context.queue.add(key)
            summary = await summarize_rule(context, rule)
        notify_owners(context, state, rule, summary)
        await self._reseal(state, rule, summary)
        queued = any(not context.queue.is_delayed(key) for key in summary.due)
        fresh = state.summarized != rule.generation
        priority = Priority.NORMAL if fresh else Priority.RESYNC
        for key in summary.due:
            context.queue.add(key, priority, respect_backoff=not fresh)
        if fresh:
            for key in summary.retrying:
                context.queue.add(key, priority)
        if state.phase is RulePhase.SERVING:
            await self._deletions.decide(state, rule, summary)
            state.summarized = rule.generation
        # Failed copies don't count: they may need a person's action.
        if summary.pending == 0 and (lag := state.lag.take()) is not None:
            context.metrics.copy_lag_seconds.observe(lag)
        if fresh and (summary.due or state.deletions.condemned):
            delay_first_status(context, state)
        self._order_status(state, rule, summary, queued=queued)
        await self._report(state, rule, summary)
        return self._next(state, rule)

    async def _reseal(self, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
        """Read objects with the rule's marks and no valid seal, at low priority; end a request."""
        resealed = summary.refused if state.take_reseal(rule.reseal) else []
        for key in (*summary.unsealed, *resealed):
            self._context.queue.add(key, Priority.RESYNC, respect_backoff=True)
        left = summary.unsealed or summary.refused or state.phase is not RulePhase.SERVING
        if rule.reseal is not None and not left:
            end = {names.ANN_RULE_RESEAL_AT: None}
            await patch_metadata(self._context, rule, annotations=end)
            rule.reseal = None

    def _next(self, state: RuleState, rule: Rule) -> Outcome:
        """When the rule is reconciled again although nothing changes."""
        if state.phase is RulePhase.INCOMPLETE:
            is_away = state.has_remotes and self.remotes.judge(rule)  # its recovery is an event
            return RequeueAfter(CLUSTER_AGAIN if is_away else RECHECK_SECONDS)
        assert state.compiled is not None
        if not state.compiled.spec.sources:
            return Done()
        wait = self._composer.seconds_until_change(rule.owner)
        return Done() if wait is None else RequeueAfter(wait)

    def _order_status(
        self, state: RuleState, rule: Rule, summary: RuleSummary, *, queued: bool
    ) -> None:
        """Delay the status until the copies are written, unless more of them have failed."""
        now = self._context.monotonic()
        known = rule.status.copies
        conflicts = summary.conflicts + len(summary.contested)
        if summary.failed > known.failed or conflicts > known.conflicts:
            state.note_change(now)
        if state.phase is RulePhase.SERVING:
            queued = queued or bool(state.deletions.condemned)
            state.await_copies(now, self._context.timing.settling, queued=queued)

    async def _report_now(self, state: RuleState, rule: Rule) -> None:
        state.next_status = 0.0
        await self._report(state, rule, await summarize_rule(self._context, rule))

    async def _report(self, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
        """Write what a summary found.

        Raises:
            ApiError: the status can't be written.
        """
        context, compiled = self._context, state.compiled
        assert compiled is not None
        spec = compiled.spec
        composed = binding_of(context, rule.owner) if spec.sources else None
        unused = ""
        if composed is not None:
            sources = composed.composition.count()
        else:
            sources = len(context.index.of_rule(rule.owner)) if spec.source is not None else 0
            unused = "" if sources else unused_sources(context, state)
        remotes = self.remotes if state.has_remotes else None
        condition = (
            (remotes and remotes.judge(rule))
            or ready_conditions.watch_fault(self._watches_of(state, compiled))
            or ready_conditions.summarized(
                compiled, summary, sources, unused, state.deletions.unconfirmed
            )
        )
        certificates = list(remotes.credentials(rule)) if remotes else []
        if composed is not None:
            certificates += composed.composition.certificates
        found = ready_conditions.facts(
            spec, summary, sources=sources, targets=len(compiled.targets)
        )
        found = replace(
            found,
            certificates=await self._certificates.find(rule, certificates),
            clusters=remotes.describe(rule) if remotes else (),
            dropped=dropped_fields(state, rule, spec),
        )
        if compiled.barrier is not None:
            found = compiled.barrier.describe(found)
        if composed is not None:
            found = composed.composition.describe(found)
        await write_status(context, state, rule, condition, found)


def sooner(outcome: Outcome, wait: float | None) -> Outcome:
    """The same, but reconcile again in `wait` seconds at the latest; a failure has its back-off."""
    if wait is None or isinstance(outcome, Failed):
        return outcome
    return RequeueAfter(min(wait, outcome.after) if isinstance(outcome, RequeueAfter) else wait)
