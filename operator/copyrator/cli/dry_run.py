"""The operator's own copying half as a dry run: nothing that it writes is stored.

The planner, the writer and their state are the operator's: there is no second implementation.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from secrets import token_bytes
from typing import Any

from copyrator.api import names
from copyrator.api.conditions import (
    ConditionType,
    Health,
    ReadyCondition,
    conditions_by_type,
)
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import CopyKey, Key, ObjectName, RuleKey
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import FailureReason, RuleReason
from copyrator.cli.acting import Actor
from copyrator.cli.dry_run_client import DryRunClient
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint
from copyrator.cli.installation import Installation
from copyrator.cli.objects import listed
from copyrator.copies.admission import refusal
from copyrator.copies.cache.namespaces import Namespace, NamespaceReader, Namespaces
from copyrator.copies.cache.rules import Rule, RuleCache
from copyrator.copies.cluster_context import ClusterContext
from copyrator.copies.context import CopyContext
from copyrator.copies.copy_reconciler import CopyReconciler
from copyrator.copies.hash_key import load_sealer
from copyrator.copies.kinds import Kinds
from copyrator.copies.policy.sealing import DIGEST_BYTES, KEY_BYTES, Sealer
from copyrator.copies.ready_conditions import missing_source
from copyrator.copies.rule_reconciler import RuleReconciler
from copyrator.copies.rule_state import RulePhase, RuleState
from copyrator.copies.source_watches import unused_sources
from copyrator.copies.summarize import RuleSummary
from copyrator.kube import errors
from copyrator.kube.events import EventRecorder
from copyrator.kube.resources import NAMESPACES, RULES, Discovery
from copyrator.kube.watch.informers import InformerFactory, WatchSpec
from copyrator.kube.watch.scoped_informers import ScopedInformerFactory
from copyrator.metrics import Metrics
from copyrator.workqueue.queue import WorkQueue

_REFUSED = (RuleReason.NOT_TRUSTED, RuleReason.KIND_UNAVAILABLE)
"""Reasons that depend on the operator's settings."""
_SERVED = (RulePhase.SERVING, RulePhase.FROZEN)
PATIENCE = 60.0
"""Seconds to list everything that a rule needs."""


class _AnySealer(Sealer):
    """Used without the permission to read the operator's key: every seal is valid, its digest old.

    What is planned from that is compared with the live object before it is shown.
    """

    __slots__ = ()

    def open(self, *_args: str) -> bytes | None:
        return bytes(DIGEST_BYTES)


