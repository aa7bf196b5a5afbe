"""Each feature can be taken out: everything else passes its tests without its name in the list."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.long import LONG
from tests.without import WITHOUT

from copyrator.bundles.features import FEATURES

ROOT = Path(__file__).resolve().parents[3]
TODAY = datetime.now(UTC).toordinal()
SOME = [FEATURES[(TODAY + more) % len(FEATURES)] for more in range(2)]
"""Others each day."""
FEW = (
    "tests/unit/bundles/test_gates.py",
    "tests/unit/bundles/test_remembered.py",
    "tests/component/bundles/test_deploys.py",
)


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("name", FEATURES if LONG else SOME)
def test_everything_else_works_without_a_feature(tmp_path: Path, name: str) -> None:
    files = ("tests/unit/bundles", "tests/component/bundles") if LONG else FEW
    # This file would run itself for ever.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.without",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    command += ["--basetemp", str(tmp_path / "pytest"), f"--ignore={__file__}", *files]
    environment = os.environ | {WITHOUT: name}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
