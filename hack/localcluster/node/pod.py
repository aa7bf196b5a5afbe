"""One pod's life on the node, from the moment it is bound until it is gone."""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
from collections.abc import Awaitable, Callable
from typing import Any

from . import container, launch, processes, status
from .api import STRATEGIC, ApiError
from .container import Container
from .host import Host
from .mounts import CannotCreate
from .sources import MissingReference
from .status import ContainerState, PodState, Terminated, Verdict, Waiting

log = logging.getLogger(__name__)
Object = dict[str, Any]

_RETRY = 1.0
"""Seconds between looks for a missing ConfigMap or Secret, and requests that fail."""
_LOOK = 0.05
"""Seconds between looks whether a sidecar has started."""
_BACKOFF = 10.0
"""Seconds before a container is started for the third time and on; a kubelet doubles them."""


class Pod:
    """A pod in work; `run` lives as long as the pod does.

    Args:
        host: the node.
        body: the pod as it was read when it was first seen.
    """

    def __init__(self, host: Host, body: Object) -> None:
        self.body = body
        self._host = host
        self._dir = host.pod_dir(body)
        self._policy: str = body["spec"].get("restartPolicy", "Always")
        self._status: Object = body.get("status") or {}
        spec = body["spec"]
        waiting = status.INITIALIZING if spec.get("initContainers") else status.CREATING
        self.state = PodState(
            [ContainerState(c, Waiting(waiting)) for c in spec.get("initContainers") or []],
            [ContainerState(c, Waiting(waiting)) for c in spec["containers"]],
            status.now(),
        )
        self._changed = asyncio.Event()
        share = container.POD_MESSAGE_BYTES // len(self.state.all)
        self._containers = {
            c.name: Container(c, self._dir, share, self._changed.set) for c in self.state.all
        }
        self._written: Object = {}
        self._deleted = asyncio.Event()
        self._grace = float(spec.get("terminationGracePeriodSeconds", 30))
        metadata = body["metadata"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"

    @property
    def name(self) -> str:
        """``namespace/name``, for messages."""
        return f"{self.body['metadata']['namespace']}/{self.body['metadata']['name']}"

    def update(self, body: Object) -> None:
        """Take note of a newer state of the pod."""
        self.body = body
        metadata = body["metadata"]
        if metadata.get("deletionTimestamp"):
            self._grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
            self._deleted.set()

    def removed(self) -> None:
        """Take note that the pod was deleted by force: nobody waits for it any more."""
        self._grace = 0.0
        self._deleted.set()

    async def run(self) -> None:
        """Run the pod, report its end, remove it once it is deleted."""
        self._dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.update(self.body)
        if self._status.get("phase") not in ("Succeeded", "Failed"):
            reporter = asyncio.create_task(self._report_changes())
            try:
                await self._live_and_end()
            finally:
                reporter.cancel()
                await asyncio.gather(reporter, return_exceptions=True)
            await self._persist(self._report)
        # What its containers saw, Secrets among it; their output stays.
        for part in ("root", "volumes", "termination", "kubeconfig"):
            shutil.rmtree(self._dir / part, ignore_errors=True)
        await self._deleted.wait()
        await self._persist(self._remove)

    async def kill(self) -> None:
        """End all processes at short notice, for a node that stops; says nothing to anybody."""
        self._grace = min(self._grace, 2.0)
        await self._stop_containers()

    # Life

    async def _live_and_end(self) -> None:
        if any(self._dir.glob("*.log")):
            status.lose(self.state)
            return
        life = asyncio.create_task(self._live())
        deleted = asyncio.create_task(self._deleted.wait())
        try:
            await asyncio.wait({life, deleted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = life.done()
            for task in (life, deleted):
                task.cancel()
            outcomes = await asyncio.gather(life, deleted, return_exceptions=True)
        if isinstance(outcomes[0], Exception):
            log.error("pod %s: the node failed", self.name, exc_info=outcomes[0])
            self.state.verdict = Verdict("NodeError", f"process node: {outcomes[0]!r}")
        await self._stop_containers()
        self.state.ending = True
        if not finished:
            self._give_up_unstarted()

    async def _live(self) -> None:
        """Volumes, init containers one by one, then all containers side by side.

        Native sidecars run until the containers have ended.
        """
        while not await self._make_volumes():  # noqa: ASYNC110 - what is awaited is the server's
            await asyncio.sleep(_RETRY)
        once = "Never" if self._policy == "Never" else "OnFailure"
        sidecars: list[asyncio.Task[None]] = []
        try:
            for state in self.state.inits:
                if state.is_sidecar:
                    sidecars.append(asyncio.create_task(self._keep(state, "Always")))
                    while not state.ready:  # noqa: ASYNC110 - a process starts in no time
                        await asyncio.sleep(_LOOK)
                    continue
                await self._keep(state, once)
                if not state.succeeded:
                    return
            await asyncio.gather(*(self._keep(c, self._policy) for c in self.state.mains))
        finally:
            for task in sidecars:
                task.cancel()
            await asyncio.gather(*sidecars, return_exceptions=True)

    async def _keep(self, state: ContainerState, policy: str) -> None:
        """Run a container, again and again as far as the restart policy says so."""
        for again in itertools.count():
            ready = await self._prepared(state)
            ended = await self._containers[state.name].run(ready)
            if policy == "Never" or (policy == "OnFailure" and ended.exit_code == 0):
                return
            if again:
                state.last = ended
                words = f"back-off {_BACKOFF:.0f}s restarting failed container={state.name}"
                self._wait(state, Waiting("CrashLoopBackOff", f"{words} pod={self.name}"))
                await asyncio.sleep(_BACKOFF)

    async def _prepared(self, state: ContainerState) -> launch.Launch:
        """Wait until a container can be started; its state says meanwhile what is missing."""
        if (image := str(state.spec.get("image"))).startswith("missing.invalid/"):
            words = f"Back-off pulling {image}: lookup missing.invalid: no such host"
            self._wait(state, Waiting("ImagePullBackOff", words))
            await asyncio.Event().wait()
        while True:
            try:
                return await launch.prepare(self._host, self.body, state.spec)
            except MissingReference as missing:
                self._wait(state, Waiting("CreateContainerConfigError", str(missing)))
            except CannotCreate as error:
                self._wait(state, Waiting("CreateContainerError", str(error)))
            except ApiError as error:
                log.warning("pod %s: %s", self.name, error)
            await asyncio.sleep(_RETRY)

    async def _make_volumes(self) -> bool:
        try:
            await launch.write_volumes(self._host, self.body)
        except (MissingReference, ApiError) as error:
            log.warning("pod %s: volumes: %s", self.name, error)
            first = self.state.all[0]
            if isinstance(first.state, Waiting):
                self._wait(first, Waiting(first.state.reason, str(error)))
        else:
            return True
        return False

    # Ends

    def _give_up_unstarted(self) -> None:
        """Close the books on containers that a deletion kept from starting."""
        words = "The container could not be located when the pod was terminated"
        for state in self.state.all:
            if isinstance(state.state, Waiting):
                state.state = state.last or Terminated(137, "ContainerStatusUnknown", words)

    async def _stop_containers(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.gather(
            *(c.stop(lambda: began + self._grace) for c in self._containers.values())
        )
        prefix = processes.mark(self._host.name, self._dir, "")
        processes.kill(prefix)

    async def _remove(self) -> None:
        uid = self.body["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._host.api.request("DELETE", self._path, options)

    # Status

    def _wait(self, state: ContainerState, waiting: Waiting) -> None:
        if state.state != waiting:
            state.state = waiting
            self._changed.set()

    async def _report_changes(self) -> None:
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._persist(self._report)

    async def _report(self) -> None:
        """Write the status if it isn't what was written last."""
        known = {**self.body, "status": self._status}
        wanted = status.build(known, self.state, status.now())
        if wanted == self._written:
            return
        uid = self.body["metadata"]["uid"]
        # The uid makes the server refuse a status meant for a predecessor of that name.
        patch = {"metadata": {"uid": uid}, "status": wanted}
        answer = await self._host.api.request(
            "PATCH", f"{self._path}/status", patch, content_type=STRATEGIC
        )
        self._status = answer.get("status") or {}
        self._written = wanted

    async def _persist(self, step: Callable[[], Awaitable[None]]) -> None:
        """Do a request until it is answered; a pod that is gone is an answer."""
        while True:
            try:
                return await step()
            except ApiError as error:
                if error.gone:
                    return None
                log.warning("pod %s: %s; trying again", self.name, error)
            await asyncio.sleep(_RETRY)
