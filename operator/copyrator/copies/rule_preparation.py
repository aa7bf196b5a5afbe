"""Prepares what planning a rule's copies needs: spec, watches, complete caches, sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from copyrator.api import names
from copyrator.api.conditions import ReadyCondition
from copyrator.api.counts import count
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import RuleKey
from copyrator.api.rule_spec import Mode, RuleSpec
from copyrator.api.rule_status import RuleFacts
from copyrator.copies import ready_conditions
from copyrator.copies.admission import refusal, tenant_of
from copyrator.copies.cache.bindings import SourceBinding
from copyrator.copies.cache.compiled_rule import CompiledRule
from copyrator.copies.cache.rules import Rule
from copyrator.copies.compiling import RuleCompiler
from copyrator.copies.composed_rules import begin_composed, compose, facts_before, resolve_sources
from copyrator.copies.composer import ComposeError
from copyrator.copies.context import CopyContext
from copyrator.copies.kinds import Kinds
from copyrator.copies.policy.rendering import Text
from copyrator.copies.removal import RuleRemover
from copyrator.copies.rule_state import RuleState
from copyrator.copies.source_watches import has_watches, no_room, watch_sources
from copyrator.copies.status import delay_first_status
from copyrator.copies.traces import what_changed
from copyrator.kube import errors
from copyrator.kube.resources import RULES, Resource
from copyrator.workqueue.fairness import TimeSlice

RECHECK_SECONDS = 2.0
"""Seconds before a rule whose watches aren't complete is reconciled again."""
KIND_AGAIN = 15.0
"""Seconds before a kind that the cluster doesn't serve is looked up again."""


class StoppedError(Exception):
    """The rule can't be served (now); without a condition, its status isn't changed."""

    def __init__(
        self,
        condition: ReadyCondition | None,
        again: float | None = None,
        facts: RuleFacts | None = None,
    ) -> None:
        super().__init__(condition and condition.message)
        self.condition = condition
        self.again = again
        self.facts = facts or RuleFacts()