class DryRun:
    """All rules of one kind, served as a dry run; only `act` writes copies."""

    def __init__(self, client: DryRunClient, installation: Installation, actor: Actor) -> None:
        metrics = Metrics()
        queue: WorkQueue[Key] = WorkQueue()
        self.client = client
        self.informers = InformerFactory(client, metrics=metrics)
        if actor.scopes:
            self.informers = ScopedInformerFactory(client, actor.scopes, metrics=metrics)
        self.installation = installation
        self.actor = actor
        self._statuses: dict[RuleKey, Mapping[str, Any]] = {}
        """The rules' statuses, which a dry run starts without."""
        self._listed: set[str | None] = set()
        """Namespaces whose rules were listed; None: all of them."""
        self.context = CopyContext(
            home=ClusterContext(
                client=client,
                informers=self.informers,
                discovery=Discovery(client),
                namespaces=Namespaces(),
                monotonic=time.monotonic,
                requeue=queue.add_after,
                watches_unmanaged=False,
            ),
            rules=RuleCache(),
            queue=queue,
            recorder=EventRecorder(client, metrics=metrics),
            settings=installation.settings,
            metrics=metrics,
            clock=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
            rollouts=False,
            knows_rules=self.knows_rules,
        )
        self.kinds = Kinds(self.context, self.context.home)
        self.key_known = True
        """Whether the operator's hash key could be read: with it, right copies are known unread."""
        self._rules = RuleReconciler(self.context, self.kinds)
        self._copies = CopyReconciler(self.context)

    async def begin(self) -> None:
        """List the namespaces."""
        await self._load_key()
        context = self.context

        def changed(name: ObjectName, _old: Namespace | None, new: Namespace | None) -> None:
            if new is None:
                context.home.namespaces.drop(name.name)
            else:
                context.home.namespaces.put(new)

        spec = WatchSpec(resource=NAMESPACES, metadata_only=True, decode=NamespaceReader())
        context.home.namespace_watch = self.informers.acquire(spec, changed)
        async with asyncio.timeout(PATIENCE):
            while not context.home.namespace_watch.synced:
                if failure := context.home.namespace_watch.failure:
                    raise failure
                await asyncio.sleep(0.02)

    async def _load_key(self) -> None:
        home = self.installation.settings.namespace
        sealer = None
        with suppress(errors.ApiError):
            sealer = await load_sealer(self.client, home, make=False)
        self.key_known = sealer is not None
        self.context.home.sealer = sealer or _AnySealer(token_bytes(KEY_BYTES))

    def put(self, body: Mapping[str, Any], *, acts: bool = False) -> Rule:
        """Store a rule; one that `acts` is neither suspended nor in Plan mode."""
        if acts and isinstance(body.get("spec"), Mapping):
            body = {**body, "spec": {**body["spec"], "suspend": False, "mode": "Apply"}}
        rule = Rule.from_body({**body, "status": {}})
        self.context.rules.put(rule)
        self._statuses[rule.key] = body.get("status") or {}
        return rule

    def reported(self, rule: RuleKey, namespace: str, name: str) -> str:
        """What the operator reported about a copy, if it is among the samples of the status."""
        for one in self._statuses.get(rule, {}).get("failures") or ():
            if one.get("namespace") == namespace and one.get("name") in (name, ""):
                return f"{one.get('reason')}: {one.get('message')}"
        return ""

    def status_of(self, rule: RuleKey) -> Mapping[str, Any]:
        """What the operator reported about a rule."""
        return self._statuses.get(rule, {})

    def knows_rules(self, namespace: str) -> bool:
        """Whether all rules of a namespace were listed, so that another one doesn't exist."""
        return bool(self._listed & {None, namespace})

    def hidden(self, owner: str | None) -> str | None:
        """A sentence about an object whose rule (``namespace/name``) may not be read, or None."""
        if owner is None or self.context.rules.by_owner(owner) is not None:
            return None
        if self.knows_rules(owner.partition("/")[0]):
            return None
        return f"It belongs to the rule {owner}, which you have no permission to read."

    def refusal(self, rule: Rule) -> ReadyCondition | None:
        """Why the operator doesn't serve a rule, or None."""
        settings = self.installation.settings
        if settings.rule_name is not None and rule.key.name != settings.rule_name:
            return None
        if not self.installation.settings_known:
            conditions = conditions_by_type(self._statuses[rule.key].get("conditions"))
            condition = conditions.get(ConditionType.READY, {})
            if condition.get("reason") in _REFUSED:
                reason, message = condition["reason"], str(condition.get("message"))
                return ReadyCondition(Health.STALLED, reason, message)
        return refusal(rule, settings, self.kinds)

    async def serve(self, rule: Rule) -> RuleState | None:
        """Watch all that a rule needs; None where the operator wouldn't serve it.

        Raises:
            ApiError: it can't be watched.
        """
        if isinstance(rule.spec, InvalidSpec) or rule.deleting or self.refusal(rule):
            return None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            await self._rules.reconcile(rule.key)
            state = self.context.rule_states.get(rule.key)
            if state and state.phase in _SERVED:
                return state
            if failure := self._failure(state):
                raise failure
            verdict = state.found if state else None
            if verdict and verdict.reason not in (RuleReason.PROGRESSING, RuleReason.SYNCED):
                return state
            await asyncio.sleep(0.05)
        raise Fault(f"rule {rule.owner}: its sources weren't listed within {PATIENCE:g} s")

    def no_source(self, rule: Rule) -> tuple[str, str]:
        """Reason and message of a rule that has no source now, as in its Ready condition.

        Of a rule that is served that may not have been written yet, or say that sources are read.
        """
        state = self.context.rule_states.get(rule.key)
        said = state.found if state else None
        if said and said.reason not in (RuleReason.PROGRESSING, RuleReason.SUSPENDED):
            return said.reason, said.message
        spec = rule.spec
        if isinstance(spec, RuleSpec) and spec.source and state and state.phase in _SERVED:
            unused = unused_sources(self.context, state)
            return RuleReason.SOURCE_NOT_FOUND, missing_source(spec, unused)
        return RuleReason.PROGRESSING, (said and said.message) or "it has no source yet"

    async def serve_all(self, kind: str, *, but: RuleKey | None = None) -> None:
        """Store all rules, and serve those of a kind as far as that is possible."""
        for scope in self.actor.scopes or (None,):
            try:
                found = await listed(self.client, RULES, scope)
            except errors.Forbidden:
                if not self.actor.scopes:
                    raise
                continue
            self._listed.add(scope)
            for body in found:
                metadata = body["metadata"]
                if RuleKey(metadata["namespace"], metadata["name"]) != but:
                    self.put(body)
        for rule in self.context.rules:
            ours = not isinstance(rule.spec, InvalidSpec) and (
                rule.spec.kind == kind or any(one.source.kind == kind for one in rule.spec.sources)
            )
            if ours and rule.key != but:
                with suppress(errors.ApiError, Fault):  # not the requested rule
                    await self.serve(rule)

    def _failure(self, state: RuleState | None) -> errors.ApiError | None:
        watches = [*state.sources] if state else []
        if (
            state
            and state.compiled
            and (view := self.context.home.kinds.get(state.compiled.resource))
        ):
            watches.append(view.registration)
        return next((watch.failure for watch in watches if watch.failure), None)

    async def act(self, key: CopyKey) -> None:
        """Reconcile one copy as the operator would; failures are in `context.problems`."""
        self.context.problems.pop(key, None)
        await self._copies.reconcile(key)

    async def close(self) -> None:
        """End everything, the client first: ending a watch doesn't wait for its connection."""
        await self.client.close()
        await self.informers.close()
        await self.context.isolated.close()


