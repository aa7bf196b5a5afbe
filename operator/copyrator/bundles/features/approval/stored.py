"""Whether what was stored for a release is what was approved, as a deploy's Job found it. Pure.

After its apply the Job's script reads what werf has stored, and prints as its last line::

    copyrator-stored NONCE APPROVED STORED

APPROVED is the salted hash of that part of the approved render that werf stores, STORED that of
what it has stored, or one of ``StoredWord``. Like a plan's block it is only read where its nonce is
the Job's (``operations.py``): what a chart or its hooks print comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER

STORED: Final = "copyrator-stored"


class StoredWord(StrEnum):
    """What a script prints in place of a hash."""

    NONE = "none"
    """There is nothing to compare with: the plan has no hash of its render."""
    EXACT = "exact"
    """werf applied the plan that was approved, so nothing has to be compared."""
    LARGE = "large"
    """It doesn't fit in where the render did."""
    SKIPPED = "skipped"
    """Nothing was to change, so nothing was stored, and the former revision isn't equal."""
    NOT_ASKED = "not-asked"
    """This version of werf can't be asked."""
    UNREADABLE = "unreadable"


_REASONS: Final[Mapping[str, StoredReason]] = {
    StoredWord.NONE: StoredReason.RENDERS_DIFFER,
    StoredWord.EXACT: StoredReason.EXACT,
    StoredWord.LARGE: StoredReason.DEPLOYED_DIFFERENTLY,
    StoredWord.SKIPPED: StoredReason.NOTHING_STORED,
    StoredWord.NOT_ASKED: StoredReason.NOT_SUPPORTED,
    StoredWord.UNREADABLE: StoredReason.UNREADABLE,
}
_HASH: Final = "[0-9a-f]{64}"
_LINE: Final = re.compile(
    rf"{STORED} ([0-9a-f]{{32}}) ({_HASH}|none) ({_HASH}|{'|'.join(StoredWord)})"
)


def compares_stored(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the script of the newest pod compares what was stored."""
    spec = (pods[-1].get("spec") or {}) if pods else {}
    return any(
        container.get("name") == DEPLOY_CONTAINER
        and any(STORED in part for part in container.get("command") or ())
        for container in spec.get("containers") or ()
    )


def read_stored(last_line: str, nonce: str) -> StoredReason:
    """What the last line of a log says; UNREADABLE where it isn't the result.

    Args:
        last_line: of the log of a deploy's container, which has ended.
        nonce: the Job's.
    """
    found = _LINE.fullmatch(last_line.removesuffix("\n"))
    if found is None or found[1] != nonce:
        return StoredReason.UNREADABLE
    approved, stored = found[2], found[3]
    if (reason := _REASONS.get(stored)) is not None:
        return reason
    return StoredReason.AS_APPROVED if stored == approved else StoredReason.DEPLOYED_DIFFERENTLY
