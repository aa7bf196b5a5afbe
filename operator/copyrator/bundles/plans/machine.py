"""Plans: each is recorded, its Job is created, observed and read, and its result is recorded.

A record is written before its Job is created, and the Job is read before it may be deleted. A plan
changes nothing, so a Job that doesn't exist after a restart is created again. Each purpose
(``PlanPurpose``) has a machine, a record, a number and Jobs of its own, as the plan of the next
deploy may wait for approval for days. docs/architecture.md has a table of what differs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar, Generic, TypeVar

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.deciding import DesiredDeploy
from copyrator.bundles.engine.step import Step, record_part
from copyrator.bundles.plans.fields import PlanRecord
from copyrator.bundles.plans.jobs import PAUSED, PlanDelay
from copyrator.bundles.plans.operations import Plan
from copyrator.bundles.plans.orders import planned_job_hash
from copyrator.bundles.plans.planning import Planning
from copyrator.bundles.plans.queue import Ticket
from copyrator.bundles.plans.record import (
    PlanFault,
    PlanPurpose,
    PlanTarget,
    next_number,
    record_failure,
    record_plan,
    set_message,
)


def target_of(entry: BundleEntry, spec: BundleSpec, wanted: DesiredDeploy) -> PlanTarget:
    """The input of a plan of this deploy."""
    return PlanTarget(
        version=wanted.version,
        digest=wanted.digest,
        values_hash=wanted.values_hash,
        spec_hash=wanted.spec_hash,
        job_hash=planned_job_hash(entry, spec, wanted.version, wanted.digest),
    )


@dataclass(frozen=True, slots=True)
class PlanTask:
    """The plan of a purpose of a Bundle, as its record is now."""

    entry: BundleEntry
    spec: BundleSpec
    purpose: PlanPurpose

    @property
    def status(self) -> BundleStatus:
        """The Bundle's."""
        return self.entry.status

    @property
    def record(self) -> PlanRecord:
        """The plan's."""
        return self.purpose.record(self.entry.status)

    @property
    def ticket(self) -> Ticket:
        """Its place in the queue."""
        return Ticket(self.entry.key, self.purpose)

    def set_message(self, message: str | None) -> BundleStatus:
        """The status with why the plan isn't made yet."""
        return set_message(self.entry.status, self.purpose, message)


@dataclass(slots=True)
class PlanMemory:
    """The newest plan of one purpose."""

    begun: int | None = None
    """The plan whose Job this process has created or seen: if it doesn't exist, it is lost."""
    counted: int | None = None
    """The plan whose outcome was counted in the metrics."""


M = TypeVar("M", bound=PlanMemory)