@dataclasses.dataclass(slots=True)
class FullSummary(RuleSummary):
    """Keeps every failure, where a status keeps samples."""

    def sample(self, key: CopyKey, reason: FailureReason, message: str) -> None:
        """Keep it."""
        self.failures[key] = (reason, message)

    failures: dict[CopyKey, tuple[FailureReason, str]] = dataclasses.field(default_factory=dict)


@asynccontextmanager
async def dry_running(installation: Installation, actor: Actor) -> AsyncIterator[DryRun]:
    """A dry run that has listed the namespaces; its watches and its client end with it.

    Where the user sees some namespaces only, and no operator, tenants' rules count as served.
    """
    if actor.scopes and not installation.found:
        settings = dataclasses.replace(installation.settings, tenant_rules=True)
        installation = dataclasses.replace(installation, settings=settings)
    async with actor.target.connect_with(DryRunClient) as client:
        dry_run = DryRun(client, installation, actor)
        try:
            await dry_run.begin()
            yield dry_run
        except errors.Forbidden as error:
            if actor.who:
                raise
            raise Fault(
                f"the operator's account {actor.target.user} lacks a permission: {error.message}; "
                f"to list all missing permissions: {hint('doctor')}"
            ) from None
        finally:
            await dry_run.close()


def owner_of(body: Mapping[str, Any]) -> str | None:
    """The rule that an object's marks name."""
    metadata = body["metadata"]
    if (metadata.get("labels") or {}).get(names.LABEL_MANAGED_BY) != names.MANAGED_BY:
        return None
    found = (metadata.get("annotations") or {}).get(names.ANN_RULE)
    return str(found) if found else None
