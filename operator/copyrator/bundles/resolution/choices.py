"""Selects from tag lists of any length without blocking the event loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from copyrator.bundles.policy.candidates import TagSelection
from copyrator.bundles.policy.versions import read_tag
from copyrator.workqueue.timeslice import TimeSlice

BATCH: Final = 100
"""Tags that are processed before other tasks may run: about 10 ms with the slowest filter."""


async def add_all(tags: Sequence[str], selections: Collection[TagSelection]) -> None:
    """Add a page of tags to all selections; each tag is parsed once; a batch is in memory."""
    pause = TimeSlice().pause
    for start in range(0, len(tags), BATCH):
        candidates = [read_tag(tag) for tag in tags[start : start + BATCH]]
        await pause()
        for selection in selections:
            for candidate in candidates:
                selection.consider(candidate)
            await pause()