class PlanMachine(ABC, Generic[M]):
    """Makes the plans of one purpose of all Bundles."""

    purpose: ClassVar[PlanPurpose]
    memory: type[M]
    renders: ClassVar[int] = 2
    """How often a plan renders the chart; one that is to be bound needs two."""

    def __init__(self, planning: Planning) -> None:
        self.context, self.jobs, self.queue = planning.context, planning.jobs, planning.queue
        self.seals, self.stored = planning.seals, planning.stored
        self.poll_states = planning.poll_states

    def task(self, entry: BundleEntry, spec: BundleSpec) -> PlanTask:
        """A Bundle's plan of this purpose."""
        return PlanTask(entry, spec, self.purpose)

    def skip(self, key: BundleKey) -> None:
        """Remove a Bundle's plan from the queue: none has to be begun."""
        self.queue.forget(Ticket(key, self.purpose))

    async def discard(self, entry: BundleEntry) -> Step:
        """End the Jobs of plans that the status no longer has, and delete their Secrets."""
        await self.jobs.discard(entry)
        return Step(entry)

    def begin(self, task: PlanTask, status: BundleStatus, target: PlanTarget) -> Step | None:
        """Record a plan; its Job is created once that is on record. None: the plan is queued."""
        entry, now = task.entry, self.context.clock()
        number = next_number(task.status, self.purpose)
        job = self.purpose.job_of(task.spec.name, entry.uid, number)
        if not self.queue.begin(task.ticket, job):
            return None
        is_requested = entry.request is not None
        status = record_plan(status, self.purpose, target, job, now, is_requested=is_requested)

        async def create(written: BundleEntry) -> Step:
            begun = replace(task, entry=written)
            if not self.purpose.gives_way:
                await self.jobs.discard(written)
            return self.report_begun(begun, await self.create_job(begun))

        step = record_part(entry, status).then(create)
        return replace(step, guard=self._keep_slot(task.ticket, number))

    @contextmanager
    def _keep_slot(self, ticket: Ticket, number: int) -> Iterator[None]:
        """Free the slot of a plan whose Job isn't created."""
        try:
            yield
        finally:
            if self.remembered(ticket.key).begun != number:
                self.queue.end(ticket)

    async def observe(self, task: PlanTask) -> tuple[BundleStatus, datetime | None]:
        """The status with the progress of a recorded plan, and when to look again.

        Raises:
            ApiError: its Job, pods or log can't be read now.
        """
        entry, status, record = task.entry, task.status, task.record
        job = await self.jobs.find(entry, record)
        if job is None:
            return await self._replace_job(task), None
        memory = self.remembered(entry.key)
        memory.begun = record.number
        found = await self.jobs.progress(entry, task.spec, job, record)
        if isinstance(found, PlanDelay):
            return task.set_message(found.message), found.due
        status = self.fail(task, found) if isinstance(found, PlanFault) else status
        if isinstance(found, Plan):
            status = await self.record_result(task, found)
        if memory.counted != record.number:
            memory.counted = record.number
            outcome = "succeeded" if isinstance(found, Plan) else "failed"
            ended = job.finished or self.context.clock()
            self.jobs.jobs.count(job.kind.value, outcome, job.created, ended)
        return status, None

    async def _replace_job(self, task: PlanTask) -> BundleStatus:
        """The status with the recorded plan whose Job doesn't exist: it was lost, or is created."""
        self.queue.end(task.ticket)
        if self.remembered(task.entry.key).begun == task.record.number:
            text = f"Job {task.record.job} was deleted before its plan was read"
            return self.fail(task, PlanFault(text))
        if task.entry.is_paused:
            return task.set_message(PAUSED.format(task.record.job))
        if (fault := await self.create_job(task)) is not None:
            return self.refuse_job(task, fault)
        return self.created(task)

    async def create_job(self, task: PlanTask) -> PlanFault | None:
        """Create the Job of the recorded plan; the result says why it can't be."""
        fault = await self.jobs.create(
            task.entry,
            task.spec,
            task.record,
            self.purpose.job_kind,
            renders=self.renders_of(task),
            keeps_inputs=self.purpose.keeps_inputs,
        )
        if fault is None:
            self.remembered(task.entry.key).begun = task.record.number
        return fault

    def remembered(self, key: BundleKey) -> M:
        """What is remembered of a Bundle's plans."""
        return self.context.memories.of(key, self.memory)

    # --- what differs by the purpose --------------------------------------------------------------

    def renders_of(self, task: PlanTask) -> int:  # noqa: ARG002
        """How often the plan renders the chart."""
        return self.renders

    @abstractmethod
    def report_begun(self, task: PlanTask, fault: PlanFault | None) -> Step:
        """What follows once its Job was created, or why it wasn't."""

    def created(self, task: PlanTask) -> BundleStatus:
        """The status where its Job was created once more."""
        return task.status

    def refuse_job(self, task: PlanTask, fault: PlanFault) -> BundleStatus:
        """The status where its Job can't be created."""
        return self.fail(task, fault)

    def fail(self, task: PlanTask, why: PlanFault) -> BundleStatus:
        """The status where no plan could be made."""
        now = self.context.clock()
        return record_failure(task.status, self.purpose, why, task.spec.retry, now)

    @abstractmethod
    async def record_result(self, task: PlanTask, plan: Plan) -> BundleStatus:
        """The status with the plan of a Job that has ended.

        Raises:
            ApiError: what it is compared with can't be read, or it can't be stored now.
        """
