"""Changed content in steps, against the fake API server."""

from contextlib import asynccontextmanager
from typing import Any

from tests.component.copies.conftest import HOME, Operator, by_name, make_rule, reason
from tests.component.kube.fake_api import until

STEPS = ["1", "50%", "100%"]


def rollout(**more: Any) -> dict[str, Any]:
    return {"rollout": {"steps": STEPS, "pause": "1s", **more}}


def status(cluster, name: str = "r") -> dict[str, Any]:
    return (cluster.found("copyrators", HOME, name) or {}).get("status", {})


def step(cluster) -> int:
    return status(cluster).get("rollout", {}).get("step", 0)


def edit(cluster, spec: dict[str, Any]) -> None:
    """Another spec; the status stays."""
    body = cluster.found("copyrators", HOME, "r")
    path = f"/apis/flant.com/v1/namespaces/{HOME}/copyrators/r"
    cluster.write(path, {**body, "spec": spec})


def change(cluster, value: str) -> None:
    cluster.object("configmaps", HOME, "x", data={"a": value})


def holding(cluster, value: str) -> list[str]:
    """The namespaces whose copy has this value."""
    found = cluster.copies("configmaps", "x")
    return [one for one in found if cluster.found("configmaps", one, "x")["data"]["a"] == value]


@asynccontextmanager
async def operating(cluster, **settings: Any):
    running = Operator(cluster, **settings)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def staged(cluster, targets: int = 6, **more: Any) -> None:
    """A rule with a rollout, whose copies all have the value ``old``."""
    for number in range(targets):
        cluster.namespace(f"t{number}")
    change(cluster, "old")
    make_rule(cluster, "r", by_name("x", **rollout(**more)))
    await until(lambda: len(holding(cluster, "old")) == targets, "copied at once")
    await until(lambda: reason(cluster, "r") == "Synced", "synced")


async def test_changed_content_is_written_step_by_step(cluster, operator):
    await staged(cluster)
    change(cluster, "new")
    seen: list[tuple[int, int]] = []

    def finished() -> bool:
        now = (step(cluster), len(holding(cluster, "new")))
        if not seen or seen[-1] != now:
            seen.append(now)
        return reason(cluster, "r") == "Synced" and now == (0, 6)

    await until(lambda: reason(cluster, "r") == "RollingOut", "begun")
    await until(finished, "finished", 15)
    assert holding(cluster, "old") == []
    assert all(new <= {0: 6, 1: 1, 2: 3, 3: 6}[at] for at, new in seen)
    assert {new for _, new in seen} >= {1, 3, 6}
    writes = [path for verb, path in cluster.writes("configmaps") if verb == "update"]
    assert sorted(path for path in writes if "/t" in path) == [
        f"/api/v1/namespaces/t{number}/configmaps/x" for number in range(6)
    ]
