"""Reconciles one target object with at most one write.

Every response is requested as metadata only, as a Secret's data isn't needed; the whole object is
read where it has to be compared, or merged with.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any, Final

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_spec import ConflictPolicy, ImmutablePolicy
from copyrator.api.rule_status import Failure
from copyrator.api.schema import NOT_WHOLE
from copyrator.api.text import parse_time
from copyrator.copies.context import CopyContext, KindView
from copyrator.copies.rules.status import notify_owner, record_write
from copyrator.copies.sources.bindings import CopyRequest
from copyrator.copies.targets.adoption import kept_extras
from copyrator.copies.targets.content import (
    EXACT_KINDS,
    carry_on,
    differences,
    new_object,
    payload_of,
)
from copyrator.copies.targets.fights import describe_change
from copyrator.copies.targets.kinds import enqueue_copy
from copyrator.copies.targets.ownership import ACCEPTED, claimed_fields, is_unchanged, merge_into
from copyrator.copies.targets.planning import Action, Cause, CopyDecision, Unmanaged
from copyrator.copies.targets.records import CopyRecord
from copyrator.copies.targets.unmanaged import UnmanagedObject, compares
from copyrator.kube import errors
from copyrator.kube.client.answers import METADATA_WATCH
from copyrator.kube.errors import NOT_HELD, ApiError, Permission, Refusal
from copyrator.kube.resources import Resource
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
            await self._writer.read_metadata()
        return self._plan()

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
            await self._writer.read_metadata()
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
        metadata = await self._writer.read_metadata()
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
            await self._writer.read_metadata()
            return False
        except REFUSED:
            with suppress(ApiError):
                await self._writer.read_metadata()
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
            why = (
                f"the rule {rule.owner} copies the existing object, and its source isn't known "
                "yet: see that rule's status"
            )
            self._report(FailureReason.CONFLICT, why)
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
            why = not_a_copy(winner.on_conflict)
            self._report(FailureReason.CONFLICT, why, known.differs or ())
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
                self._context.queue.add(rule.key)
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
        why = (
            f"an object that carries the marks of the rule {owner} without a valid seal exists, "
            "with other content than the rule requires; delete it, or overwrite it: copyrator "
            f"reseal rule {owner}"
        )
        self._report(FailureReason.CONFLICT, why)
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


REFUSED = (errors.Forbidden, errors.QuotaExceeded, errors.AdmissionDenied)
"""Errors that the API server returns before it checks whether the object exists.

The permission to grant a role's permissions, quotas and webhooks are checked first.
"""

_REASONS: tuple[tuple[type[ApiError], FailureReason], ...] = (
    (errors.QuotaExceeded, FailureReason.QUOTA_EXCEEDED),
    (errors.AdmissionDenied, FailureReason.ADMISSION_DENIED),
    (errors.Forbidden, FailureReason.FORBIDDEN),
    (errors.TooLarge, FailureReason.TOO_LARGE),
)


def is_namespace_closed(error: ApiError) -> bool:
    """Terminating or gone: skipped, and not counted as a failure."""
    return isinstance(error, errors.NamespaceTerminating) or (
        isinstance(error, errors.NotFound) and error.namespace_missing
    )


def is_place_gone(error: ApiError) -> bool:
    """Whether more is missing than the object: its namespace or its kind."""
    return isinstance(error, errors.NotFound) and (error.namespace_missing or error.kind_missing)


def reason_of(error: ApiError) -> FailureReason:
    """The reason for the status."""
    if isinstance(error, errors.Invalid) and error.immutable:
        return FailureReason.IMMUTABLE
    return next((word for kind, word in _REASONS if isinstance(error, kind)), FailureReason.ERROR)


_NOT_A_COPY: Final[Mapping[ConflictPolicy, str]] = {
    ConflictPolicy.SKIP: "isn't a copy exists; delete it, or set spec.onConflict",
    ConflictPolicy.ADOPT: "no known copying tool created exists, and onConflict: Adopt takes over "
    "no other; delete it, or set spec.onConflict: Overwrite",
    ConflictPolicy.OVERWRITE: f"isn't a copy exists, and one with the label {names.LABEL_GUARD} is "
    "never overwritten; delete it",
}


def not_a_copy(policy: ConflictPolicy) -> str:
    """Why an object that isn't ours stays, and the remedy."""
    return f"an object of that name that {_NOT_A_COPY[policy]}"