class RulePreparation:
    """What has to be known of a rule before any of its copies is decided about."""

    def __init__(self, context: CopyContext, kinds: Kinds, remover: RuleRemover) -> None:
        self._context = context
        self._kinds = kinds
        self._remover = remover
        self._compiler = RuleCompiler(context)

    def forget(self, key: RuleKey) -> None:
        """The rule was deleted."""
        self._compiler.forget(key)

    async def prepare(self, state: RuleState, rule: Rule) -> RuleSpec:
        """Watch what the rule needs, and return its spec once all of it is known.

        Raises:
            StoppedError: it isn't known yet, or the rule can't be served.
        """
        spec = self._accepted_spec(rule)
        await self._serve(state, rule, spec)
        if state.compiled is not None:
            await state.compiled.targets.settle(TimeSlice())
        self._check_complete(state, spec)
        await self._compose(state, spec)
        return spec

    def _accepted_spec(self, rule: Rule) -> RuleSpec:
        condition = refusal(rule, self._context.settings, self._kinds)
        if condition is not None:
            self._remover.freeze(rule)
            raise StoppedError(condition)
        assert not isinstance(rule.spec, InvalidSpec)
        return rule.spec

    async def _serve(self, state: RuleState, rule: Rule, spec: RuleSpec) -> None:
        """Add the finalizer, and watch what the rule needs."""
        try:
            resource = await self._context.home.discovery.resolve(spec.kind, spec.api_version)
            sources = await resolve_sources(self._context, spec)
        except (errors.KindUnavailable, errors.AmbiguousKind) as error:
            state.wait()
            raise StoppedError(ready_conditions.kind_unavailable(error), KIND_AGAIN) from error
        for wide in (one for one in (resource, *sources) if not one.namespaced):
            path = "spec.template.kind" if spec.template else "spec.source.kind"
            path = path if wide is resource else "spec.sources"
            problem = InvalidSpec(path, f"a {wide.kind} isn't namespaced")
            raise StoppedError(ready_conditions.invalid(problem))
        if state.compiled is None or state.compiled.rule.uid != rule.uid:
            state.replaced()
        if state.generation == rule.generation and state.compiled is not None:
            await self._ensure_finalizer(rule)
            state.compiled.rule = rule
            return
        texts = await self._compiler.compile(rule, spec)
        if isinstance(texts, ReadyCondition):
            self._remover.freeze(rule)
            raise StoppedError(texts)
        await self._ensure_finalizer(rule)
        self._begin(state, rule, spec, (resource, texts, sources))

    async def _ensure_finalizer(self, rule: Rule) -> None:
        if names.FINALIZER_RULE in rule.finalizers:
            return
        patch = {
            "metadata": {
                "uid": rule.uid,
                "resourceVersion": rule.resource_version,
                "finalizers": [*rule.finalizers, names.FINALIZER_RULE],
            }
        }
        answer = await self._context.home.client.patch(
            RULES, rule.key.namespace, rule.key.name, patch
        )
        metadata = answer["metadata"]
        rule.finalizers = tuple(metadata.get("finalizers") or ())
        rule.resource_version = metadata["resourceVersion"]

    def _begin(
        self,
        state: RuleState,
        rule: Rule,
        spec: RuleSpec,
        made: tuple[Resource, Mapping[str, Text], Sequence[Resource]],
    ) -> None:
        """Begin to serve a new rule, or a new version of it."""
        context = self._context
        assert context.home.sealer is not None
        resource, texts, sources = made
        tenant = tenant_of(rule, context.settings)
        self._await_watches(rule, spec, resource, tenant)
        self._kinds.watch(resource)
        compiled = CompiledRule.of(
            rule,
            spec,
            resource=resource.key,
            targets=context.home.namespaces.targets(spec.targets, tenant),
            sealer=context.home.sealer,
            texts=texts,
        )
        earlier, served = state.sources, state.compiled
        state.trace.begin(what_changed(rule, spec, served.spec if served else None))
        self._remover.drop_bindings(rule.owner)
        state.begin(compiled, rule.generation)
        delay_first_status(context, state)
        if spec.source is not None:
            state.watch(watch_sources(context, state, spec.source, resource, tenant))
        elif spec.sources:
            state.watch(begin_composed(context, state, compiled, sources))
        else:
            state.watch([])
            context.index.add(SourceBinding(compiled, None))
        for registration in earlier:
            registration.release()
        context.shares.of(tenant).next_rule()

    def _await_watches(
        self, rule: Rule, spec: RuleSpec, resource: Resource, tenant: str | None
    ) -> None:
        """Stop here while there is no room for the rule's watches; its own earlier ones make some.

        Nothing is read for a rule that waits.
        """
        context = self._context
        context.shares.forget(rule.key, tenant)
        if spec.source is None or has_watches(context, tenant, spec.source, resource):
            return
        self._remover.freeze(rule)
        if has_watches(context, tenant, spec.source, resource):
            return
        share = context.shares.of(tenant)
        share.waiting[rule.key] = None
        raise StoppedError(ready_conditions.waits(share.no_watch))

    def _check_complete(self, state: RuleState, spec: RuleSpec) -> None:
        """Set the rule's phase: nothing is done on a view that was never complete."""
        context, compiled = self._context, state.compiled
        assert compiled is not None
        view = context.home.kinds[compiled.resource]
        assert context.home.namespace_watch is not None
        watches = [*state.sources, view.registration, context.home.namespace_watch]
        if not all(watch.seen for watch in watches):
            state.wait()
            condition = ready_conditions.watch_fault(watches)
            if condition is None and not compiled.rule.is_observed:
                condition = ready_conditions.reading()
            raise StoppedError(condition, RECHECK_SECONDS)
        share = context.shares.of(tenant_of(compiled.rule, context.settings))
        if why := no_room(state.sources, share):
            state.pause()
            state.freeze()
            raise StoppedError(ready_conditions.waits(why), context.timing.room_again)
        wanted = context.copies_requested(compiled)
        if wanted > spec.limit:
            state.pause()
            state.freeze()
            text = (
                f"the rule requires {count(wanted, 'copy', 'copies')}, more than {spec.limit}; "
                "reduce its targets or sources, or raise spec.limit"
            )
            raise StoppedError(ready_conditions.invalid(InvalidSpec("spec.limit", text)))
        if spec.suspend or spec.mode is Mode.PLAN:
            state.freeze()
        elif all(watch.synced for watch in watches):
            state.serve()
        else:
            state.wait()

    async def _compose(self, state: RuleState, spec: RuleSpec) -> None:
        """Render the copies from the sources; without one of those, they stay as they are."""
        if not spec.sources:
            return
        try:
            await compose(self._context, state)
        except ComposeError as error:
            assert state.compiled is not None
            state.pause()
            state.freeze()
            again = self._context.timing.room_again if error.waits else None
            raise StoppedError(
                error.condition, again, facts_before(self._context, state)
            ) from error
