"""Choosing from tag lists of any length without holding anybody up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from copyrator.bundles.policy.candidates import TagSelection
from copyrator.bundles.policy.versions import read_tag
from copyrator.workqueue.timeslice import TimeSlice

BATCH: Final = 100
"""Tags that are read and looked at before others may run: of the slowest filter some 10 ms."""


async def offer_all(tags: Sequence[str], selections: Collection[TagSelection]) -> None:
    """Let a page of tags pass all selections; each tag is read once, and a few are held."""
    pause = TimeSlice().pause
    for start in range(0, len(tags), BATCH):
        candidates = [read_tag(tag) for tag in tags[start : start + BATCH]]
        await pause()
        for selection in selections:
            for candidate in candidates:
                selection.consider(candidate)
            await pause()
