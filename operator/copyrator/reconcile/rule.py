"""One rule: what it means now, which copies that makes due or unwanted, and its status."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from copyrator.api import names
from copyrator.api.conditions import Verdict
from copyrator.api.keys import RuleKey
from copyrator.api.rule import InvalidSpec, Mode, RuleSpec
from copyrator.api.rule_status import RuleFacts
from copyrator.engine.outcome import Again, Done, Failed, Outcome
from copyrator.engine.queue import Lane
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import RULES, Resource
from copyrator.kube.watchpool import Subscription
from copyrator.reconcile import verdicts
from copyrator.reconcile.acceptance import is_meant, may_end, refusal, tenant_of
from copyrator.reconcile.compiling import RuleCompiler
from copyrator.reconcile.kinds import Kinds
from copyrator.reconcile.removal import RuleRemover
from copyrator.reconcile.resealing import end_request, queue_unsealed
from copyrator.reconcile.sources import has_watches, no_room, watch_sources
from copyrator.reconcile.status import (
    delay_first_status,
    say_failed,
    say_forbidden,
    write_status,
)
from copyrator.reconcile.survey import Survey, survey_rule
from copyrator.reconcile.world import SURVEY_REST, Service, Standing, World
from copyrator.registry.claims import Claim, Maker
from copyrator.registry.rules import Rule
from copyrator.rules.rendering import Text
from copyrator.timeslice import TimeSlice

log = logging.getLogger(__name__)

LOOK_AGAIN = 2.0
"""Seconds until a rule whose watches aren't complete is looked at again."""
ROOM_AGAIN = 15.0
"""Seconds until is looked again whether there is room for all sources of a rule."""
KIND_AGAIN = 15.0
"""Seconds until a kind that the cluster doesn't serve is looked for again."""


class _StoppedError(Exception):
    """The rule can't be served (now); without a verdict, what its status says stays."""

    def __init__(self, verdict: Verdict | None, again: float | None = None) -> None:
        super().__init__(verdict and verdict.message)
        self.verdict = verdict
        self.again = again


def _is_judged(rule: Rule) -> bool:
    """Whether its status speaks of this spec: after a restart it is as true as it was before."""
    return rule.status.get("observedGeneration") == rule.generation


