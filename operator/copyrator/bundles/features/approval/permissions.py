"""The permissions that plans lack: reviewed once for each plan, and recorded in the status.

They inform the people who decide about a plan; no decision of the operator depends on them. The
access reviews of a plan are sent one after the other, by a separate client and outside of
reconciles. Where one is forbidden, fails or takes too long, the plan has no findings, and none is
sent for some time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context, cancel_all
from copyrator.bundles.engine.step import Change, Step, record_part
from copyrator.bundles.features.approval.record import awaits_approval_since
from copyrator.bundles.jobs.rights import RequiredPermission, ServiceAccount
from copyrator.bundles.plans.fields import ApprovedPlan, PlanOutcome, PlanStatus
from copyrator.bundles.plans.jobs import is_namespace_missing
from copyrator.bundles.plans.operations import Operation
from copyrator.bundles.plans.record import PlanFault
from copyrator.bundles.plans.rights import (
    KindIn,
    PermissionFindings,
    kinds_of,
    record_findings,
    required_permissions,
)
from copyrator.bundles.plans.secrets import PlanStore
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.permissions import Subject, is_allowed
from copyrator.kube.resources import Discovery, Resource
from copyrator.workqueue.fairness import FairLimit

PERMISSION_REVIEWS_AT_ONCE: Final = 4
"""Access reviews in flight, of all plans together; those of one plan are sent one by one."""

PERMISSION_REVIEWS_SECONDS: Final = 60.0
"""Seconds for all access reviews of one plan; a plan of 50 kinds has some 370."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTiming:
    """Durations in seconds; only tests use others than the defaults."""

    timeout: float = 5.0
    """Timeout of one review."""
    pause: float = 15.0
    """Without reviews after one that failed or was forbidden, doubling."""
    longest_pause: float = 600.0


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """The input of the reviews of one plan: its service account and its objects' kinds."""

    account: ServiceAccount
    namespace: str
    """Of the release."""
    kinds: tuple[KindIn, ...] = ()
    beyond: int = 0
    """The number of kinds beyond the limit, which aren't reviewed."""
    is_namespace_missing: bool = False
    denied: tuple[RequiredPermission, ...] = ()
    """The missing permissions that werf reported, where there is no plan."""

    @classmethod
    def of(
        cls,
        spec: BundleSpec,
        operations: Collection[Operation] = (),
        *,
        is_namespace_missing: bool = False,
    ) -> ReviewRequest:
        """The input for a plan with these operations."""
        kinds, beyond = kinds_of(operations)
        return cls(
            account=ServiceAccount.of(spec),
            namespace=spec.project_namespace,
            kinds=kinds,
            beyond=beyond,
            is_namespace_missing=is_namespace_missing,
        )


Ask = Callable[[], Awaitable[ReviewRequest | None]]


@dataclass(slots=True)
class Review:
    """The reviews of one plan."""

    job: str
    task: asyncio.Task[None]
    findings: PermissionFindings | None = None


@dataclass(slots=True)
class ReviewMemory:
    """The reviews of the permissions of a Bundle's plan."""

    review: Review | None = None
    reviewed: str | None = None
    """The Job of the last plan that isn't reviewed again: its findings were written (an older CRD
    may drop them), or its operations can't be read.
    """

    def end(self) -> None:
        """Drop the findings: they are in the status, or not needed."""
        if self.review is not None:
            self.review.task.cancel()
            self.review = None


