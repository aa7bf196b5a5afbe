"""Reconciles one target object with at most one write."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_status import Failure
from copyrator.api.text import parse_time
from copyrator.copies.context import CopyContext, KindView
from copyrator.copies.rules.status import notify_owner, record_write
from copyrator.copies.sources.bindings import CopyRequest
from copyrator.copies.targets.content import differences
from copyrator.copies.targets.fights import describe_change
from copyrator.copies.targets.kinds import enqueue_copy
from copyrator.copies.targets.ownership import ACCEPTED
from copyrator.copies.targets.planning import Action, Cause, CopyDecision, Unmanaged
from copyrator.copies.targets.records import CopyRecord
from copyrator.copies.targets.unmanaged import UnmanagedObject, compares
from copyrator.copies.targets.writer import (
    NOT_A_COPY,
    REFUSED,
    CopyWriter,
    NotAsWantedError,
    awaited_message,
    is_namespace_closed,
    is_place_gone,
    message_of,
    missing_bind,
    reason_of,
    unsealed_message,
)
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.workqueue.queue import Done, Failed, Outcome, Priority, RequeueAfter

_COMPARED = (Cause.PENDING, Cause.UNMANAGED, Cause.SATISFIED)
"""Causes for which the wanted content is needed although nothing is written."""
ATTEMPTS = 4
"""Reads and writes in a row before the key is requeued: each read returns a newer state."""
REQUEUE_SECONDS = 1.0
"""Seconds before a target is reconciled again that may be another rule's source, or that another
client writes as fast as we do.
"""


class CopyReconciler:
    """Reconciles copy keys."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._unsealed: dict[CopyKey, tuple[str, bytes]] = {}
        """Unsealed objects that aren't as their rule wants them: the version that was read, and the
        wanted digest at the time. They aren't read again before either changes.
        """

    async def reconcile(self, key: CopyKey) -> Outcome:
        """Reconcile one target; one write where there is no conflict."""
        view = self._context.kinds.get(key.kind)
        if view is None or not view.registration.reflector.lists:
            return Done()  # the rules are reconciled once the view is complete
        return await _Attempt(self._context, view, key, self._unsealed).run()