def missing_bind(error: ApiError, winner: CopyRequest | None, resource: Resource) -> Refusal | None:
    """The missing permission to bind the role of a copied binding, where that failed the write."""
    if NOT_HELD not in error.message or resource.kind != "RoleBinding":
        return None
    if winner is None or winner.broken:
        return None
    role = winner.binding.content(winner.namespace).payload.get("roleRef") or {}
    permission = Permission(resource.group, f"{str(role.get('kind')).lower()}s", "bind")
    return Refusal(permission, winner.namespace.name, str(role.get("name")))


def message_of(error: ApiError, bind: Refusal | None) -> str:
    """The API server's error, and the remedy."""
    reason = reason_of(error)
    if reason is FailureReason.IMMUTABLE:
        return f"{error.message}; set spec.onImmutable: Recreate to delete and recreate it"
    if reason is FailureReason.FORBIDDEN and NOT_HELD in error.message:
        return _not_held(bind, error.message)
    return error.message


def _not_held(bind: Refusal | None, said: str) -> str:
    """The missing permission; the API server's own message lists every rule of the role."""
    if bind is None:
        missing = said.partition(f"{NOT_HELD}:")[2].split("\n")
        rules = [rule.strip() for rule in missing if rule.strip()]
        more = f" and {len(rules) - 1} more" if len(rules) > 1 else ""
        named = f": {rules[0]}{more}" if rules else ""
        return f"the operator can't grant permissions that it doesn't have{named}"
    verb = f'the verb "bind" on {bind.permission.resource} "{bind.name}"'
    if bind.permission.resource == "clusterroles":
        return f"needs rules.bindClusterRoles=[{bind.name}] (chart), which grants {verb}"
    return f"needs {verb}"


class NotAsWantedError(Exception):
    """An object with the rule's marks and no valid seal doesn't have the wanted content."""


