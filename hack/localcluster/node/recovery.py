"""Pods that an earlier run of the node had started. Pure.

The processes are gone by then: a node that stops ends them, and one that starts ends those that a
killed node has left. So a pod that may not be run twice has failed, and one that may is started
anew, as after a reboot of a machine.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .status import PodState, Terminated, Verdict

Object = dict[str, Any]
VERDICT = Verdict(
    "NodeRestarted", "the process node was started anew, and ended what it found of this pod"
)
_LOST = Terminated(137, VERDICT.reason, VERDICT.message)


def take_up(state: PodState, known: Object, policy: str) -> bool:
    """Bring a pod's state up to what is known of its former life.

    Args:
        state: a fresh state; changed in place.
        known: the status that the earlier run of the node has written.
        policy: the pod's restart policy.

    Returns:
        Whether the pod is to go on.
    """
    before = {
        c["name"]: c
        for group in ("initContainerStatuses", "containerStatuses")
        for c in known.get(group) or []
    }
    for container in state.all:
        old = before.get(container.name, {})
        container.restarts = int(old.get("restartCount", 0))
        last = _terminated((old.get("state") or {}).get("terminated"))
        if policy == "Never":
            container.state = last or _LOST
        elif old.get("containerID"):
            container.last = last or _LOST
    if policy == "Never":
        state.verdict, state.ending = VERDICT, True
        return False
    return True


def moment(text: str | None) -> datetime | None:
    """Read a time of the API."""
    return datetime.fromisoformat(text) if text else None


def seconds(ended: Terminated) -> float:
    """How long a container ran."""
    if ended.started_at is None or ended.finished_at is None:
        return 0.0
    return (ended.finished_at - ended.started_at).total_seconds()


def _terminated(body: Object | None) -> Terminated | None:
    if body is None:
        return None
    return Terminated(
        int(body["exitCode"]),
        body.get("reason", ""),
        body.get("message", ""),
        moment(body.get("startedAt")),
        moment(body.get("finishedAt")),
        body.get("containerID", ""),
    )
