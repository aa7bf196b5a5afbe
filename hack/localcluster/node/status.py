"""The status of a pod, made from the states of its containers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that has yet to start, or to start again."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A container whose process is there."""

    started_at: datetime
    container_id: str


@dataclass(frozen=True, slots=True)
class Terminated:
    """A container whose process has ended."""

    exit_code: int
    reason: str
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    container_id: str = ""


@dataclass(slots=True)
class ContainerState:
    """What a node knows of one container.

    Attributes:
        spec: the container's spec.
        state: what it is doing.
        last: how its previous run ended.
        restarts: how often it was started again.
    """

    spec: Mapping[str, Any]
    state: Waiting | Running | Terminated = field(default_factory=lambda: Waiting(CREATING))
    last: Terminated | None = None
    restarts: int = 0

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec["name"])

    @property
    def succeeded(self) -> bool:
        """Whether it has ended with exit code 0."""
        return isinstance(self.state, Terminated) and self.state.exit_code == 0

    @property
    def is_sidecar(self) -> bool:
        """Whether it is a native sidecar: an init container that the next ones don't wait for."""
        return self.spec.get("restartPolicy") == "Always"

    @property
    def is_passed(self) -> bool:
        """Whether, as an init container, it lets the next containers start."""
        return self.ready if self.is_sidecar else self.succeeded

    @property
    def ready(self) -> bool:
        """Whether it runs: there are no probes."""
        return isinstance(self.state, Running)


CREATING = "ContainerCreating"
INITIALIZING = "PodInitializing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod failed as a whole, apart from its containers' exit codes."""

    reason: str
    message: str


@dataclass(slots=True)
class PodState:
    """What a node knows of one pod.

    Attributes:
        inits: its init containers, in order.
        mains: its containers.
        started_at: when the node took it.
        ending: no container will be started any more.
        verdict: set when the node itself failed the pod.
    """

    inits: list[ContainerState]
    mains: list[ContainerState]
    started_at: datetime
    ending: bool = False
    verdict: Verdict | None = None

    @property
    def all(self) -> list[ContainerState]:
        """Init containers and containers."""
        return self.inits + self.mains


def phase(pod: PodState, policy: str) -> str:
    """The pod's phase, given its restart policy.

    It is final only when no process is left: a Job would otherwise count the pod, or replace it,
    too early.
    """
    over = not any(isinstance(c.state, Running) for c in pod.all)
    stopped = [c for c in pod.mains if isinstance(c.state, Terminated)]
    complete = over and len(stopped) == len(pod.mains)
    if pod.verdict is not None:
        return "Failed" if over else "Running"
    if pod.ending and complete:
        return _outcome(pod)
    if not all(c.is_passed or stopped for c in pod.inits):
        ended = [c for c in pod.inits if isinstance(c.state, Terminated) and not c.is_sidecar]
        broken = not all(c.succeeded for c in ended)
        return "Failed" if broken and over and policy == "Never" else "Pending"
    if any(isinstance(c.state, Waiting) and c.last is None for c in pod.mains):
        return "Pending"
    final = policy == "Never" or (policy == "OnFailure" and _outcome(pod) == "Succeeded")
    return _outcome(pod) if final and complete else "Running"


def _outcome(pod: PodState) -> str:
    return "Succeeded" if all(c.succeeded for c in pod.mains) else "Failed"


def build(pod: Mapping[str, Any], state: PodState, now: datetime) -> Object:
    """The whole status that this node answers for.

    Args:
        pod: the pod as it was last read; a condition keeps its time of change.
        state: what the node knows.
        now: the time of a change.
    """
    spec = pod["spec"]
    current = phase(state, spec.get("restartPolicy", "Always"))
    status: Object = {
        "phase": current,
        "observedGeneration": pod["metadata"].get("generation"),
        "startTime": timestamp(state.started_at),
        "containerStatuses": [_container(c) for c in state.mains],
        "conditions": [_ready(pod, state, current, timestamp(now))],
    }
    if state.inits:
        status["initContainerStatuses"] = [_container(c, init=True) for c in state.inits]
    if state.verdict is not None:
        status["reason"] = state.verdict.reason
        status["message"] = state.verdict.message
    return {key: value for key, value in status.items() if value is not None}


def _container(container: ContainerState, *, init: bool = False) -> Object:
    state = container.state
    ready = container.is_passed if init else container.ready
    return {
        "name": container.name,
        "image": container.spec.get("image", ""),
        "imageID": image_id(container.spec.get("image", "")),
        "containerID": getattr(state, "container_id", ""),
        "ready": ready,
        "started": isinstance(state, Running),
        "restartCount": container.restarts,
        "state": _state(state),
        "lastState": _state(container.last) if container.last else {},
    }


def image_id(image: str) -> str:
    """The image by digest, as a kubelet reports one that it pulled: here derived from its name."""
    if not image or "@" in image:
        return image
    head, slash, last = image.rpartition("/")
    digest = hashlib.sha256(image.encode()).hexdigest()
    return f"{head}{slash}{last.partition(':')[0]}@sha256:{digest}"


def _state(state: Waiting | Running | Terminated) -> Object:
    match state:
        case Waiting():
            return {"waiting": _filled(reason=state.reason, message=state.message)}
        case Running():
            return {"running": {"startedAt": timestamp(state.started_at)}}
        case Terminated():
            return {
                "terminated": {"exitCode": state.exit_code}
                | _filled(
                    reason=state.reason,
                    message=state.message,
                    startedAt=timestamp(state.started_at),
                    finishedAt=timestamp(state.finished_at),
                    containerID=state.container_id,
                )
            }


def _ready(pod: Mapping[str, Any], state: PodState, current: str, now: str | None) -> Object:
    """The condition that controllers count by."""
    done = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(current)
    unready = [c.name for c in state.mains if not c.ready]
    ready = done is None and not unready and all(c.is_passed for c in state.inits)
    words: Object = {"type": "Ready", "status": "True", "reason": None, "message": None}
    if not ready:
        words |= {"status": "False", "reason": done or "ContainersNotReady"}
        if done is None:
            words["message"] = f"containers with unready status: [{' '.join(unready)}]"
    known = pod.get("status", {}).get("conditions") or []
    before: Object = next((c for c in known if c["type"] == "Ready"), {})
    since = before["lastTransitionTime"] if before.get("status") == words["status"] else now
    # A strategic merge keeps what isn't named: an old reason is taken off by null.
    return {**words, "lastTransitionTime": since}


def now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def timestamp(moment: datetime | None) -> str | None:
    """A moment in the API's form, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def _filled(**values: str | None) -> Object:
    return {key: value for key, value in values.items() if value}


VERDICT = Verdict(
    "NodeRestarted", "the process node was started anew, and ended what it found of this pod"
)


def lose(state: PodState) -> None:
    """Fail a pod that began in an earlier run of the node, whatever its restart policy.

    The processes are gone by then: a node that stops ends them, and one that starts ends those that
    a killed node has left. Nothing may run twice, and who wants the pod makes a new one.
    """
    for container in state.all:
        container.state = Terminated(137, VERDICT.reason, VERDICT.message)
    state.verdict, state.ending = VERDICT, True
