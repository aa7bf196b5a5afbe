"""The health of staging's release in a simulation: what its objects are like, and since when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.component.bundles.gate_account import NOTICED, STAGE
from tests.component.bundles.workloads import deployment

if TYPE_CHECKING:
    from tests.component.bundles.gate_world import World


class Health:
    """One Deployment of the release."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_current, self.is_failed = True, False
        self._since = 0.0
        self.is_ill = False
        """It has failed, the operator must have seen it, and it hasn't been current since."""

    def become(self, how: str) -> None:
        """Its controller says that it is current, pending or failed."""
        was = self.is_current, self.is_failed
        self.is_current, self.is_failed = how == "current", how == "failed"
        if (self.is_current, self.is_failed) != was:
            self._since = self._world.looked()
        ready = int(self.is_current)
        deployment(
            self._world.cluster,
            ready=ready,
            release="staging",
            namespace=STAGE,
            late=self.is_failed,
        )
        if self.is_current and self.is_ill:
            self.is_ill = False
            self._world.stand()
        if self.is_failed:
            self._world.loop.call_later(NOTICED, self._look)

    def _look(self) -> None:
        """Whether the operator must have seen it by now."""
        if not self.is_failed or self.is_ill:
            return
        if not self.is_noticed:
            self._world.loop.call_later(1.0, self._look)
            return
        self.is_ill = True
        self._world.standing.ends(withdrawn=self._world.accounts["staging"].deployed)

    def misjudged(self) -> Iterator[str]:
        """The condition Healthy, where it isn't what it has to be by now."""
        world, body = self._world, self._world.bundle("staging")
        passed = (
            world.looked() - self._since,
            world.looked() - world.sure_from,
            world.loop.time() - world.busy_until["staging"],
        )
        is_settled = min(passed) >= NOTICED and not world.is_busy("staging")
        if not (is_settled and body and "health" in world.gates):
            return
        if world.accounts["staging"].deployed is None or "deletionTimestamp" in body["metadata"]:
            return
        wanted = {"Unknown", "False"}
        if self.is_current or self.is_failed:
            wanted = {str(self.is_current)}
        conditions = body["status"]["conditions"]
        found = {one["status"] for one in conditions if one["type"] == "Healthy"}
        if len(found) != 1 or not found <= wanted:
            yield f"Healthy is {found}, not one of {sorted(wanted)}"

    @property
    def is_noticed(self) -> bool:
        """Whether an operator must have written its present state by now."""
        return self._world.looked() >= self._since + NOTICED
