"""Makes all cases from nothing: keys, registries, signatures, forgeries, verdicts."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from localcluster.build import Programs
from localcluster.pins import module_of
from signatures import (
    attestations,
    cosign,
    cosign_by_hand,
    forged_cosign,
    keyless,
    notation,
    notation_by_hand,
)
from signatures.material import Workshop
from signatures.record import record
from signatures.registries import registries
from signatures.tools import Tools

PROGRAMS = ("cosign2", "cosign3", "notation", "keyless", "registry", "referrers")


def make(directory: Path) -> dict[str, Any]:
    """Make the material and write it to a directory that isn't there yet.

    Returns:
        What ``cases.json`` holds.

    Raises:
        LocalClusterError: a program can't be built or doesn't start.
        ToolFailedError: a tool can't do any more what the material is made from.
    """
    programs = Programs.default().find(PROGRAMS)
    with tempfile.TemporaryDirectory(prefix="signatures-") as name:
        work, data = Path(name) / "work", Path(name) / "registries"
        work.mkdir()
        data.mkdir()
        with registries(data, programs) as hosts:
            shop = Workshop(Tools(programs, work), hosts)
            attestations.make(shop)
            holders = notation.make_keys(shop)
            expired = notation.make(shop, holders)
            notation_by_hand.make(shop, holders)
            keys = cosign.make_keys(shop)
            cosign.make(shop)
            forged_cosign.make(shop)
            cosign_by_hand.make(shop, keys, holders)
            keyless.make(shop)
            while datetime.now(UTC) < expired:
                time.sleep(0.5)
            versions = {program: module_of(program).version for program in PROGRAMS}
            return record(shop, versions, datetime.now(UTC).replace(microsecond=0), directory)