class CopyWriter:
    """Reads and writes one target; results go into the view, or into ``unmanaged``."""

    def __init__(self, context: CopyContext, view: KindView, key: CopyKey) -> None:
        self.unmanaged: Unmanaged | None = None
        """The unmanaged object at the target, as the last read found it."""
        self.dropped: set[str] | None = None
        """Fields of what was written that the API server has dropped; None: nothing was."""
        self.sent = 0
        """Write requests."""
        self.written = ""
        """The resourceVersion that the last write returned."""
        self._context = context
        self._view = view
        self._key = key
        self._name = (key.namespace, key.name)
        self._whole: dict[str, Any] | None = None
        """What `read` returned, so that a write needn't read again."""
        self._exact = view.resource.kind in EXACT_KINDS

    async def read_metadata(self) -> Mapping[str, Any] | None:
        """Read the target's metadata; None where nothing exists.

        An unmanaged object that isn't there any more is forgotten.

        Raises:
            ApiError: it can't be read.
        """
        copies = self._view.copies
        try:
            found = await self._context.client.request(
                "GET", self._view.resource.path(*self._name), accept=METADATA_WATCH
            )
        except errors.NotFound:
            found = None
        record = self._view.reader(found) if found else None
        self.unmanaged = self._whole = None
        if record is not None and (record.owner or record.marks):
            copies.wrote(self._name, record)
        elif known := copies.get(self._name):
            copies.deleted(self._name, known.uid)
        if found is None:
            self._context.unmanaged.forget(self._key)
            return None
        metadata: Mapping[str, Any] = found["metadata"]
        if record is not None and not record.owner:
            self.unmanaged = _unmanaged(metadata)
        else:
            self._context.unmanaged.forget(self._key)
        return metadata

    async def read(self) -> dict[str, Any]:
        """Read the whole object, and keep the version that was read.

        Raises:
            NotFound: it doesn't exist.
            ApiError: it can't be read.
        """
        live: dict[str, Any] = await self._context.client.get(self._view.resource, *self._name)
        self._whole = live
        record = self._view.reader(live)
        if record.owner or record.marks:
            known = self._view.copies.get(self._name)
            if known is None or known.uid != record.uid or record.is_newer_than(known):
                self._view.copies.wrote(self._name, record)
        return live

    async def write(self, plan: CopyDecision[CopyRequest]) -> None:
        """Carry out a plan.

        Raises:
            AlreadyExists, ConflictError, NotFound: another object than planned exists.
            NotAsWantedError: it must not be resealed.
            ApiError: it can't be written.
        """
        match plan.act, plan.winner, self._view.copies.get(self._name):
            case Action.CREATE, CopyRequest() as winner, _:
                answer = await self._send("POST", self._body(winner))
                self._wrote(winner, self._view.read(answer), "create")
            case Action.REPLACE, CopyRequest() as winner, CopyRecord() as record:
                await self._replace(winner, record)
            case Action.ADOPT, CopyRequest() as winner, _:
                await self._adopt(winner)
            case Action.RESEAL, CopyRequest() as winner, _:
                await self._reseal(winner)
            case Action.DELETE, _, CopyRecord() as record:
                await self._delete(record.uid, record.resource_version)
            case Action.RELEASE, _, CopyRecord() as record:
                await self._release(record)
            case _:
                raise AssertionError(plan.act)

    def _body(self, winner: CopyRequest) -> dict[str, Any]:
        assert self._context.sealer is not None
        content = winner.binding.content(winner.namespace)
        return new_object(content, self._key, winner.owner, self._context.sealer)

    def _carried(self, winner: CopyRequest, seen: CopyRecord | Unmanaged) -> dict[str, Any]:
        """The body that replaces an object of which we own the whole content."""
        version = seen.resource_version
        return carry_on(self._body(winner), seen.extras, uid=seen.uid, resource_version=version)

    async def _replace(self, winner: CopyRequest, record: CopyRecord) -> None:
        if self._exact:
            body = self._carried(winner, record)
        else:
            live = await self._live(record.uid)
            body = self._merged(winner, live)
            if is_unchanged(live, body):  # others wrote it, too, and it is right
                self._settle(winner, self._view.reader(live))
                return
        whole, self._whole = self._whole, None
        try:
            answer = await self._send("PUT", body)
        except errors.Invalid as error:
            if not error.immutable or not _may_recreate(winner):
                raise
            await self._delete(record.uid, record.resource_version)
            raise errors.ConflictError("deleted, to be recreated") from error
        found = self._view.read(answer)
        if whole and found.resource_version == whole["metadata"]["resourceVersion"]:
            # The server's own form of our content: nothing changed.
            winner.desired.equal = winner.binding.compiled.sealer.digest(payload_of(whole))
        repeated = self._context.fights.is_repeated(self._key)
        if self._exact and _is_disturbed(winner, found) and not repeated:
            # The live object was right already, but others are recorded as its writers.
            metadata = answer["metadata"]
            body["metadata"]["resourceVersion"] = metadata["resourceVersion"]
            self._claim(body, winner, metadata)
            found = self._view.read(await self._send("PUT", body))
        self._wrote(winner, found, "update")

    async def _adopt(self, winner: CopyRequest) -> None:
        unmanaged = self.unmanaged
        assert unmanaged is not None
        if self._exact:
            body = self._carried(winner, unmanaged)
            self._claim(body, winner, unmanaged.metadata)
        else:
            body = self._merged(winner, await self._live(unmanaged.uid))
        try:
            answer = await self._send("PUT", body)
        except errors.Invalid as error:
            overwrites = winner.on_conflict is ConflictPolicy.OVERWRITE and _may_recreate(winner)
            if not error.immutable or not overwrites or unmanaged.metadata.get("deletionTimestamp"):
                raise
            await self._delete(unmanaged.uid, unmanaged.resource_version)
            raise errors.ConflictError("deleted, to be recreated") from error
        self._wrote(winner, self._view.read(answer), "adopt")

    async def _reseal(self, winner: CopyRequest) -> None:
        """Replace an object with the rule's marks by the wanted one, with a seal, in one write."""
        live = await self.read()
        seen = self._view.reader(live)
        if seen.owner or seen.marks != winner.owner or seen.deleting:
            raise errors.ConflictError("another object exists now")
        if reason := live["metadata"].get(NOT_WHOLE):
            raise errors.ApiError(f"the existing object can't be compared: {reason}")
        overwrites = (
            winner.rule.reseal is not None
            or winner.on_conflict is ConflictPolicy.OVERWRITE
            or winner.adopts(_unmanaged(live["metadata"]))
        )
        if not overwrites and not winner.is_held_by(live):
            raise NotAsWantedError
        self._whole = None
        if self._exact:
            body = self._carried(winner, seen)
            self._claim(body, winner, live["metadata"])
        else:
            body = self._merged(winner, live)
        self._wrote(winner, self._view.read(await self._send("PUT", body)), "reseal")

    async def _live(self, uid: str) -> dict[str, Any]:
        """The whole object of a kind that others may write to as well."""
        live = self._whole or await self._context.client.get(self._view.resource, *self._name)
        if live["metadata"]["uid"] != uid:
            raise errors.ConflictError("another object exists now")
        if reason := live["metadata"].get(NOT_WHOLE):
            raise errors.ApiError(f"the existing object can't be merged with: {reason}")
        return live

    def _merged(self, winner: CopyRequest, live: dict[str, Any]) -> dict[str, Any]:
        """The body that replaces a live object, including the fields that others own."""
        seen = self._view.reader(live)
        body = merge_into(live, self._body(winner), seen.shape)
        extras = seen.extras if seen.owner or seen.marks else _unmanaged(live["metadata"]).extras
        return carry_on(body, extras, uid=seen.uid, resource_version=seen.resource_version)

    def _claim(
        self, body: dict[str, Any], winner: CopyRequest, metadata: Mapping[str, Any]
    ) -> None:
        managed = metadata.get("managedFields")
        body["metadata"]["managedFields"] = claimed_fields(managed, self._body(winner))

    async def _send(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.sent += 1
        self._view.writing.setdefault(self._name, False)
        name = None if method == "POST" else self._key.name
        path = self._view.resource.path(self._key.namespace, name)
        dropped: set[str] = set()
        answer: dict[str, Any] = await self._context.client.request(
            method, path, body=body, accept=METADATA_WATCH, dropped=dropped
        )
        self.dropped = dropped
        return answer

    def _wrote(self, winner: CopyRequest, record: CopyRecord, action: str) -> None:
        self._settle(winner, record)
        self._count(action)

    def _settle(self, winner: CopyRequest, record: CopyRecord) -> None:
        """Cache the copy as it is now: right."""
        if _is_disturbed(winner, record):
            record.shape = ACCEPTED
        self.unmanaged = None
        self.written = record.resource_version
        self._view.copies.wrote(self._name, record)
        self._context.drift.wrote(self._key, self.written)

    async def _delete(self, uid: str, resource_version: str) -> None:
        self.sent += 1
        try:
            answer = await self._context.client.delete(
                self._view.resource,
                *self._name,
                uid=uid,
                resource_version=resource_version,
            )
        except errors.NotFound:
            answer = {}
        if (answer.get("metadata") or {}).get("deletionTimestamp"):  # a finalizer holds it
            self._view.copies.wrote(self._name, self._view.reader(answer))
        else:
            self._view.copies.deleted(self._name, uid)
        self._count("delete")

    async def _release(self, record: CopyRecord) -> None:
        """Leave the object and remove our marks, so that no rule owns it.

        A later rule of the same name would otherwise own it, and delete it where it doesn't want
        it.
        """
        marks = (names.ANN_RULE, names.ANN_SOURCE, names.ANN_HASH, names.ANN_REFERENCES)
        metadata = {
            "uid": record.uid,
            "resourceVersion": record.resource_version,
            "labels": {names.LABEL_MANAGED_BY: None},
            "annotations": dict.fromkeys(marks),
        }
        await self._context.client.patch(self._view.resource, *self._name, {"metadata": metadata})
        self._view.copies.deleted(self._name, record.uid)
        self._count("release")

    def _count(self, action: str) -> None:
        self._context.metrics.copy_writes.labels(action, self._key.kind).inc()


def _is_disturbed(winner: CopyRequest, record: CopyRecord) -> bool:
    """Whether, by managedFields, another client appears to have changed our own write."""
    return not winner.is_old(record) and not winner.is_right(record)


def _may_recreate(winner: CopyRequest) -> bool:
    return winner.binding.compiled.spec.on_immutable is ImmutablePolicy.RECREATE


def _unmanaged(metadata: Mapping[str, Any]) -> Unmanaged:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return Unmanaged(
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        labels=labels,
        annotations=annotations,
        metadata=metadata,
        extras=kept_extras(metadata),
    )