class PermissionRecorder:
    """Reviews and records the permissions that the plans of all Bundles lack.

    Args:
        context: the controller's.
        plans: the operations of waiting plans.
    """

    def __init__(self, context: Context, plans: PlanStore) -> None:
        self._context = context
        self._timing = context.timing.of(ReviewTiming)
        self._plans = plans
        self._discovery = Discovery(context.reviewer)
        self._turns = FairLimit(each=1, together=PERMISSION_REVIEWS_AT_ONCE)
        context.memories.on_drop(lambda key: self._memory(key).end())
        self._pause = 0.0
        self._paused_until = 0.0
        """Monotonic seconds."""

    def ask(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        operations: Collection[Operation],
        *,
        is_namespace_missing: bool,
    ) -> None:
        """Begin the reviews of a plan that was made."""
        request = ReviewRequest.of(spec, operations, is_namespace_missing=is_namespace_missing)
        self._begin_request(entry, spec, request)

    def ask_without_plan(self, entry: BundleEntry, spec: BundleSpec, why: PlanFault) -> None:
        """Begin reviews of what the deploy needs, as a plan failed by a missing permission."""
        request = replace(ReviewRequest.of(spec), denied=why.denied, kinds=why.kinds)
        self._begin_request(entry, spec, request)

    def review(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Record findings; then begin reviews of a waiting plan that has none.

        It has none after a restart, and where reviews failed or were forbidden.
        """
        review = self._memory(entry.key).review
        if review is None or review.findings is None:
            self._ask_again(entry, spec)
            return Step(entry)

        async def ask_again(written: BundleEntry) -> Step:
            self._ask_again(written, spec)
            return Step(written)

        return self._record_findings(entry, review.job, review.findings).then(ask_again)

    async def close(self) -> None:
        """End all reviews."""
        reviews = [one.review for _, one in self._context.memories.each(ReviewMemory)]
        await cancel_all({one.task for one in reviews if one is not None})

    def _begin_request(self, entry: BundleEntry, spec: BundleSpec, request: ReviewRequest) -> None:
        """Begin reviews, but of a release in another cluster, where they can't be asked for."""

        async def ask() -> ReviewRequest:
            return request

        if not spec.is_remote:
            self._begin(entry.key, entry.status.part(PlanStatus).job or "", ask)

    def _record_findings(self, entry: BundleEntry, job: str, findings: PermissionFindings) -> Step:
        """Record the findings about the plan of this Job, if it is the present one."""
        plan = entry.status.part(PlanStatus)
        if plan.job == job and plan.outcome == PlanOutcome.RUNNING:
            return Step(entry)  # the plan's outcome isn't written yet

        async def forget(written: BundleEntry) -> Step:
            memory = self._memory(entry.key)
            if plan.job == job:
                memory.reviewed = job
            memory.end()
            return Step(written)

        if plan.job != job:
            return Step(entry, effect=forget)
        status = entry.status.with_part(record_findings(plan, findings))
        return record_part(entry, status).then(forget)

    def _ask_again(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Review the permissions of a waiting plan whose operations are in its Secret."""
        plan = entry.status.part(PlanStatus)
        is_waiting = awaits_approval_since(entry.status) is not None and not spec.is_remote
        if not is_waiting or plan.missing_permissions is not None:
            return
        job, memory = plan.job or "", self._memory(entry.key)

        async def ask() -> ReviewRequest | None:
            kept = await self._plans.find(entry, ApprovedPlan(job=job, seal=plan.seal))
            if kept is None:
                self._memory(entry.key).reviewed = job
                return None
            missing = await is_namespace_missing(self._context.client, spec.project_namespace)
            return ReviewRequest.of(spec, kept.operations, is_namespace_missing=missing)

        if memory.reviewed != job:
            self._begin(entry.key, job, ask)

    # --- sending ----------------------------------------------------------------------------------

    @property
    def _is_paused(self) -> bool:
        """Whether no reviews are sent now."""
        return bool(self._pause) and self._context.monotonic() < self._paused_until

    def _begin(self, key: BundleKey, job: str, ask: Ask) -> None:
        """Send the reviews of this Job's plan, unless they are under way, or none are sent now.

        The Bundle is requeued once there are findings. ``ask`` returns the request when the reviews
        may be sent; None: nothing is reviewed.
        """
        memory = self._memory(key)
        if self._is_paused or (memory.review is not None and memory.review.job == job):
            return
        memory.end()
        task = asyncio.create_task(self._review(key, ask), name=f"permissions of {key}")
        memory.review = Review(job, task)

    async def _review(self, key: BundleKey, ask: Ask) -> None:
        findings = None
        async with self._turns.slot(key.namespace):
            if not self._is_paused:  # another plan's review may have failed
                findings = await self._ask_reviews(ask)
        memory = self._context.memories.find(key, ReviewMemory)
        if memory is None or memory.review is None:
            return
        if findings is None:
            memory.review = None
            return
        memory.review.findings = findings
        self._context.schedule.changed(key, Change.AWAITED)

    async def _ask_reviews(self, ask: Ask) -> PermissionFindings | None:
        try:
            async with asyncio.timeout(PERMISSION_REVIEWS_SECONDS):
                request = await ask()
                if request is None:
                    return None
                findings = await self._findings(request)
        except (ApiError, TimeoutError) as error:
            self._postpone(error)
            return None
        self._pause = 0.0
        return findings

    async def _findings(self, request: ReviewRequest) -> PermissionFindings:
        kinds: dict[KindIn, Resource] = {}
        for one in request.kinds:
            if (served := await self._discovery.in_group(one.kind, one.group)) is not None:
                kinds[one] = served
        missing = []
        subject = Subject(request.account.user, request.account.groups)
        timeout = self._timing.timeout
        for need in required_permissions(
            request.namespace,
            kinds,
            is_namespace_missing=request.is_namespace_missing,
            denied=request.denied,
        ):
            denied = [
                verb
                for verb in need.verbs
                if not await is_allowed(
                    self._context.reviewer, need.attributes(verb), subject, timeout=timeout
                )
            ]
            if denied:
                missing.append(replace(need, verbs=tuple(denied)))
        unknown = len(request.kinds) - len(kinds)
        return PermissionFindings(tuple(missing), unknown + request.beyond)

    def _postpone(self, error: ApiError | TimeoutError) -> None:
        """Pause all reviews after an error."""
        if self._is_paused:
            return
        if not self._pause:
            why = "bundles.permissionReviews of the chart" if isinstance(error, Forbidden) else ""
            text = f"{error or 'they take too long'}" + (f" ({why} allows them)" if why else "")
            log.info("the permissions that Jobs lack can't be determined now: %s", text)
        self._pause = min(max(2 * self._pause, self._timing.pause), self._timing.longest_pause)
        self._paused_until = self._context.monotonic() + self._pause

    def _memory(self, key: BundleKey) -> ReviewMemory:
        return self._context.memories.of(key, ReviewMemory)
