"""A release whose objects somebody changes, and what tests of drift look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.component.bundles.approvals import condition, refresh
from tests.component.bundles.fake_cluster import BundleCluster, succeed
from tests.component.bundles.fake_werf import CREATE, UPDATE, Werf
from tests.component.bundles.waiting import eventually

DETECT = {"mode": "Detect"}
CORRECT = {"mode": "Correct"}
HOOK = "recreate :batch:Job:migrate"
RANDOM = "update ::Secret:random"
OTHER = "update :apps:Deployment:web"
EDITED = [UPDATE]


@dataclass
class Release:
    """One release: each plan has what its chart does every time, and what somebody changed.

    Attributes:
        always: what the chart does with each deploy.
        changed: what was changed by others; a deploy restores it.
        is_fought: something else changes it at once again.
    """

    cluster: BundleCluster
    werf: Werf
    always: list[str] = field(default_factory=lambda: [HOOK, RANDOM])
    changed: list[str] = field(default_factory=list)
    is_fought: bool = False
    is_installed: bool = False

    def __post_init__(self) -> None:
        self.werf.todo = self.todo
        self.werf.ends = self.ends

    def todo(self, _digest: str) -> list[str]:
        return [*self.always, *self.changed] if self.is_installed else [CREATE]

    def ends(self, job: dict[str, Any]) -> tuple[int, str]:
        self.is_installed = True
        if not self.is_fought:
            self.changed.clear()
        return succeed(job)

    @property
    def drift(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.status().get("drift", {})
        return found

    async def judged(self, status: str, reason: str) -> dict[str, Any]:
        """The drift in the status, once the condition Drifted says this."""
        wanted = (status, reason)
        try:
            await eventually(lambda: condition(self.cluster, "Drifted") == wanted)
        except AssertionError:
            raise AssertionError(f"{wanted}; {self.cluster.status()}") from None
        return self.drift

    async def in_sync(self) -> dict[str, Any]:
        return await self.judged("False", "InSync")

    async def look(self, value: str = "now") -> None:
        """A user asks for the plan of what is deployed, and has it."""
        refresh(self.cluster, value)
        await eventually(lambda: self._is_planned(value), "it is planned")

    async def check_now(self, *changed: str) -> None:
        """A regular check finds what somebody has changed by now.

        No user's plan of what is deployed is made while another one waits.
        """
        self.changed += changed
        checks = self.checks
        self.cluster.change("bundles", "shop", status=checked_long_ago(self.cluster))
        await eventually(lambda: self.checks > checks, "it is checked")

    def _is_planned(self, value: str) -> bool:
        status = self.cluster.status()
        done = status.get("lastHandledPlan") == value
        return done and status.get("plan", {}).get("outcome", "Running") != "Running"

    @property
    def checks(self) -> int:
        return len(self.cluster.jobs("drift"))


def checked_long_ago(cluster: BundleCluster) -> dict[str, Any]:
    """The status in which a check for drift is due."""
    known, long_ago = cluster.status(), "2020-01-01T00:00:00Z"
    check = {**known["drift"]["check"], "startedAt": long_ago}
    drift = {**known["drift"], "checkedAt": long_ago, "check": check}
    return {"drift": drift, "baseline": {**known["baseline"], "madeAt": long_ago}}


def history(cluster: BundleCluster) -> list[tuple[str, bool]]:
    """Each attempt, the newest first: its outcome, and whether it corrected drift."""
    found = cluster.status()["history"]
    return [(one["outcome"], one.get("correction", False)) for one in found]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The reasons of the Events about drift, which are logged too."""
    ours = [one for one in caplog.records if one.name == "copyrator.bundles.engine.context"]
    reasons = [str(one.args[1]) for one in ours if isinstance(one.args, tuple)]
    return [reason for reason in reasons if reason.startswith("Drift")]