class _Attempt:
    """One reconcile of one key."""

    def __init__(
        self,
        context: CopyContext,
        view: KindView,
        key: CopyKey,
        unsealed: dict[CopyKey, tuple[str, bytes]],
    ) -> None:
        self._context = context
        self._view = view
        self._key = key
        self._unsealed = unsealed
        self._writer = CopyWriter(context, view, key)
        self._change: str | None = None
        """What others did to the copy, where it is in a fight or about to be."""
        self._age: float | None = None
        """Seconds since it was created, where that is known."""

    async def run(self) -> Outcome:
        plan = self._plan()
        binding = plan.winner.binding if plan.winner else None
        if binding is None or not binding.is_read_on_demand or not self._needs_content(plan):
            return await self._run(plan)
        return await binding.with_content(self._key.namespace, lambda: self._run(self._plan()))

    def _needs_content(self, plan: CopyDecision[CopyRequest]) -> bool:
        """Whether the wanted content has to be known for it."""
        if plan.why is Cause.UP_TO_DATE:
            return self._context.drift.wait(self._key) == 0.0
        return plan.act is not Action.NOTHING or plan.why in _COMPARED

    async def _run(self, plan: CopyDecision[CopyRequest]) -> Outcome:
        wait = self._context.drift.wait(self._key)
        if wait is not None:
            wait = max(wait, self._context.fights.wait(self._key))
        if plan.why is Cause.UP_TO_DATE and wait:
            return RequeueAfter(wait)
        try:
            plan = await self._examined(await self._checked(plan))
            for _ in range(ATTEMPTS):
                if outcome := await self._without_a_write(plan):
                    return outcome
                if await self._wrote_as_planned(plan):
                    return self._settled(plan)
                plan = self._plan()
        except NotAsWantedError:
            self._refuse(plan)
            return self._not_as_wanted()
        except ApiError as error:
            return self._failed(plan, error)
        return RequeueAfter(REQUEUE_SECONDS)

    async def _without_a_write(self, plan: CopyDecision[CopyRequest]) -> Outcome | None:
        """The outcome of a plan that writes nothing (now); None: write."""
        if plan.why is Cause.CONTESTED:
            return RequeueAfter(self._context.fights.wait(self._key))
        if plan.act is Action.NOTHING and plan.why in (Cause.UNMANAGED, Cause.SATISFIED):
            return await self._keep_unmanaged(plan)
        if plan.act is Action.RESEAL and self._is_refused(plan):
            return self._not_as_wanted()
        if plan.act in (Action.NOTHING, Action.ASK_OWNER):
            return self._nothing(plan)
        if plan.act is Action.ADOPT and self._awaits_source():
            return RequeueAfter(REQUEUE_SECONDS)
        return None

    def _plan(self) -> CopyDecision[CopyRequest]:
        return self._context.plan(self._key, self._writer.unmanaged)

    # --- verification by reading -----------------------------------------------------------------

    async def _checked(self, plan: CopyDecision[CopyRequest]) -> CopyDecision[CopyRequest]:
        """Read first where the object may differ from the cached state."""
        if plan.why is Cause.UP_TO_DATE:
            return await self._checked_copy(plan)
        unmanaged, winner = self._context.unmanaged, plan.winner
        known = unmanaged.get(self._key)
        if known is None or winner is None or plan.why not in (Cause.MISSING, Cause.SATISFIED):
            return plan
        if unmanaged.is_unchanged(self._key, winner.terms):
            return (
                CopyDecision(Action.NOTHING, Cause.UNMANAGED, winner)
                if known.satisfied is None
                else plan
            )
        if unmanaged.is_gone(self._key):
            unmanaged.forget(self._key)
        else:
            await self._read_metadata()
        return self._plan()

    async def _read_metadata(self) -> Mapping[str, Any] | None:
        """Read the target's metadata; without an unmanaged object there, forget it."""
        found = await self._writer.read_metadata()
        if self._writer.unmanaged is None:
            self._context.unmanaged.forget(self._key)
        return found

    async def _checked_copy(self, plan: CopyDecision[CopyRequest]) -> CopyDecision[CopyRequest]:
        """Read and compare a copy whose metadata are right, where there is a reason to."""
        drift, winner = self._context.drift, plan.winner
        if drift.wait(self._key) is None or winner is None:
            return plan
        record = self._record()
        if record is not None and winner.waits(record):
            return plan  # it is read when a stopped rollout continues
        drift.reading(self._key)
        if winner.paused or record is None or record.shape is ACCEPTED:
            return plan
        try:
            live = await self._writer.read()
        except errors.NotFound as error:
            if is_place_gone(error):
                raise
            await self._read_metadata()
            return self._plan()
        except ApiError:
            drift.suspect(self._key)
            raise
        plan = self._plan()
        if plan.why is not Cause.UP_TO_DATE or plan.winner is None or plan.winner.is_held_by(live):
            return plan
        fields = differences(plan.winner.binding.content(plan.winner.namespace), live)
        self._change = (
            f"another client with the field manager {names.FIELD_MANAGER} changes "
            f"{', '.join(fields) or 'it'}"
        )
        return CopyDecision(Action.REPLACE, Cause.DRIFTED, plan.winner)

    # --- fights with other clients ---------------------------------------------------------------

    async def _examined(self, plan: CopyDecision[CopyRequest]) -> CopyDecision[CopyRequest]:
        """Read who changed a copy whose write begins or continues a fight, and plan anew."""
        fights, winner = self._context.fights, plan.winner
        contested = fights.get(self._key) is not None or (
            self._is_foreign(plan) and fights.is_next(self._key)
        )
        if winner is None or self._change or not contested or plan.act is Action.NOTHING:
            return plan
        metadata = await self._read_metadata()
        self._change = describe_change(winner.binding.content(winner.namespace), metadata)
        created = parse_time(metadata.get("creationTimestamp")) if metadata else None
        age = (self._context.clock() - created).total_seconds() if created else 0.0
        self._age = max(age - 1.0, 0.0)  # creationTimestamp is in whole seconds
        return self._plan()

    def _is_foreign(self, plan: CopyDecision[CopyRequest]) -> bool:
        """Whether others are the cause of a write."""
        if plan.why is Cause.MISSING:
            return self._context.fights.is_lost(self._key)
        return plan.why in (Cause.DRIFTED, Cause.UNSEALED, Cause.UNMANAGED)

    def _count(self, plan: CopyDecision[CopyRequest], sent: int, *, complete: bool = True) -> None:
        """Count the requests of an attempt since the writer had sent so many."""
        fights, requests = self._context.fights, self._writer.sent - sent
        foreign = self._is_foreign(plan)
        fights.count(self._key, requests, foreign=foreign, complete=complete, age=self._age)
        fight = fights.get(self._key)
        if fight is None:
            return
        if self._change and foreign:
            fight.change = self._change
        if fight.persists and not fight.told and plan.winner is not None:
            fight.told = True
            place = self._key.namespace, self._key.name
            failure = Failure(*place, FailureReason.CONFLICT_PERSISTS, fight.message)
            notify_owner(self._context, plan.winner.rule, self._view.resource, failure)

    def _is_refused(self, plan: CopyDecision[CopyRequest]) -> bool:
        """Whether the same version was read before and didn't have the content wanted now."""
        record, winner = self._record(), plan.winner
        if record is None or winner is None or winner.rule.reseal is not None:
            return False
        return self._unsealed.get(self._key) == (record.resource_version, winner.desired.digest)

    def _refuse(self, plan: CopyDecision[CopyRequest]) -> None:
        record = self._record()
        if record is not None and plan.winner is not None:
            self._unsealed[self._key] = (record.resource_version, plan.winner.desired.digest)

    async def _wrote_as_planned(self, plan: CopyDecision[CopyRequest]) -> bool:
        """Write; where another object than planned exists, read it and return False."""
        record = self._record()
        state = self._context.rule_states.get(plan.winner.rule.key) if plan.winner else None
        with state.lag.writing() if state else nullcontext():
            if not await self._tried_to_write(plan):
                return False
        if record is not None:
            self._context.touch(record.owner)
        record_write(self._context, self._key, plan, record.owner if record else "")
        if state:
            state.wrote(self._context.monotonic(), self._writer.dropped)
        return True

    async def _tried_to_write(self, plan: CopyDecision[CopyRequest]) -> bool:
        sent = self._writer.sent
        try:
            await self._writer.write(plan)
        except (errors.AlreadyExists, errors.ConflictError, errors.NotFound) as error:
            if is_place_gone(error):
                raise
            self._count(plan, sent, complete=isinstance(error, errors.ConflictError))
            if isinstance(error, errors.NotFound):
                self._context.fights.lose(self._key)
            await self._read_metadata()
            return False
        except REFUSED:
            with suppress(ApiError):
                await self._read_metadata()
            if plan.act is not Action.CREATE or self._writer.unmanaged is None:
                raise
            return False
        finally:
            self._catch_up()
        self._count(plan, sent)
        return True

    def _catch_up(self) -> None:
        """Process what the watch has delivered during the write, unless it is what was written."""
        record = self._record()
        if not self._view.writing.pop((self._key.namespace, self._key.name), False):
            return
        if record is None or record.resource_version != self._writer.written:
            enqueue_copy(self._context, self._view, self._key, news=True)
            self._context.touch(record.owner if record else "")

    def _awaits_source(self) -> bool:
        """Whether the live object may be a rule's source, which is never overwritten."""
        unmanaged = self._writer.unmanaged
        rule = self._context.awaited_source(self._key, unmanaged) if unmanaged else None
        if rule is not None:
            self._report(FailureReason.CONFLICT, awaited_message(rule.owner))
        return rule is not None

    def _record(self) -> CopyRecord | None:
        return self._view.copies.get((self._key.namespace, self._key.name))

    # --- objects that aren't ours ----------------------------------------------------------------

    async def _keep_unmanaged(self, plan: CopyDecision[CopyRequest]) -> Outcome:
        """Leave an unmanaged object: ready where it has the wanted content, else a conflict."""
        unmanaged, winner, found = self._context.unmanaged, plan.winner, self._writer.unmanaged
        assert winner is not None
        known = unmanaged.get(self._key)
        if found is not None:
            known = unmanaged.record(self._key, self._view.resource, found, winner)
            if known.terms != winner.terms and not await self._compared(known, found, winner):
                unmanaged.forget(self._key)
                return RequeueAfter(REQUEUE_SECONDS)
        assert known is not None
        if known.satisfied is None:
            self._report(FailureReason.CONFLICT, NOT_A_COPY, known.differs or ())
        elif self._context.problems.pop(self._key, None) or found is not None:
            self._touch(plan)
        return RequeueAfter(known.next_wait(self._context.timing), Priority.RESYNC)

    async def _compared(
        self, known: UnmanagedObject, found: Unmanaged, winner: CopyRequest
    ) -> bool:
        """Read the object, where the rule may learn its content; False: it doesn't exist now."""
        differs = None
        if compares(winner):
            try:
                live = await self._writer.read()
            except errors.NotFound as error:
                if is_place_gone(error):
                    raise
                return False
            record = self._record()
            if live["metadata"]["uid"] != found.uid or (record is not None and record.owner):
                return False
            known.version = str(live["metadata"]["resourceVersion"])
            differs = differences(winner.binding.content(winner.namespace), live)
        known.terms, known.differs = winner.terms, differs
        return True

    # --- outcomes --------------------------------------------------------------------------------

    def _nothing(self, plan: CopyDecision[CopyRequest]) -> Outcome:
        """Nothing can be or has to be written."""
        if plan.act is Action.ASK_OWNER:
            record = self._record()
            rule = self._context.rules.by_owner(record.owner) if record else None
            if rule is not None:
                self._context.requeue_rule(rule.key)
        return self._settled(plan)

    def _settled(self, plan: CopyDecision[CopyRequest]) -> Outcome:
        self._context.problems.pop(self._key, None)
        self._context.unmanaged.forget(self._key)
        self._unsealed.pop(self._key, None)
        self._touch(plan)
        if plan.winner is None:
            self._context.fights.end(self._key)
        remaining = self._context.fights.remaining(self._key)
        return Done() if remaining is None else RequeueAfter(remaining, Priority.RESYNC)

    def _not_as_wanted(self) -> Outcome:
        """It isn't read again before the watch delivers a change, or other content is wanted."""
        record = self._record()
        owner = record.marks if record else ""
        self._report(FailureReason.CONFLICT, unsealed_message(owner))
        return RequeueAfter(self._context.timing.longest_reread, Priority.RESYNC)

    def _failed(self, plan: CopyDecision[CopyRequest], error: ApiError) -> Outcome:
        if is_namespace_closed(error):
            return self._settled(plan)  # the watch of namespaces will deliver it, too
        reason = reason_of(error)
        self._context.metrics.copy_failures.labels(reason.value).inc()
        bind = missing_bind(error, plan.winner, self._view.resource)
        if bind is not None:
            self._context.client.report_denied(bind)
        self._report(reason, message_of(error, bind))
        self._touch(plan)
        return Failed(error)

    def _report(self, reason: FailureReason, message: str, differs: tuple[str, ...] = ()) -> None:
        failure = Failure(self._key.namespace, self._key.name, reason, message, differs)
        if winner := self._plan().winner:
            notify_owner(self._context, winner.rule, self._view.resource, failure)
        if self._context.problems.get(self._key) != failure:
            self._context.problems[self._key] = failure
            self._touch(self._plan(), failed=True)

    def _touch(self, plan: CopyDecision[CopyRequest], *, failed: bool = False) -> None:
        """Queue all rules whose status the target may have changed."""
        namespace = self._context.namespaces.get(self._key.namespace)
        owners = {plan.winner.owner} if plan.winner else set()
        if record := self._record():
            owners.add(record.owner)
        if namespace is not None:
            requests = self._context.index.requests(self._key.kind, namespace, self._key.name)
            owners |= {request.owner for request in requests}
        for owner in owners - {""}:
            self._context.touch(owner, failed=failed)
