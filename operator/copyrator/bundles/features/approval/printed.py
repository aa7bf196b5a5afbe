"""What a script printed last in the log of its Job's pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copyrator.bundles.engine.job_client import PodReader
from copyrator.bundles.features.approval.operations import (
    MAX_TEXT,
    BlockFault,
    Plan,
    block_lines,
    read_block,
)
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.features.approval.stored import read_stored

_LINE_BYTES: Final = 512
"""Bytes of a log's last line that are read."""


async def read_printed_stored(
    output: PodReader, pods: list[dict[str, Any]], nonce: str
) -> StoredReason:
    """What the last line of a deploy's log says of what was stored for the release."""
    last = await output.log(pods, tail_lines=1, limit_bytes=_LINE_BYTES)
    return read_stored(last, nonce)


async def read_printed_plan(
    output: PodReader, pod: Mapping[str, Any], nonce: str
) -> Plan | BlockFault:
    """The plan in the log of a plan Job's pod, whose last line has how many lines to read.

    Raises:
        ApiError: it can't be read.
    """
    last = await output.read_log(pod, tail_lines=1, limit_bytes=_LINE_BYTES)
    lines = block_lines(last, nonce)
    if isinstance(lines, BlockFault):
        return lines
    log_end = await output.read_log(pod, tail_lines=lines, limit_bytes=MAX_TEXT)
    return read_block(log_end, nonce)
