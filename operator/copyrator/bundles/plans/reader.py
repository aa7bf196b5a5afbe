"""Reads the results of finished plan Jobs from their pods and the end of their logs.

A reconcile doesn't wait for a log, as a kubelet may not respond: a separate task reads it, and the
Bundle is requeued when the task has ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from copyrator.api.bundle_status import BundleReason
from copyrator.api.keys import BundleKey
from copyrator.api.times import format_time
from copyrator.bundles.context import Context, cancel_all
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.memory import BundleMemory
from copyrator.bundles.policy.blocked import secrets_of
from copyrator.bundles.policy.chart.facts import ChartFacts
from copyrator.bundles.policy.jobs.plan_block import MAX_TEXT, BlockFault, block_lines, read_block
from copyrator.bundles.policy.observation import (
    JobRecord,
    ending_of,
    exit_code,
    pinned_image,
    plan_reason,
)
from copyrator.bundles.policy.permissions import Need, ServiceAccount, listed, refused, sentence
from copyrator.bundles.policy.plans.operations import Plan
from copyrator.bundles.policy.report import without_template_text
from copyrator.bundles.redaction import Redaction, WithheldError
from copyrator.bundles.schedule import Change
from copyrator.kube.errors import ApiError
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit

_LINE_BYTES: Final = 512
"""Bytes of a log's last line that are read."""
_ERROR: Final = 4096
"""Characters of werf's error that are searched for missing permissions."""


_ENDED: Final = re.compile(r"werf bundle (plan|render) ended with exit code [0-9]{1,3}")
"""The last line that a Job's script prints after werf has failed."""


@dataclass(frozen=True, slots=True)
class MadeOf:
    """What a Job's plan is judged by, beside its log."""

    account: ServiceAccount
    image: str
    """werf's, as the spec names it."""
    chart: ChartFacts

    @property
    def drawn(self) -> tuple[str, ...]:
        """What in the chart may render differently another time, or why that isn't known."""
        if self.chart.unreadable is not None:
            return (f"the chart can't be judged: {self.chart.unreadable}",)
        return self.chart.unbound


@dataclass(frozen=True, slots=True)
class PlanFault:
    """Why a finished Job has no plan."""

    message: str
    reason: BundleReason = BundleReason.PLAN_FAILED
    denied: tuple[Need, ...] = ()
    """The missing permissions because of which werf failed."""


@dataclass(frozen=True, slots=True)
class PlanDelay:
    """A Job's plan can't be read yet; the message is None while the Job simply runs."""

    message: str | None = None


@dataclass(slots=True)
class Reading:
    """A read of a Job's plan, or the time of the next one."""

    task: asyncio.Task[Plan | PlanFault | PlanDelay]
    delay: PlanDelay | None = None
    again_at: datetime | None = None


