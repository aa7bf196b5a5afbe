"""The operator's own copying half as a dry run: nothing that it writes is stored.

Planner, writer and state are the operator's. It acts as the operator where the caller may
impersonate its account, so that quotas, webhooks and RBAC respond as they would.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from secrets import token_bytes
from typing import Any

from copyrator.api import names
from copyrator.api.conditions import (
    NO_CONDITION,
    Condition,
    ConditionType,
    Health,
    ReadyCondition,
    read_conditions,
)
from copyrator.api.keys import CopyKey, Key, ObjectName, RuleKey
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rule_spec import PUBLIC_CA, PUBLIC_CAS, RuleSpec, place_of
from copyrator.api.rule_status import Failure
from copyrator.api.schema import InvalidSpec
from copyrator.cli.core.cluster import Target, ahead, all_of
from copyrator.cli.core.faults import Fault, hint
from copyrator.cli.core.installation import Installation, allowed
from copyrator.cli.core.objects import Body, annotations_of, listed
from copyrator.cli.view.rule import RuleView
from copyrator.copies.composed.public_cas import read_public_cas
from copyrator.copies.context import CopyContext
from copyrator.copies.rules.admission import refusal
from copyrator.copies.rules.ready_conditions import missing_source
from copyrator.copies.rules.reconciler import RuleReconciler
from copyrator.copies.rules.rules import Rule, RuleCache
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.copies.seal.hash_key import load_sealer
from copyrator.copies.seal.sealing import DIGEST_BYTES, KEY_BYTES, Sealer
from copyrator.copies.sources.watches import unused_sources
from copyrator.copies.targets.kinds import Kinds
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.copies.targets.reconciler import CopyReconciler
from copyrator.copies.template.scope import TemplateError, describe_cas
from copyrator.kube import errors
from copyrator.kube.client import transport
from copyrator.kube.client.answers import WatchEvent
from copyrator.kube.client.client import KubeClient
from copyrator.kube.events import EventRecorder
from copyrator.kube.resources import NAMESPACES, RULES, SERVICEACCOUNTS, Discovery, Resource
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import WatchSpec, name_of
from copyrator.metrics import Metrics
from copyrator.workqueue.queue import WorkQueue


@dataclass(frozen=True, slots=True)
class Actor:
    """The user that sends the dry run's requests, and what that user may list."""

    target: Target
    who: str = ""
    """``you`` or a user's name; empty: the operator itself."""
    scopes: tuple[str, ...] = ()
    """The only namespaces that are read; empty: all of them."""
    note: str = ""
    """What is missing from the answer, as a note to the caller."""

    def tried(self, reported: str = "") -> str:
        """In brackets: the user of the dry run, and what the operator reported about the object."""
        if not self.who:
            return ""
        said = f"; the operator reported: {reported}" if reported else ""
        return f" (tried as {self.who}{said})"


async def actor_of(
    client: KubeClient, target: Target, installation: Installation, *near: str
) -> Actor:
    """Choose whom to act as; `near` are the namespaces that are read without cluster permissions.

    `client` is the user's own, without --as.
    """
    served = installation.settings.watch_namespaces
    if target.user and target.user == installation.user:
        return Actor(target, "", served)
    if target.user:
        async with target.connect() as impersonated:
            return await _limited(impersonated, target, installation, near)
    user, account = installation.user, installation.service_account
    if user and account:
        need = (SERVICEACCOUNTS, "", "impersonate", installation.namespace)
        if await _may(client, need, account):
            return Actor(dataclasses.replace(target, user=user), "", served)
    return await _limited(client, target, installation, near)


async def _limited(
    client: KubeClient, target: Target, installation: Installation, near: Sequence[str]
) -> Actor:
    """Act as the user of `client`, in the namespaces that are known where none may be listed."""
    served, who = installation.settings.watch_namespaces, target.user or "you"
    if served or await _may(client, (NAMESPACES, "", "list", None)):
        return Actor(target, who, served)
    scopes = tuple(dict.fromkeys([*near, installation.settings.namespace]))
    note = (
        f"You have no permission to list namespaces, so only {', '.join(scopes)} were read; what "
        "you have no permission to read in them is left out."
    )
    return Actor(target, who, scopes, note)