class RuleReconciler:
    """Reconciles rule keys."""

    def __init__(self, world: World, kinds: Kinds) -> None:
        self._world = world
        self._kinds = kinds
        self._remover = RuleRemover(world, kinds)
        self._compiler = RuleCompiler(world)

    async def reconcile(self, key: RuleKey) -> Outcome:
        """Look at a rule and at everything that it concerns."""
        rule = self._world.rules.get(key)
        if rule is None:
            self._remover.forget(key)
            self._compiler.forget(key)
            return Done()
        try:
            return await self._look(rule)
        except errors.ConflictError:
            return Again(0.2)  # the rule has changed: its event is on the way
        except ApiError as error:
            if isinstance(error, errors.Forbidden):
                await say_forbidden(self._world, rule, error)
            return Failed(error)
        except Exception as error:
            await say_failed(self._world, rule, error)
            return Failed(error)

    async def _look(self, rule: Rule) -> Outcome:
        if rule.deleting and may_end(rule, self._world.settings, self._kinds):
            return await self._remover.remove(rule)
        if not is_meant(rule, self._world.settings):
            self._remover.forget(rule.key)
            return Done()
        return await self._serve(rule)

    async def _serve(self, rule: Rule) -> Outcome:
        service = self._world.services.setdefault(rule.key, Service(rule.key))
        try:
            spec = self._accepted_spec(rule)
            await self._prepare(service, rule, spec)
            if service.maker is not None:
                await service.maker.targets.settle(TimeSlice())
            self._check_complete(service, spec)
        except _StoppedError as stopped:
            if stopped.verdict:
                await write_status(self._world, service, rule, stopped.verdict, RuleFacts())
            return Again(stopped.again) if stopped.again else Done()
        return await self._survey(service, rule, spec)

    # --- what the rule means ---------------------------------------------------------------------

    def _accepted_spec(self, rule: Rule) -> RuleSpec:
        verdict = refusal(rule, self._world.settings, self._kinds)
        if verdict is not None:
            self._remover.freeze(rule)
            raise _StoppedError(verdict)
        assert not isinstance(rule.spec, InvalidSpec)
        return rule.spec

    async def _prepare(self, service: Service, rule: Rule, spec: RuleSpec) -> None:
        """Put the finalizer on, and watch what the rule needs."""
        try:
            resource = await self._world.discovery.resolve(spec.kind, spec.api_version)
        except (errors.KindUnavailable, errors.AmbiguousKind) as error:
            service.standing = Standing.INCOMPLETE
            raise _StoppedError(verdicts.kind_unavailable(error), KIND_AGAIN) from error
        if not resource.namespaced:
            path = "spec.template.kind" if spec.template else "spec.source.kind"
            problem = InvalidSpec(path, f"a {spec.kind} stands in no namespace")
            raise _StoppedError(verdicts.invalid(problem))
        if service.maker is None or service.maker.rule.uid != rule.uid:
            service.generation = 0
        if service.generation == rule.generation and service.maker is not None:
            await self._put_finalizer_on(rule)
            service.maker.rule = rule
            return
        texts = await self._compiler.compile(rule, spec)
        if isinstance(texts, Verdict):
            self._remover.freeze(rule)
            raise _StoppedError(texts)
        await self._put_finalizer_on(rule)
        self._begin(service, rule, spec, (resource, texts))

    async def _put_finalizer_on(self, rule: Rule) -> None:
        if names.FINALIZER_RULE in rule.finalizers:
            return
        patch = {
            "metadata": {
                "uid": rule.uid,
                "resourceVersion": rule.resource_version,
                "finalizers": [*rule.finalizers, names.FINALIZER_RULE],
            }
        }
        answer = await self._world.client.patch(RULES, rule.key.namespace, rule.key.name, patch)
        metadata = answer["metadata"]
        rule.finalizers = tuple(metadata.get("finalizers") or ())
        rule.resource_version = metadata["resourceVersion"]

    def _begin(
        self,
        service: Service,
        rule: Rule,
        spec: RuleSpec,
        made: tuple[Resource, Mapping[str, Text]],
    ) -> None:
        """Serve a new rule, or a new version of it."""
        world = self._world
        assert world.sealer is not None
        resource, texts = made
        tenant = tenant_of(rule, world.settings)
        self._await_watches(rule, spec, resource, tenant)
        self._kinds.watch(resource)
        maker = Maker.of(
            rule,
            spec,
            resource=resource.key,
            targets=world.namespaces.targets(spec.targets, tenant),
            sealer=world.sealer,
            texts=texts,
        )
        service.standing = Standing.INCOMPLETE
        earlier = service.sources
        self._remover.drop_claims(rule.owner)
        service.maker = maker
        service.generation = rule.generation
        service.second_look = None
        service.condemned.clear()
        delay_first_status(world, service)
        if spec.source is not None:
            service.sources = watch_sources(world, service, spec.source, resource, tenant)
        else:
            service.sources = []
            world.index.add(Claim(maker, None))
        for subscription in earlier:
            subscription.release()
        world.shares.of(tenant).next_rule()

    def _await_watches(
        self, rule: Rule, spec: RuleSpec, resource: Resource, tenant: str | None
    ) -> None:
        """Stop here while there is no room for the rule's watches; its own earlier ones make some.

        Nothing is read for a rule that waits.
        """
        world = self._world
        world.shares.forget(rule.key, tenant)
        if spec.source is None or has_watches(world, tenant, spec.source, resource):
            return
        self._remover.freeze(rule)
        if has_watches(world, tenant, spec.source, resource):
            return
        share = world.shares.of(tenant)
        share.waiting[rule.key] = None
        raise _StoppedError(verdicts.waits(share.no_watch))

    def _check_complete(self, service: Service, spec: RuleSpec) -> None:
        """Find out how far the rule may act: nothing is done on a view never seen whole."""
        world, maker = self._world, service.maker
        assert maker is not None
        view = world.kinds[maker.resource]
        assert world.namespace_watch is not None
        watches = [*service.sources, view.subscription, world.namespace_watch]
        if not all(watch.seen for watch in watches):
            service.standing = Standing.INCOMPLETE
            verdict = verdicts.watch_fault(watches)
            if verdict is None and not _is_judged(maker.rule):
                verdict = verdicts.reading()
            raise _StoppedError(verdict, LOOK_AGAIN)
        share = world.shares.of(tenant_of(maker.rule, world.settings))
        if why := no_room(service.sources, share):
            maker.active = False
            service.standing = Standing.FROZEN
            raise _StoppedError(verdicts.waits(why), ROOM_AGAIN)
        wanted = world.copies_meant(maker)
        if wanted > spec.limit:
            maker.active = False
            service.standing = Standing.FROZEN
            text = f"the rule means {wanted} copies, more than {spec.limit}; narrow it or raise it"
            raise _StoppedError(verdicts.invalid(InvalidSpec("spec.limit", text)))
        maker.active = True
        if spec.suspend or spec.mode is Mode.PLAN:
            service.standing = Standing.FROZEN
        elif all(watch.synced for watch in watches):
            service.standing = Standing.SERVING
        else:
            service.standing = Standing.INCOMPLETE

    # --- what is due -----------------------------------------------------------------------------

    async def _survey(self, service: Service, rule: Rule, spec: RuleSpec) -> Outcome:
        world = self._world
        began = world.monotonic()
        survey = await survey_rule(world, rule)
        ended = world.monotonic()
        service.next_survey = ended + SURVEY_REST * (ended - began)
        if rule.requested not in (None, service.request, rule.status.get("lastHandledRequest")):
            service.request = rule.requested
            for key in survey.retrying:
                world.problems.pop(key, None)
                world.queue.add(key)
            survey = await survey_rule(world, rule)
        queue_unsealed(world, service, rule, survey)
        await end_request(world, service, rule, survey)
        fresh = service.surveyed != rule.generation
        lane = Lane.NORMAL if fresh else Lane.RESYNC
        for key in survey.due:
            world.queue.add(key, lane, respect_backoff=not fresh)
        if fresh:
            for key in survey.retrying:
                world.queue.add(key, lane)
        if service.standing is Standing.SERVING:
            changed = fresh and service.surveyed != 0
            self._judge_unwanted(service, survey, changed=changed)
            service.surveyed = rule.generation
        self._measure_lag(service, survey)
        if fresh and (survey.due or service.condemned):
            delay_first_status(world, service)
        await self._report(service, rule, spec, survey)
        return Again(LOOK_AGAIN) if service.standing is Standing.INCOMPLETE else Done()

    def _measure_lag(self, service: Service, survey: Survey) -> None:
        """What failed doesn't count: it may wait for a person."""
        changed = service.source_changed
        if changed is not None and survey.pending == 0 and not service.open_writes:
            if service.last_write >= changed:
                self._world.metrics.copy_lag_seconds.observe(service.last_write - changed)
            service.source_changed = None

    def _judge_unwanted(self, service: Service, survey: Survey, *, changed: bool) -> None:
        """Decide which copies are deleted; a great many only when a second list says the same."""
        if not survey.unwanted:
            service.condemned.clear()
            service.second_look = None
            return
        if survey.is_mass_deletion and not changed and not self._is_confirmed(service):
            log.warning(
                "%s: %d of %d copies aren't wanted any more, though the rule hasn't changed; "
                "listing again before they are deleted",
                service.key,
                len(survey.unwanted),
                len(survey.unwanted) + survey.kept,
            )
            return
        service.condemned = set(survey.unwanted)
        for key in survey.unwanted:
            self._world.queue.add(key, Lane.NORMAL, respect_backoff=True)

    def _is_confirmed(self, service: Service) -> bool:
        if service.second_look is None:
            assert self._world.namespace_watch is not None
            watches: list[Subscription] = [*service.sources, self._world.namespace_watch]
            service.second_look = {watch: watch.reflector.lists for watch in watches}
            for watch in watches:
                watch.reflector.relist()
            return False
        return all(
            watch.synced and watch.reflector.lists > before
            for watch, before in service.second_look.items()
        )

    async def _report(self, service: Service, rule: Rule, spec: RuleSpec, survey: Survey) -> None:
        world, maker = self._world, service.maker
        assert maker is not None
        claims = len(world.index.of_rule(rule.owner))
        sources = claims if spec.source is not None else 0
        refused = sum(len(watch.store) for watch in service.sources) - sources
        assert world.namespace_watch is not None
        verdict = verdicts.watch_fault(
            [*service.sources, world.kinds[maker.resource].subscription, world.namespace_watch]
        ) or verdicts.surveyed(spec, survey, sources, refused)
        found = verdicts.facts(spec, survey, sources=sources, targets=len(maker.targets))
        await write_status(world, service, rule, verdict, found)
