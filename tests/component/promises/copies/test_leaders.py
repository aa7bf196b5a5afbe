"""What the next leader knows, and what a standby leaves alone."""

from __future__ import annotations

import pytest
from tests.component.copies.conftest import HOME, Operator, reason
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.copies.test_fights import CHANGES, Contested, Time, copied

from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import CONFIGMAPS
from copyrator.metrics import Metrics
from copyrator.runtime.app import Parts
from copyrator.settings.config import Settings


def reasons(cluster: Contested, since: int) -> set[str]:
    """The reasons of the rule's Ready condition in all that was written of it."""
    bodies = [body for _, _, path, body in cluster._log[since:] if "/copyrators/" in path]
    conditions = [body.get("status", {}).get("conditions", [{}])[0] for body in bodies]
    return {one["reason"] for one in conditions if "reason" in one}


@pytest.mark.parametrize(
    ("contested", "said"), CHANGES.values(), ids=CHANGES, indirect=["contested"]
)
async def test_a_fight_with_another_controller_is_said_across_a_change_of_leader(
    contested: Contested, clock: Time, said: str
) -> None:
    """The rule never seems to be in order meanwhile, and each leader writes a few times only."""
    first = Operator(contested, monotonic=clock, queue_clock=clock)
    await first.start()
    await copied(contested, first, clock, onConflict="Overwrite")
    await clock.passes(first, 590)
    assert reason(contested, "rule") == "ConflictPersists"
    await first.stop()

    since = len(contested._log)
    for _ in range(2):
        before = len(contested.puts())
        leader = Operator(contested, monotonic=clock, queue_clock=clock)
        await leader.start()
        await clock.passes(leader, 590)
        assert len(contested.puts()) - before <= 12
        assert reason(contested, "rule") == "ConflictPersists"
        await leader.stop()
    assert "Synced" not in reasons(contested, since)


async def test_the_writes_of_a_standby_are_never_sent(cluster: FakeCluster) -> None:
    """Whatever a part of it asks for, as long as another replica has the Lease, or none."""
    settings = Settings(namespace=HOME, lease_namespace=HOME, identity="standby")
    parts = Parts(settings, Connection(Endpoint(host=cluster.url)), Metrics())
    body = {"metadata": {"name": "mark", "namespace": HOME}, "data": {"a": "b"}}
    try:
        for client in (parts.client, parts.reviewer):
            for write in (
                client.create(CONFIGMAPS, HOME, body),
                client.patch(CONFIGMAPS, HOME, "mark", body),
                client.delete(CONFIGMAPS, HOME, "mark"),
            ):
                with pytest.raises(ApiError):
                    await write
    finally:
        assert parts.elector is not None
        await parts.elector.close()
        await parts.close()

    assert [seen for seen in cluster.seen if seen.verb not in ("get", "list", "watch")] == []