async def _may(
    client: KubeClient, need: tuple[Resource, str, str, str | None], name: str = ""
) -> bool:
    try:
        return await allowed(client, need, None, name)
    except errors.ApiError:
        return False


class DryRunClient(KubeClient):
    """Sends every write with dryRun=All; records those of copies, answers those of rules itself.

    A rule's finalizer and status aren't part of a dry run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, on_dry_run=self._answered, **kwargs)
        self.writes: dict[str, list[tuple[str, Mapping[str, Any] | None]]] = {}
        """Method and body by path, in order, of those that succeeded."""
        self.ready_conditions: dict[RuleKey, Condition] = {}
        """The Ready conditions that would have been written."""
        self.assumed: set[str] = set()
        """Namespaces that don't exist: nothing is sent for a creation in them."""
        self.kept_path = ""
        """Of the object that is kept, whole."""
        self.kept: Body | None = None
        """As it would be stored; where that was refused, as it was sent."""

    async def patch(
        self, res: Resource, namespace: str | None, name: str, body: Any, **options: Any
    ) -> dict[str, Any]:
        """For a rule nothing is sent."""
        if res is not RULES:
            return await super().patch(res, namespace, name, body, **options)
        if "status" in body:
            ready = read_conditions(body).get(ConditionType.READY, NO_CONDITION)
            self.ready_conditions[RuleKey(str(namespace), name)] = ready
        return {"metadata": {"resourceVersion": "0", **body.get("metadata", {})}}

    async def watch(
        self, *_args: Any, on_open: Callable[[], None] | None = None, **_options: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        """Nothing is sent: a dry run sees the objects as they were listed."""
        if on_open is not None:
            on_open()
        await asyncio.Event().wait()
        yield WatchEvent("", {})

    async def request(self, method: str, path: str, *, body: Any = None, **options: Any) -> Any:
        """For an object in an assumed namespace nothing is sent."""
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        if method in ("POST", "PUT") and self._keep(method, path, body):
            options.pop("accept", None)
        if method != "POST" or namespace not in self.assumed:
            return await super().request(method, path, body=body, **options)
        answer = {**body, "metadata": {**body["metadata"], "uid": path}}
        self._answered(transport.Call("create", "", path, method, body=body), answer)
        return answer

    def _answered(self, call: transport.Call, answer: Any) -> None:
        self.writes.setdefault(call.path, []).append((call.method, call.body))
        if call.method != "DELETE":
            self._keep(call.method, call.path, answer)
        if isinstance(answer, dict) and isinstance(answer.get("metadata"), dict):
            answer["metadata"].setdefault("resourceVersion", "0")  # without storage there is none
            if call.method == "DELETE":
                answer["metadata"].pop("deletionTimestamp", None)  # no finalizer is waited for

    def _keep(self, method: str, path: str, body: Body) -> bool:
        if method == "POST":
            path = f"{path}/{(body.get('metadata') or {}).get('name')}"
        if path != self.kept_path:
            return False
        self.kept = body
        return True


_REFUSED = (RuleReason.NOT_TRUSTED, RuleReason.KIND_UNAVAILABLE)
"""Reasons that depend on the operator's settings."""
_SERVED = (RulePhase.SERVING, RulePhase.FROZEN)
LOOK = 0.05
"""Seconds between two looks at a watch that may have failed."""
PATIENCE = 60.0
"""Seconds to list everything that a rule needs."""


class _AnySealer(Sealer):
    """Used without the permission to read the operator's key: every seal is valid, its digest old.

    What is planned from that is compared with the live object before it is shown.
    """

    __slots__ = ()

    def open(self, *_args: str) -> bytes | None:
        return bytes(DIGEST_BYTES)


class _AnyKinds(Kinds):
    """Used where the operator's settings aren't known: what it refuses is in rules' statuses."""

    def allows(self, kind: str, api_version: str | None) -> bool:  # noqa: ARG002 - any
        return True


class _Notifications(WorkQueue[Key]):
    """Tells that a key was added, where there are no workers."""

    def __init__(self) -> None:
        super().__init__()
        self.added: defaultdict[Key, asyncio.Event] = defaultdict(asyncio.Event)

    def add(self, key: Key, *args: Any, **options: Any) -> None:
        super().add(key, *args, **options)
        self.added[key].set()


async def _wait(event: asyncio.Event) -> None:
    """Wait for an event, at most LOOK seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LOOK):
            await event.wait()


class DryRun:
    """All rules of one kind, served as a dry run; only `act` writes copies."""

    def __init__(self, client: DryRunClient, installation: Installation, actor: Actor) -> None:
        metrics = Metrics()
        self._queue = _Notifications()
        self.client = client
        self.informers = InformerFactory(client, actor.scopes, metrics=metrics)
        self.installation = installation
        self.actor = actor
        self.views: dict[RuleKey, RuleView] = {}
        """The rules with what the operator reported, which a dry run starts without."""
        self._read_rules: dict[str | None, list[dict[str, Any]]] = {}
        """The rules that were listed, by namespace; None: of all of them."""
        self._listed: set[str | None] = set()
        """Namespaces whose rules are stored; None: all of them."""
        self.context = CopyContext(
            client=client,
            informers=self.informers,
            discovery=Discovery(client),
            namespaces=Namespaces(),
            watches_unmanaged=False,
            rules=RuleCache(),
            queue=self._queue,
            recorder=EventRecorder(client, metrics=metrics),
            settings=installation.settings,
            metrics=metrics,
            clock=lambda: datetime.now(UTC),
            monotonic=time.monotonic,
            knows_rules=self.knows_rules,
        )
        self.kinds = (Kinds if installation.is_read else _AnyKinds)(self.context)
        self.key_known = True
        """Whether the operator's hash key could be read: with it, right copies are known unread."""
        self._rules = RuleReconciler(self.context, self.kinds, in_steps=False)
        self._copies = CopyReconciler(self.context)

    async def begin(self) -> None:
        """List the namespaces and the rules, and read the operator's hash key."""
        async with ahead(self._load_key()) as key, ahead(self._list_rules()) as rules:
            await self._list_namespaces()
            await key
            self._read_rules = await rules

    async def _list_rules(self) -> dict[str | None, list[dict[str, Any]]]:
        """The rules by namespace (None: of all), as far as they can be read."""
        scopes = self.actor.scopes or (None,)

        async def list_in(scope: str | None) -> list[dict[str, Any]] | None:
            try:
                return await listed(self.client, RULES, scope)
            except errors.Forbidden:
                if scope is None:
                    raise
                return None

        lists = zip(scopes, await all_of(map(list_in, scopes)), strict=True)
        return {scope: found for scope, found in lists if found is not None}

    async def _list_namespaces(self) -> None:
        context, synced = self.context, asyncio.Event()

        def changed(name: ObjectName, _old: Namespace | None, new: Namespace | None) -> None:
            if new is None:
                context.namespaces.drop(name.name)
            else:
                context.namespaces.put(new)

        spec = WatchSpec(resource=NAMESPACES, metadata_only=True, decode=Namespace.from_metadata)
        context.namespace_watch = self.informers.acquire(spec, changed, on_synced=synced.set)
        async with asyncio.timeout(PATIENCE):
            while not context.namespace_watch.synced:
                if failure := context.namespace_watch.failure:
                    raise failure
                await _wait(synced)

    async def _load_key(self) -> None:
        home = self.installation.settings.namespace
        sealer = None
        with suppress(errors.ApiError):
            sealer = await load_sealer(self.client, home, make=False)
        self.key_known = sealer is not None
        self.context.sealer = sealer or _AnySealer(token_bytes(KEY_BYTES))

    def put(self, body: Body, *, acts: bool = False) -> Rule:
        """Store a rule; one that `acts` is neither suspended nor in Plan mode."""
        if acts and isinstance(body.get("spec"), Mapping):
            body = {**body, "spec": {**body["spec"], "suspend": False, "mode": "Apply"}}
        rule = Rule.from_body({**body, "status": {}})
        self.context.rules.put(rule)
        self.views[rule.key] = RuleView(body, datetime.now(UTC))
        return rule

    def reported(self, rule: RuleKey, namespace: str, name: str) -> str:
        """What the operator reported about a copy, if it is among the samples of the status."""
        for one in self.views[rule].failures if rule in self.views else ():
            if one.namespace == namespace and one.name in (name, ""):
                return f"{one.reason}: {one.message}"
        return ""

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
        verdict, condition = refusal(rule, settings, self.kinds), self.views[rule.key].ready
        reason = condition.reason
        unread = not self.installation.is_read and reason in _REFUSED
        same = verdict and verdict.reason == reason == RuleReason.KIND_UNAVAILABLE
        if unread or same:  # of the kind's group the operator has asked discovery
            return ReadyCondition(
                Health.STALLED, RuleReason.read(reason or ""), condition.message or ""
            )
        return verdict

    async def serve(self, rule: Rule) -> RuleState | None:
        """Watch all that a rule needs; None where the operator wouldn't serve it.

        Raises:
            ApiError: it can't be watched.
        """
        if isinstance(rule.spec, InvalidSpec) or rule.deleting or self.refusal(rule):
            return None
        if self.elsewhere(rule):  # another cluster's credential isn't the user's
            return None
        deadline, added = time.monotonic() + PATIENCE, self._queue.added[rule.key]
        while time.monotonic() < deadline:
            added.clear()
            await self._rules.reconcile(rule.key)
            state = self.context.rule_states.get(rule.key)
            if state and state.phase in _SERVED:
                return state
            if failure := self._failure(state):
                raise failure
            verdict = state.found if state else None
            if verdict and verdict.reason not in (RuleReason.PROGRESSING, RuleReason.SYNCED):
                return state
            await _wait(added)
        raise Fault(f"rule {rule.owner}: its sources weren't listed within {PATIENCE:g} s")

    def elsewhere(self, rule: Rule) -> str:
        """What is known of a rule with sources that can't be read here, or empty."""
        if isinstance(rule.spec, InvalidSpec):
            return ""
        away = []
        if rule.spec.kubeconfigs:
            places = ", ".join(place_of(one).strip() for one in rule.spec.kubeconfigs)
            away.append(f"its sources are {places}, which this command doesn't read")
        if rule.spec.default_cas and not self._has_public_cas(rule.key):
            file = self.context.settings.default_cas_file
            away.append(f"this machine doesn't have {PUBLIC_CAS} of the operator ({file})")
        if not away:
            return ""
        said, text = self.views[rule.key].ready, " and ".join(away)
        return (
            f"{text}; the operator reported {said.reason}"
            + (f": {said.message}" if said.message else "")
            if said.reason
            else text
        )

    def _has_public_cas(self, rule: RuleKey) -> bool:
        """Whether this machine has some, and the same if the operator reported which."""
        here, made_of = self._public_cas, self.views[rule].status.composed_of
        return here != "" and (here in made_of or PUBLIC_CA not in made_of)

    @cached_property
    def _public_cas(self) -> str:
        """Those of this machine, as statuses have them; empty where it has none."""
        try:
            return describe_cas(read_public_cas(self.context.settings.default_cas_file))
        except TemplateError:
            return ""

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
        for scope, found in self._read_rules.items():
            self._listed.add(scope)
            for body in found:
                if RuleKey(*name_of(body)) != but:
                    self.put(body)
        await all_of(
            self._try_serve(rule)
            for rule in self.context.rules
            if rule.key != but
            and not isinstance(rule.spec, InvalidSpec)
            and (rule.spec.kind == kind or any(one.kind == kind for one in rule.spec.sources))
        )

    async def _try_serve(self, rule: Rule) -> None:
        with suppress(errors.ApiError, Fault):  # not the requested rule
            await self.serve(rule)

    def _failure(self, state: RuleState | None) -> errors.ApiError | None:
        watches = [*state.sources] if state else []
        if state and state.compiled and (view := self.context.kinds.get(state.compiled.resource)):
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

    def keep(self, key: CopyKey, failure: Failure) -> None:
        """Keep it."""
        self.failures[key] = (failure.reason, failure.text)

    failures: dict[CopyKey, tuple[str, str]] = dataclasses.field(default_factory=dict)


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


def owner_of(body: Body) -> str | None:
    """The rule that an object's marks name."""
    labels = body["metadata"].get("labels") or {}
    if labels.get(names.LABEL_MANAGED_BY) != names.MANAGED_BY:
        return None
    found = annotations_of(body).get(names.ANN_RULE)
    return str(found) if found else None
