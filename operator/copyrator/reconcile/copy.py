"""One target object: what all rules want there, what stands there, and at most one write."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule import ImmutablePolicy
from copyrator.api.rule_status import Failure, FailureReason
from copyrator.engine.outcome import Again, Done, Failed, Outcome
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.pages import METADATA_WATCH
from copyrator.reconcile.world import KindView, World
from copyrator.registry.claims import Bid
from copyrator.rules.content import EXACT_KINDS, Place, carry_on, merge_into, new_object
from copyrator.rules.ownership import ACCEPTED
from copyrator.rules.ownership_claim import claimed_fields
from copyrator.rules.planning import Act, Foreign, Plan, Why
from copyrator.rules.records import CopyRecord, Extras

log = logging.getLogger(__name__)

ATTEMPTS = 4
"""Looks and writes in a row before the key waits: each look shows something newer."""

CONFLICT_FIRST = 10.0
CONFLICT_LONGEST = 300.0
"""Seconds after which a foreign object in the way is looked at again, doubling."""

_METADATA = METADATA_WATCH
"""The answer to a write, or to a look: never a Secret's data, which nobody needs."""


class CopyReconciler:
    """Reconciles copy keys."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._blocked: dict[CopyKey, float] = {}

    async def reconcile(self, key: CopyKey) -> Outcome:
        """Make one target right, with one write where nothing is in the way."""
        view = self._world.kinds.get(key.kind)
        if view is None or not view.subscription.reflector.lists:
            return Done()  # the rules are surveyed when the view is complete
        return await _Attempt(self._world, view, key, self._blocked).run()


class _Attempt:
    """The work on one key."""

    def __init__(
        self, world: World, view: KindView, key: CopyKey, blocked: dict[CopyKey, float]
    ) -> None:
        self._world = world
        self._view = view
        self._key = key
        self._name = (key.namespace, key.name)
        self._blocked = blocked
        self._foreign: Foreign | None = None

    async def run(self) -> Outcome:
        plan = self._plan()
        try:
            if self._key in self._blocked and plan.act is Act.CREATE:
                await self._look()
            for _ in range(ATTEMPTS):
                plan = self._plan()
                if plan.act in (Act.NOTHING, Act.ASK_OWNER):
                    return self._nothing(plan)
                if await self._wrote_as_planned(plan):
                    return self._settled(plan)
        except ApiError as error:
            if _is_namespace_closed(error):
                return self._settled(plan)  # the watch of namespaces will tell, too
            return self._failed(plan, error)
        return Again(1.0)  # somebody else writes as fast as we do

    def _plan(self) -> Plan[Bid]:
        return self._world.plan(self._key, self._foreign)

    async def _wrote_as_planned(self, plan: Plan[Bid]) -> bool:
        """Write; where something else stands there than we thought, look and say False."""
        try:
            await self._write(plan)
        except (errors.AlreadyExists, errors.ConflictError):
            await self._look()
            return False
        except errors.NotFound as error:
            if error.namespace_missing or error.kind_missing:
                raise
            await self._look()
            return False
        return True

    # --- outcomes --------------------------------------------------------------------------------

    def _nothing(self, plan: Plan[Bid]) -> Outcome:
        """Nothing can or need be written."""
        if plan.why is Why.FOREIGN:
            return self._conflict()
        if plan.act is Act.ASK_OWNER:
            record = self._view.copies.get(self._name)
            rule = self._world.rules.by_owner(record.owner) if record else None
            if rule is not None:
                self._world.look_at_rule(rule.key)
        return self._settled(plan)

    def _settled(self, plan: Plan[Bid]) -> Outcome:
        self._world.problems.pop(self._key, None)
        self._blocked.pop(self._key, None)
        self._touch(plan)
        return Done()

    def _conflict(self) -> Outcome:
        wait = min(self._blocked.get(self._key, CONFLICT_FIRST / 2) * 2, CONFLICT_LONGEST)
        self._blocked[self._key] = wait
        self._report(
            FailureReason.CONFLICT,
            "an object of that name that isn't ours stands there; remove it, or set "
            "spec.onConflict",
        )
        return Again(wait)

    def _failed(self, plan: Plan[Bid], error: ApiError) -> Outcome:
        reason = _reason(error)
        self._world.metrics.copy_failures.labels(reason.value).inc()
        self._report(reason, _message(reason, error))
        self._touch(plan)
        return Failed(error)

    def _report(self, reason: FailureReason, message: str) -> None:
        failure = Failure(self._key.namespace, self._key.name, reason, message)
        if self._world.problems.get(self._key) != failure:
            self._world.problems[self._key] = failure
            self._touch(self._plan())

    def _touch(self, plan: Plan[Bid]) -> None:
        """All rules that the target is of any concern to may have another status now."""
        namespace = self._world.namespaces.get(self._key.namespace)
        owners = {plan.winner.owner} if plan.winner else set()
        if record := self._view.copies.get(self._name):
            owners.add(record.owner)
        if namespace is not None:
            bids = self._world.index.bids(self._key.kind, namespace, self._key.name)
            owners |= {bid.owner for bid in bids}
        for owner in owners - {""}:
            self._world.touch(owner)

    # --- looking and writing ---------------------------------------------------------------------

    async def _look(self) -> None:
        """Read the metadata of what stands there, because it isn't what we thought."""
        res = self._view.resource
        try:
            found = await self._world.client.request(
                "GET", res.path(self._key.namespace, self._key.name), accept=_METADATA
            )
        except errors.NotFound:
            self._foreign = None
            if known := self._view.copies.get(self._name):
                self._view.copies.deleted(self._name, known.uid)
            return
        record = self._view.reader(found)
        if record.owner:
            self._foreign = None
            self._view.copies.wrote(self._name, record)
            return
        if known := self._view.copies.get(self._name):
            self._view.copies.deleted(self._name, known.uid)
        metadata = found["metadata"]
        self._foreign = Foreign(
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
            labels=metadata.get("labels") or {},
            annotations=metadata.get("annotations") or {},
            metadata=metadata,
        )

    async def _write(self, plan: Plan[Bid]) -> None:
        record = self._view.copies.get(self._name)
        owner = record.owner if record else None
        if plan.act is Act.CREATE:
            assert plan.winner is not None
            answer = await self._send("POST", self._body(plan.winner))
            self._wrote(plan.winner, answer, "create")
        elif plan.act is Act.DELETE:
            assert record is not None
            await self._delete(record)
        elif plan.act is Act.RELEASE:
            assert record is not None
            await self._release(record)
        else:
            assert plan.winner is not None
            await self._replace(plan.winner, record, adopting=plan.act is Act.ADOPT)
        if owner:
            self._world.touch(owner)

    def _body(self, winner: Bid) -> dict[str, Any]:
        assert self._world.sealer is not None
        content = winner.claim.content(winner.namespace)
        place = Place(self._key.kind, self._key.namespace, self._key.name)
        return new_object(content, place, winner.owner, self._world.sealer)

    async def _replace(self, winner: Bid, record: CopyRecord | None, *, adopting: bool) -> None:
        body = self._body(winner)
        wanted = dict(body, metadata=dict(body["metadata"]))
        if adopting:
            assert self._foreign is not None
            extras = _foreign_extras(self._foreign.metadata)
            uid, version = self._foreign.uid, self._foreign.resource_version
        else:
            assert record is not None
            extras, uid, version = record.extras, record.uid, record.resource_version
        if self._view.resource.kind not in EXACT_KINDS:
            live = await self._world.client.get(self._view.resource, *self._name)
            if live["metadata"]["uid"] != uid:
                raise errors.ConflictError("another object stands there now")
            seen = self._view.reader(live)
            extras = extras if adopting else seen.extras
            version = seen.resource_version
            body = merge_into(live, body, seen.shape)
        body = carry_on(body, extras, uid=uid, resource_version=version)
        if adopting and self._view.resource.kind in EXACT_KINDS:
            assert self._foreign is not None
            managed = self._foreign.metadata.get("managedFields")
            body["metadata"]["managedFields"] = claimed_fields(managed, wanted)
        try:
            answer = await self._send("PUT", body)
        except errors.Invalid as error:
            if not (error.immutable and _may_recreate(winner)) or adopting or record is None:
                raise
            await self._delete(record)
            raise errors.ConflictError("deleted, to be created anew") from error
        if self._looks_disturbed(winner, answer) and self._view.resource.kind in EXACT_KINDS:
            # What stood there was right already, but others count as its writers.
            metadata = body["metadata"]
            metadata["resourceVersion"] = answer["metadata"]["resourceVersion"]
            managed = answer["metadata"].get("managedFields")
            metadata["managedFields"] = claimed_fields(managed, wanted)
            answer = await self._send("PUT", body)
        self._wrote(winner, answer, "adopt" if adopting else "update")

    def _looks_disturbed(self, winner: Bid, answer: Mapping[str, Any]) -> bool:
        record = self._view.reader(answer)
        return winner.is_drift(record) and not winner.is_right(record)

    async def _send(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        res = self._view.resource
        name = None if method == "POST" else self._key.name
        answer: dict[str, Any] = await self._world.client.request(
            method, res.path(self._key.namespace, name), body=body, accept=_METADATA
        )
        return answer

    def _wrote(self, winner: Bid, answer: Mapping[str, Any], action: str) -> None:
        record = self._view.reader(answer)
        if winner.is_drift(record) and not winner.is_right(record):
            record.shape = ACCEPTED
        self._foreign = None
        self._view.copies.wrote(self._name, record)
        self._count(action)

    async def _delete(self, record: CopyRecord) -> None:
        try:
            answer = await self._world.client.delete(
                self._view.resource,
                *self._name,
                uid=record.uid,
                resource_version=record.resource_version,
            )
        except errors.NotFound:
            answer = {}
        if (answer.get("metadata") or {}).get("deletionTimestamp"):  # a finalizer holds it
            self._view.copies.wrote(self._name, self._view.reader(answer))
        else:
            self._view.copies.deleted(self._name, record.uid)
        self._count("delete")

    async def _release(self, record: CopyRecord) -> None:
        """Leave the object and take our marks off, so that it is plainly nobody's.

        A rule of the same name that is made later would otherwise take it for its own, and delete
        it where it doesn't want it.
        """
        patch = {
            "metadata": {
                "uid": record.uid,
                "resourceVersion": record.resource_version,
                "labels": {names.LABEL_MANAGED_BY: None},
                "annotations": dict.fromkeys(
                    (names.ANN_RULE, names.ANN_SOURCE, names.ANN_HASH), None
                ),
            }
        }
        await self._world.client.patch(self._view.resource, *self._name, patch)
        self._view.copies.deleted(self._name, record.uid)
        self._count("release")

    def _count(self, action: str) -> None:
        self._world.metrics.copy_writes.labels(action, self._key.kind).inc()


def _is_namespace_closed(error: ApiError) -> bool:
    """Terminating or gone: left alone, and nobody's failure."""
    return isinstance(error, errors.NamespaceTerminating) or (
        isinstance(error, errors.NotFound) and error.namespace_missing
    )


def _may_recreate(winner: Bid) -> bool:
    return winner.claim.maker.spec.on_immutable is ImmutablePolicy.RECREATE


def _foreign_extras(metadata: Mapping[str, Any]) -> Extras:
    """All that others put on an object that is adopted."""
    return Extras(
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        finalizers=tuple(metadata.get("finalizers") or ()),
        owners=tuple(metadata.get("ownerReferences") or ()),
    )


_REASONS: tuple[tuple[type[ApiError], FailureReason], ...] = (
    (errors.QuotaExceeded, FailureReason.QUOTA_EXCEEDED),
    (errors.AdmissionDenied, FailureReason.ADMISSION_DENIED),
    (errors.Forbidden, FailureReason.FORBIDDEN),
    (errors.TooLarge, FailureReason.TOO_LARGE),
)


def _reason(error: ApiError) -> FailureReason:
    if isinstance(error, errors.Invalid) and error.immutable:
        return FailureReason.IMMUTABLE
    return next((word for kind, word in _REASONS if isinstance(error, kind)), FailureReason.ERROR)


def _message(reason: FailureReason, error: ApiError) -> str:
    if reason is FailureReason.IMMUTABLE:
        return f"{error.message}; set spec.onImmutable: Recreate to have it deleted and made anew"
    return error.message
