"""Carrying out the operations of a plan, stage by stage, as werf does.

What werf does side by side is done one after the other here: of a stage in which something is
refused, the operations before it are done and the others aren't.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from itertools import groupby

from . import manifests
from .client import Client, RefusedError, UnreachableError
from .errors import WerfError, doing, pause
from .manifests import Key
from .planning import Operation

_POLL = 0.1
_LONGEST_POLL = 1.0
_WEBHOOK = ("failed calling webhook", "conversion webhook for")
_WEBHOOK_TRIES = 120
_KIND_TRIES = 10
_TRACKERS = {
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "DaemonSet": "daemonset",
    "Job": "job",
    "Pod": "standalone pod",
}
OUTCOMES = ("completed", "canceled", "failed")


class Execution:
    """What was done of some plans.

    Args:
        client: the connection.
        version: werf's own.
        namespace: the release's.
        timeout: seconds that each wait may take; None for as long as it takes.

    Attributes:
        outcomes: the operations that were completed, canceled and failed.
        refusals: why the API server refused to create or change objects.
    """

    def __init__(self, client: Client, version: str, namespace: str, timeout: int | None) -> None:
        self._client = client
        self._version = version
        self._namespace = namespace
        self._timeout = timeout
        self.outcomes: dict[str, list[Operation]] = {name: [] for name in OUTCOMES}
        self.refusals: dict[Key, str] = {}
        self._broken: list[Operation] = []

    def run(self, operations: Sequence[Operation]) -> None:
        """Do all; an operation without a type is only waited for.

        Raises:
            WerfError: one failed, and the rest is canceled.
        """
        left = sorted(operations, key=lambda each: (each.place(), each.key))
        try:
            for _, stage in groupby(list(left), Operation.place):
                self._run_stage(list(stage), left)
        except WerfError as error:
            self.outcomes["canceled"] += [each for each in left if each.type]
            raise WerfError(f"wait for operations completion: execute operation: {error}") from None

    def run_after_failure(self) -> None:
        """Delete the hooks that failed and are to go then."""
        gone = [each for each in self._broken if each.goes_if_failed]
        for each in gone:
            self.delete(each)
        self.wait_until_gone(gone)

    def _run_stage(self, stage: list[Operation], left: list[Operation]) -> None:
        for each in stage:
            left.remove(each)
            if not each.type:
                continue
            try:
                self._do(each)
            except WerfError:
                self.outcomes["failed"].append(each)
                raise
            self.outcomes["completed"].append(each)
        self.wait_until_gone([each for each in stage if each.type == "delete"])
        self._wait_until_ready([each for each in stage if each.type != "delete"])
        passing = [each for each in stage if each.passing]
        for each in passing:
            self.delete(each)
        self.wait_until_gone(passing)

    def _do(self, operation: Operation) -> None:
        if operation.type == "delete":
            self.delete(operation)
            return
        if operation.type == "recreate":
            self.delete(operation)
            self.wait_until_gone([operation])
        verb = "create" if operation.type in ("create", "recreate") else "apply"
        with doing(f"{verb} resource"):
            self._find_kind(operation)
            try:
                self._apply(operation)
            except RefusedError as error:
                words = f"{self._retried()}{error}"
                self.refusals[operation.key] = words
                name = manifests.titled(operation.key)
                raise WerfError(f'server-side apply resource "{name}": {words}') from None
        if operation.key[0] == "CustomResourceDefinition":
            self._poll(lambda: self._is_ready(operation), lambda: operation.key[2])
            self._client.forget_kinds()

    def _apply(self, operation: Operation) -> None:
        for _ in range(_WEBHOOK_TRIES):
            try:
                self._client.apply(operation.body)
            except RefusedError as error:
                if self._version == "v2.67.0" or not any(word in str(error) for word in _WEBHOOK):
                    raise
                refusal = error
                pause(2)
            else:
                return
        raise refusal

    def _retried(self) -> str:
        """A layer that 2.67 hasn't."""
        if self._version == "v2.67.0":
            return ""
        return "retryable on webhook error: server-side apply: "

    def _find_kind(self, operation: Operation) -> None:
        """Make sure that the API server has the kind; that of a new definition comes later."""
        tries = 1 if self._version == "v2.67.0" else _KIND_TRIES
        for number in range(tries):
            if self._client.resource(operation.body):
                return
            if number + 1 < tries:
                pause(1)
            self._client.forget_kinds()
        version, kind = operation.body["apiVersion"], operation.body["kind"]
        match = f'no matches for kind "{kind}" in version "{version}"'
        asked = f'get resource mapping for "{version}, Kind={kind}": {match}'
        if tries > 1:
            again = f"retry mapper NoMatch timed out after {_KIND_TRIES}s"
            asked = f"{again}: get GVK to GVR mapping: {asked}"
        raise WerfError(f"convert GVK to GVR: {asked}")

    def replace(self, operation: Operation, manager: str) -> None:
        """Make a hook as helm does: with no apply, after the one before is deleted."""
        if self._client.get(operation.body):
            self.delete(operation)
            self.wait_until_gone([operation])
        self._client.create(operation.body, manager=manager)
        self._wait_until_ready([operation])

    def delete(self, operation: Operation) -> None:
        """Delete an object."""
        # werf 3 lets the garbage collector take its time.
        propagation = "Background" if self._version.startswith("v3") else "Foreground"
        name = manifests.titled(operation.key)
        with doing(f'delete resource: delete resource "{name}"'):
            self._client.delete(operation.body, propagation)

    def wait_until_gone(self, operations: Iterable[Operation]) -> None:
        """Wait until the objects are deleted."""
        left = list(operations)

        def gone() -> bool:
            left[:] = [each for each in left if self._client.get(each.body)]
            return not left

        def late() -> str:
            polled = f'poll resource "{self._tracked(left[0].key)}"'
            return f"track resource absence: {polled}: timed out waiting for the condition"

        if left:
            self._poll(gone, late)

    def _wait_until_ready(self, operations: Iterable[Operation]) -> None:
        """Wait for what isn't ready as soon as it is there."""
        left = [each for each in operations if each.key[0] in _TRACKERS]

        def ready() -> bool:
            left[:] = [each for each in left if not self._is_ready(each)]
            return not left

        def late() -> str:
            tracked = f'track resource "{self._tracked(left[0].key)}"'
            return f"{_tracking(left[0])}: {tracked}: context deadline exceeded"

        if left:
            self._poll(ready, late)

    def _is_ready(self, operation: Operation) -> bool:
        live = self._client.get(operation.body)
        done = manifests.finished(live, hook=operation.is_hook) if live else False
        if done is None:
            self._broken.append(operation)
            tracked = f'waiting for resource "{self._tracked(operation.key)}"'
            raise WerfError(f"{_tracking(operation)}: {tracked} readiness failed")
        return done

    def _tracked(self, key: Key) -> str:
        kind, namespace, name = key
        return f"{namespace or self._namespace}/{kind}/{name}"

    def _poll(self, look: Callable[[], bool], late: Callable[[], str]) -> None:
        """Look until it is so; an API server that is away is waited for, too."""
        ends = time.monotonic() + (self._timeout or float("inf"))
        wait = _POLL
        while True:
            try:
                if look():
                    return
            except RefusedError as error:
                if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
            except UnreachableError:
                pass
            if time.monotonic() > ends:
                raise WerfError(late())
            time.sleep(wait)
            wait = min(wait * 1.5, _LONGEST_POLL)


def _tracking(operation: Operation) -> str:
    return f"track resource readiness: track {_TRACKERS[operation.key[0]]}"
