"""How the tests of `make test` are spread over workers of pytest-xdist.

To collect all tests takes a worker five times as long as to collect those of tests/e2e, and every
worker collects for itself. So with `--parts=6,7,1` the first six workers, which have a control
plane each, collect and run tests/e2e, the next seven tests/component, and the last one tests/unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

FOLDERS = ("e2e", "component", "unit")
"""Below tests, in the order of the workers."""


def part_of(worker: str, parts: Sequence[int]) -> int:
    """The index in FOLDERS for a worker, such as gw3."""
    number = int(worker.removeprefix("gw"))
    firsts = [sum(parts[:part]) for part in range(len(parts))]
    return max(part for part, first in enumerate(firsts) if number >= first)


class Parts:
    """xdist's scheduler of files, once for each of the kinds of workers."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        self._session: pytest.Session = config.pluginmanager.getplugin("session")
        self._sizes: tuple[int, ...] = config.getoption("parts")
        self._parts = [LoadFileScheduling(config, log) for _ in self._sizes]
        for part, size in zip(self._parts, self._sizes, strict=True):
            part.numnodes = size

    def _of(self, node: WorkerController) -> LoadFileScheduling:
        return self._parts[part_of(node.gateway.id, self._sizes)]

    @property
    def nodes(self) -> list[WorkerController]:
        """The workers that have not ended."""
        return [node for part in self._parts for node in part.nodes]

    @property
    def collection_is_completed(self) -> bool:
        """Whether all workers have said what they collected."""
        return all(part.collection_is_completed for part in self._parts)

    @property
    def tests_finished(self) -> bool:
        """Whether no test is left to be given to a worker."""
        return all(part.tests_finished for part in self._parts)

    @property
    def has_pending(self) -> bool:
        """Whether a test hasn't ended."""
        return any(part.has_pending for part in self._parts)

    def add_node(self, node: WorkerController) -> None:
        """A worker has started."""
        self._of(node).add_node(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker has ended; the test that it died of, if it did."""
        return self._of(node).remove_node(node)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """A worker has collected; those of its kind begin when all of them have."""
        part = self._of(node)
        part.add_node_collection(node, collection)
        if part.collection_is_completed:
            part.schedule()
        self._session.testscollected = sum(len(part.collection or ()) for part in self._parts)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """A test has ended."""
        self._of(node).mark_test_complete(node, item_index, duration)

    def mark_test_pending(self, item: str) -> None:
        """Never called: tests are not run again."""
        raise NotImplementedError(item)

    def remove_pending_tests_from_node(
        self, node: WorkerController, indices: Sequence[int]
    ) -> None:
        """Never called: no worker takes tests from another one."""
        raise NotImplementedError(node, indices)

    def schedule(self) -> None:
        """Each kind has begun when it could."""
