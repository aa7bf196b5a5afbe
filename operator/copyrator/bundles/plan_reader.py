"""Reads what a plan's Job that has ended found, from its pod and the end of its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from copyrator.api.bundle_status import BundleReason
from copyrator.bundles.context import Context
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.policy.blocked import secrets_of
from copyrator.bundles.policy.observation import JobRecord, ending_of, exit_code
from copyrator.bundles.policy.permissions import Need, ServiceAccount, listed, refused, sentence
from copyrator.bundles.policy.plan import Plan
from copyrator.bundles.policy.plan_block import MAX_TEXT, BlockFault, block_lines, read_block
from copyrator.bundles.policy.plan_script import PlanExit
from copyrator.bundles.redaction import Redaction, WithheldError
from copyrator.kube.errors import ApiError

LOG_PATIENCE: Final = 120.0
"""Seconds after the Job's end for which a log is requested again that can't be read: its node may
come back.
"""
_LINE_BYTES: Final = 512
"""Of a log's last line that are read."""


_ENDED: Final = re.compile(r"werf bundle plan ended with exit code [0-9]{1,3}")
"""What a Job's script says itself."""


@dataclass(frozen=True, slots=True)
class PlanFault:
    """Why a Job has no plan."""

    message: str
    reason: BundleReason = BundleReason.PLAN_FAILED
    denied: tuple[Need, ...] = ()
    """For want of which werf failed."""


class PlanReader:
    """Reads for all Bundles."""

    def __init__(self, context: Context, jobs: Jobs, redaction: Redaction) -> None:
        self._context = context
        self._jobs = jobs
        self._redaction = redaction

    async def read(self, job: JobRecord, nonce: str, account: ServiceAccount) -> Plan | PlanFault:
        """The plan of a Job that has ended, whose block has this nonce.

        Raises:
            ApiError: its pods, or its log, can't be read now.
        """
        pods = await self._jobs.pods(job)
        code = exit_code(pods)
        if not job.complete or code != 0:
            reason = BundleReason.PLAN_FAILED
            if code == PlanExit.CHANGED:
                reason = BundleReason.PLAN_CHANGED
            cause = await self._cause(job, pods)
            denied = refused(cause, account)
            text = sentence(account, listed(denied)) if denied else cause
            return PlanFault(f"Job {job.name}: {text}", reason, denied)
        try:
            plan = await self._block(pods[-1], nonce)
        except ApiError as error:
            if error.transient and self._may_come(job):
                raise
            plan = BlockFault(f"its log can't be read: {error.message}")
        if isinstance(plan, BlockFault):
            return PlanFault(f"Job {job.name}: {plan.message}")
        return plan

    def _may_come(self, job: JobRecord) -> bool:
        now = self._context.clock()
        return now < (job.finished or now) + timedelta(seconds=LOG_PATIENCE)

    async def _block(self, pod: Mapping[str, Any], nonce: str) -> Plan | BlockFault:
        """The plan in a pod's log: its last line says how many have to be read."""
        last = await self._jobs.log_tail(pod, 1, _LINE_BYTES)
        lines = block_lines(last, nonce)
        if isinstance(lines, BlockFault):
            return lines
        return read_block(await self._jobs.log_tail(pod, lines, MAX_TEXT), nonce)

    async def _cause(self, job: JobRecord, pods: list[dict[str, Any]]) -> str:
        """Why a Job has no plan: werf's last error, without the values of Secrets."""
        lines = (await self._jobs.log_end(pods)).splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]  # others have contents
        errors = errors or [line for line in lines if _ENDED.fullmatch(line)]
        found = errors[-1][:_LINE_BYTES] if errors else ending_of(job, pods).message
        try:
            (found,) = await self._redaction.redacted(job.namespace, secrets_of(pods), [found])
        except WithheldError as error:
            found = error.in_place_of_log(job.namespace, job.name)
        return found
