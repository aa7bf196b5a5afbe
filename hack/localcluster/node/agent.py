"""The node as a whole: takes the pods that are bound to it, and ends cleanly."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from . import logserver, processes, registration
from .host import Host
from .pod import Pod

log = logging.getLogger(__name__)
Object = dict[str, Any]


class Agent:
    """Runs the pods of one Node.

    Args:
        host: the node.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pods: dict[str, Pod] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._finished: set[str] = set()

    async def run(self, stop: asyncio.Event) -> None:
        """Register the Node and run its pods until `stop` is set; then end their processes."""
        host = self._host
        host.pods.mkdir(parents=True, exist_ok=True, mode=0o700)
        left = processes.kill(f"{host.name}:{host.pods}/")
        if left:
            log.warning("ended %d processes that an earlier run of this node left behind", left)
        async with logserver.serve(host.pods, host.api.connection.serving) as port:
            work = asyncio.create_task(self._follow_pods(port))
            stopped = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    work.result()
            finally:
                for task in (work, stopped):
                    task.cancel()
                await asyncio.gather(work, stopped, return_exceptions=True)
                await self._end()

    async def _follow_pods(self, log_port: int) -> None:
        await registration.register(self._host.api, self._host.name, log_port)
        log.info("node %s is ready", self._host.name)
        selector = {"fieldSelector": f"spec.nodeName={self._host.name}"}
        async for batch in self._host.api.follow("/api/v1/pods", selector):
            if batch and batch[0]["type"] == "LISTED":
                bodies = [event["object"] for event in batch[1:]]
                self._take_list(bodies)
                continue
            for event in batch:
                if event["type"] == "DELETED":
                    self._gone(event["object"]["metadata"]["uid"])
                else:
                    self._take(event["object"])

    def _take_list(self, bodies: list[Object]) -> None:
        present = {body["metadata"]["uid"] for body in bodies}
        for uid in [*self._pods, *self._finished]:
            if uid not in present:
                self._gone(uid)
        for body in bodies:
            self._take(body)

    def _take(self, body: Object) -> None:
        uid = body["metadata"]["uid"]
        if uid in self._finished:
            return
        if uid in self._pods:
            self._pods[uid].update(body)
            return
        pod = self._pods[uid] = Pod(self._host, body)
        log.info("pod %s: taken", pod.name)
        task = self._tasks[uid] = asyncio.create_task(pod.run())
        task.add_done_callback(lambda done: self._completed(uid, done))

    def _completed(self, uid: str, task: asyncio.Task[None]) -> None:
        pod = self._pods.pop(uid, None)
        self._tasks.pop(uid, None)
        # It may stand for a while yet, as long as others' finalizers are on it.
        self._finished.add(uid)
        if pod is None or task.cancelled():
            return
        if error := task.exception():
            log.error("pod %s: the node gave up on it", pod.name, exc_info=error)
        else:
            log.info("pod %s: removed", pod.name)

    def _gone(self, uid: str) -> None:
        self._finished.discard(uid)
        if uid in self._pods:
            self._pods[uid].removed()

    async def _end(self) -> None:
        """Cancel every pod's task, then end what runs; statuses are left as they are."""
        pods = list(self._pods.values())
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(pod.kill() for pod in pods), return_exceptions=True)
        processes.kill(f"{self._host.name}:{self._host.pods}/")
