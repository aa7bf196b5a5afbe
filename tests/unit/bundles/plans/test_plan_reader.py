"""Of which container's log a plan is read: only of one that ended well, of a complete Job."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.bundles.plans.test_plan_block import NONCE, block

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.feature import Content, Features
from copyrator.bundles.jobs.outcome import DEPLOY_CONTAINER, JobRecord
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.jobs import PlanDelay, PlanFault, PlanReader, PlanSubject
from copyrator.bundles.plans.operations import Plan

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
DONE = JobRecord("apps", "shop-plan-1", "u", "shop", "b", JobKind.PLAN, 1, NOW, NOW, complete=True)
MADE_OF = PlanSubject(ServiceAccount("apps", "werf"), "werf:2", Content(()))


class FakeOutput:
    """One pod whose log ends with a plan."""

    def __init__(self, code: int | None) -> None:
        ended = {} if code is None else {"terminated": {"exitCode": code}}
        self.pod = {
            "status": {"containerStatuses": [{"name": DEPLOY_CONTAINER, "state": ended}]},
        }

    async def pods(self, _job: JobRecord) -> list[dict[str, Any]]:
        return [self.pod]

    async def read_log(self, _pod: Any, *, tail_lines: int, limit_bytes: int) -> str:
        return "".join(block().splitlines(keepends=True)[-tail_lines:])[-limit_bytes:]

    async def log_end(self, _pods: Any) -> str:
        return f"Error: it failed\n{block()}"


class NothingSecret:
    async def redacted(
        self, _namespace: str, _secrets: Any, texts: list[str], _written: Any
    ) -> list[str]:
        return texts


def read(job: JobRecord, code: int | None) -> Plan | PlanFault | PlanDelay:
    async def reading() -> Plan | PlanFault | PlanDelay:
        was_read = asyncio.Event()
        memories = Memories()
        context: Any = SimpleNamespace(
            clock=lambda: NOW,
            timing=BundleTiming(),
            memories=memories,
            schedule=SimpleNamespace(changed=lambda _key, _why: was_read.set()),
        )
        jobs: Any = SimpleNamespace(output=FakeOutput(code))
        redaction: Any = NothingSecret()
        reader = PlanReader(context, jobs, Features((), memories), redaction)
        key = BundleKey("team", "shop")
        assert reader.read(key, job, NONCE, MADE_OF) is None
        await was_read.wait()
        found = reader.read(key, job, NONCE, MADE_OF)
        assert found is not None
        return found

    return asyncio.run(reading())


def test_the_log_of_a_container_that_ended_well_has_the_plan() -> None:
    found = read(DONE, 0)
    assert isinstance(found, Plan)
    assert found.revision == 2


@pytest.mark.parametrize("code", [1, 12, 137, None])
def test_the_log_of_a_container_that_failed_is_no_plan_whatever_its_job_says(
    code: int | None,
) -> None:
    found = read(DONE, code)
    assert isinstance(found, PlanFault)
    assert "it failed" in found.message


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "BackoffLimitExceeded"])
def test_the_container_that_plans_decides_whatever_becomes_of_injected_ones(reason: str) -> None:
    failed = replace(DONE, complete=False, failed=reason)
    assert isinstance(read(failed, 0), Plan)
    assert isinstance(read(failed, 1), PlanFault)