class PlanReader:
    """Reads the plans of all Bundles' Jobs."""

    def __init__(self, context: Context, jobs: Jobs, redaction: Redaction) -> None:
        self._context = context
        self._timing = context.timing
        self._jobs = jobs
        self._redaction = redaction
        context.memories.on_drop(lambda _, memory: _cancel(memory))
        self._slots = FairLimit(each=limits.TENANT_PLAN_READS, together=limits.TENANTS_PLAN_READS)

    def read(
        self, key: BundleKey, job: JobRecord, nonce: str, made_of: MadeOf
    ) -> Plan | PlanFault | PlanDelay | None:
        """The plan that a finished Job printed as a block with this nonce, or why it has none.

        None while it is being read; the Bundle is requeued when it was read.

        Raises:
            ApiError: its pods can't be read now.
        """
        readings = self._context.memory(key).plan.readings
        reading = readings.get(job.name)
        if reading is None or (reading.again_at and self._context.clock() >= reading.again_at):
            task = asyncio.create_task(
                self._read_in_slot(job, nonce, made_of), name=f"plan of {job.name}"
            )
            task.add_done_callback(lambda ended: self._ended(key, ended))
            for name in [name for name, one in readings.items() if one.task.done()]:
                del readings[name]  # its result isn't needed any more
            readings[job.name] = Reading(task)
            return None
        if reading.again_at is not None:
            self._context.schedule.reconcile_at(key, reading.again_at)
            return reading.delay
        if not reading.task.done():
            return None
        del readings[job.name]
        found = reading.task.result()
        if isinstance(found, PlanDelay):
            again_at = self._context.clock() + timedelta(seconds=self._timing.plan_log_retry)
            readings[job.name] = Reading(reading.task, found, again_at)
            self._context.schedule.reconcile_at(key, again_at)
        return found

    async def close(self) -> None:
        """End all reads."""
        tasks = set()
        for memory in self._context.memories.values():
            tasks |= {one.task for one in memory.plan.readings.values()}
            memory.plan.readings.clear()
        await cancel_all(tasks)

    def _ended(self, key: BundleKey, task: asyncio.Task[Plan | PlanFault | PlanDelay]) -> None:
        if not task.cancelled():
            task.exception()  # raised where the result is read
            self._context.schedule.changed(key, Change.PLAN_READ)

    async def _read_in_slot(
        self, job: JobRecord, nonce: str, made_of: MadeOf
    ) -> Plan | PlanFault | PlanDelay:
        async with self._slots.slot(job.namespace):
            return await self._read(job, nonce, made_of)

    async def _read(
        self, job: JobRecord, nonce: str, made_of: MadeOf
    ) -> Plan | PlanFault | PlanDelay:
        pods, account = await self._jobs.pods(job), made_of.account
        code = exit_code(pods)
        if not job.complete or code != 0:
            reason = plan_reason(code) or BundleReason.PLAN_FAILED
            whole = await self._cause(job, pods)
            cause = without_template_text(whole, made_of.chart.literals)
            # The API server's words: they name no values of the chart.
            denied = refused(whole if "error calling lookup: " in cause else cause, account)
            text = sentence(account, listed(denied)) if denied else cause[:_LINE_BYTES]
            return PlanFault(f"Job {job.name}: {text}", reason, denied)
        timeout = self._timing.plan_log_timeout
        try:
            async with asyncio.timeout(timeout):
                plan = await self._block(pods[-1], nonce)
        except TimeoutError:
            return self._late(job, f"there was no answer within {timeout:g} s")
        except ApiError as error:
            if error.transient:
                return self._late(job, error.message)
            plan = BlockFault(f"its log can't be read: {error.message}")
        if isinstance(plan, BlockFault):
            return PlanFault(f"Job {job.name}: {plan.message}")
        return replace(plan, image=pinned_image(pods, made_of.image), drawn=made_of.drawn)

    def _late(self, job: JobRecord, why: str) -> PlanDelay | PlanFault:
        """A delay for a log that can't be read now, and a fault after plan_log_patience."""
        now = self._context.clock()
        end = (job.finished or now) + timedelta(seconds=self._timing.plan_log_patience)
        text = f"Job {job.name}: its log can't be read: {why}"
        if now >= end:
            return PlanFault(text)
        return PlanDelay(f"{text}; it is tried again until {format_time(end)}")

    async def _block(self, pod: Mapping[str, Any], nonce: str) -> Plan | BlockFault:
        """The plan in a pod's log, whose last line has the number of lines to read."""
        last = await self._jobs.log_tail(pod, 1, _LINE_BYTES)
        lines = block_lines(last, nonce)
        if isinstance(lines, BlockFault):
            return lines
        return read_block(await self._jobs.log_tail(pod, lines, MAX_TEXT), nonce)

    async def _cause(self, job: JobRecord, pods: list[dict[str, Any]]) -> str:
        """The text for a Job without a plan: werf's last error, without the values of Secrets."""
        lines = (await self._jobs.log_end(pods)).splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]  # others may have contents
        errors = errors or [line for line in lines if _ENDED.fullmatch(line)]
        # After a template's error lines may be its text.
        found = next((one for one in errors if without_template_text(one) != one), "")
        found = found or (errors[-1] if errors else ending_of(job, pods).message)
        found = found[:_ERROR]
        try:
            (found,) = await self._redaction.redacted(job.namespace, secrets_of(pods), [found])
        except WithheldError as error:
            found = error.in_place_of_log(job.namespace, job.name)
        return found


def _cancel(memory: BundleMemory) -> None:
    for reading in memory.plan.readings.values():
        reading.task.cancel()
