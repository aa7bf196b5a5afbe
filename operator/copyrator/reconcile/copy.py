"""One target object: what all rules want there, what stands there, and at most one write."""

from __future__ import annotations

from copyrator.api.keys import CopyKey
from copyrator.api.rule_status import Failure, FailureReason
from copyrator.engine.outcome import Again, Done, Failed, Outcome
from copyrator.engine.queue import Lane
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.refusals import NOT_HELD, Refusal, Right
from copyrator.reconcile.world import KindView, World
from copyrator.reconcile.writer import CopyWriter, NotAsWantedError
from copyrator.registry.claims import Bid
from copyrator.rules.ownership import ACCEPTED
from copyrator.rules.planning import Act, Plan, Why
from copyrator.rules.records import CopyRecord

ATTEMPTS = 4
"""Looks and writes in a row before the key waits: each look shows something newer."""

CONFLICT_FIRST = 10.0
CONFLICT_LONGEST = 300.0
"""Seconds after which a foreign object in the way is looked at again, doubling."""


SOURCE_AGAIN = 1.0
"""Seconds after which is looked again at what may be the source of another rule."""


class CopyReconciler:
    """Reconciles copy keys."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._blocked: dict[CopyKey, float] = {}
        """Targets with a foreign object, and how long to wait until the next look."""
        self._unsealed: dict[CopyKey, tuple[str, bytes]] = {}
        """Objects without a valid seal that aren't as their rule wants them: the version that was
        read, and the digest of what was wanted then. They aren't read again before either changes.
        """

    async def reconcile(self, key: CopyKey) -> Outcome:
        """Make one target right, with one write where nothing is in the way."""
        view = self._world.kinds.get(key.kind)
        if view is None or not view.subscription.reflector.lists:
            return Done()  # the rules are surveyed when the view is complete
        return await _Attempt(self._world, view, key, self._blocked, self._unsealed).run()


class _Attempt:
    """The work on one key."""

    def __init__(
        self,
        world: World,
        view: KindView,
        key: CopyKey,
        blocked: dict[CopyKey, float],
        unsealed: dict[CopyKey, tuple[str, bytes]],
    ) -> None:
        self._world = world
        self._view = view
        self._key = key
        self._blocked = blocked
        self._unsealed = unsealed
        self._writer = CopyWriter(world, view, key)

    async def run(self) -> Outcome:
        plan = self._plan()
        wait = self._world.drift.wait(self._key) or 0.0
        if plan.why is Why.UP_TO_DATE and wait > 0:
            return Again(wait)
        try:
            if self._key in self._blocked and plan.act is Act.CREATE:
                await self._writer.look()
                plan = self._plan()
            elif plan.why is Why.UP_TO_DATE:
                plan = await self._checked(plan)
            for _ in range(ATTEMPTS):
                if outcome := self._without_a_write(plan):
                    return outcome
                if await self._wrote_as_planned(plan):
                    return self._settled(plan)
                plan = self._plan()
        except NotAsWantedError:
            self._refuse(plan)
            return self._not_as_wanted()
        except ApiError as error:
            return self._failed(plan, error)
        return Again(1.0)  # somebody else writes as fast as we do

    def _without_a_write(self, plan: Plan[Bid]) -> Outcome | None:
        """What a plan comes to where nothing is to be written (now); None: write."""
        if plan.act is Act.RESEAL and self._is_refused(plan):
            return self._not_as_wanted()
        if plan.act in (Act.NOTHING, Act.ASK_OWNER):
            return self._nothing(plan)
        if plan.act is Act.ADOPT and self._awaits_source():
            return Again(SOURCE_AGAIN)
        return None

    def _plan(self) -> Plan[Bid]:
        return self._world.plan(self._key, self._writer.foreign)

    # --- what metadata don't prove ---------------------------------------------------------------

    async def _checked(self, plan: Plan[Bid]) -> Plan[Bid]:
        """Read a copy that looks right, where there is a reason to, and compare what it holds."""
        drift, winner = self._world.drift, plan.winner
        if drift.wait(self._key) is None or winner is None:
            return plan
        drift.reading(self._key)
        record = self._record()
        if winner.paused or record is None or record.shape is ACCEPTED:
            return plan
        try:
            live = await self._writer.read()
        except errors.NotFound as error:
            if error.namespace_missing or error.kind_missing:
                raise
            await self._writer.look()
            return self._plan()
        except ApiError:
            drift.suspect(self._key)
            raise
        plan = self._plan()
        if plan.why is not Why.UP_TO_DATE or plan.winner is None or plan.winner.is_held_by(live):
            return plan
        return Plan(Act.REPLACE, Why.DRIFTED, plan.winner)

    def _is_refused(self, plan: Plan[Bid]) -> bool:
        """Whether the same object was read before, and wasn't what is wanted now."""
        record, winner = self._record(), plan.winner
        if record is None or winner is None or winner.reseals:
            return False
        return self._unsealed.get(self._key) == (record.resource_version, winner.wish.digest)

    def _refuse(self, plan: Plan[Bid]) -> None:
        record = self._record()
        if record is not None and plan.winner is not None:
            self._unsealed[self._key] = (record.resource_version, plan.winner.wish.digest)

    async def _wrote_as_planned(self, plan: Plan[Bid]) -> bool:
        """Write; where something else stands there than we thought, look and say False."""
        record = self._record()
        service = self._world.services.get(plan.winner.rule.key) if plan.winner else None
        if service:
            service.open_writes += 1
        try:
            await self._writer.write(plan)
        except (errors.AlreadyExists, errors.ConflictError):
            await self._writer.look()
            return False
        except errors.NotFound as error:
            if error.namespace_missing or error.kind_missing:
                raise
            await self._writer.look()
            return False
        finally:
            if service:
                service.open_writes -= 1
        if record is not None:
            self._world.touch(record.owner)
        if service:
            service.last_write = self._world.monotonic()
        return True

    def _awaits_source(self) -> bool:
        """Whether what stands there may be a rule's source, which is never overwritten."""
        foreign = self._writer.foreign
        rule = self._world.awaited_source(self._key, foreign) if foreign else None
        if rule is not None:
            self._report(
                FailureReason.CONFLICT,
                f"the rule {rule.owner} copies the object that stands there, and its source isn't "
                "known yet: see that rule's status",
            )
        return rule is not None

    def _record(self) -> CopyRecord | None:
        return self._view.copies.get((self._key.namespace, self._key.name))

    # --- outcomes --------------------------------------------------------------------------------

    def _nothing(self, plan: Plan[Bid]) -> Outcome:
        """Nothing can or need be written."""
        if plan.why is Why.FOREIGN:
            return self._conflict()
        if plan.act is Act.ASK_OWNER:
            record = self._record()
            rule = self._world.rules.by_owner(record.owner) if record else None
            if rule is not None:
                self._world.look_at_rule(rule.key)
        return self._settled(plan)

    def _settled(self, plan: Plan[Bid]) -> Outcome:
        self._world.problems.pop(self._key, None)
        self._blocked.pop(self._key, None)
        self._unsealed.pop(self._key, None)
        self._touch(plan)
        return Done()

    def _not_as_wanted(self) -> Outcome:
        """It isn't read again before the watch tells of a change, or something else is wanted."""
        record = self._record()
        owner = record.marks if record else ""
        self._report(
            FailureReason.CONFLICT,
            f"an object that carries the marks of the rule {owner} without a valid seal stands "
            "there, and holds something else than the rule wants; remove it, or have it "
            f"overwritten: copyrator reseal rule {owner}",
        )
        return Again(CONFLICT_LONGEST, Lane.RESYNC)

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
        if _is_namespace_closed(error):
            return self._settled(plan)  # the watch of namespaces will tell, too
        reason = _reason(error)
        self._world.metrics.copy_failures.labels(reason.value).inc()
        bind = self._bind(plan) if NOT_HELD in error.message else None
        if bind is not None:
            self._world.client.lacks(bind)
        self._report(reason, _message(reason, error, bind))
        self._touch(plan)
        return Failed(error)

    def _bind(self, plan: Plan[Bid]) -> Refusal | None:
        """The right to bind the role that a copy would bind."""
        winner, resource = plan.winner, self._view.resource
        if winner is None or winner.broken or resource.kind != "RoleBinding":
            return None
        role = winner.claim.content(winner.namespace).payload.get("roleRef") or {}
        right = Right(resource.group, f"{str(role.get('kind')).lower()}s", "bind")
        return Refusal(right, self._key.namespace, str(role.get("name")))

    def _report(self, reason: FailureReason, message: str) -> None:
        failure = Failure(self._key.namespace, self._key.name, reason, message)
        if self._world.problems.get(self._key) != failure:
            self._world.problems[self._key] = failure
            self._touch(self._plan())

    def _touch(self, plan: Plan[Bid]) -> None:
        """All rules that the target is of any concern to may have another status now."""
        namespace = self._world.namespaces.get(self._key.namespace)
        owners = {plan.winner.owner} if plan.winner else set()
        if record := self._record():
            owners.add(record.owner)
        if namespace is not None:
            bids = self._world.index.bids(self._key.kind, namespace, self._key.name)
            owners |= {bid.owner for bid in bids}
        for owner in owners - {""}:
            self._world.touch(owner)


def _is_namespace_closed(error: ApiError) -> bool:
    """Terminating or gone: left alone, and nobody's failure."""
    return isinstance(error, errors.NamespaceTerminating) or (
        isinstance(error, errors.NotFound) and error.namespace_missing
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


def _message(reason: FailureReason, error: ApiError, bind: Refusal | None) -> str:
    if reason is FailureReason.IMMUTABLE:
        return f"{error.message}; set spec.onImmutable: Recreate to have it deleted and made anew"
    if reason is FailureReason.FORBIDDEN and NOT_HELD in error.message:
        return f"{_not_held(bind)}. The API server: {error.message}"
    return error.message


def _not_held(bind: Refusal | None) -> str:
    if bind is None:
        return "the operator may not grant rights that it doesn't have itself"
    return (
        'the operator lacks the right to bind this role: the verb "bind" on '
        f'{bind.right.resource} "{bind.name}" '
        "(for a ClusterRole the chart's value rules.bindClusterRoles gives it)"
    )
