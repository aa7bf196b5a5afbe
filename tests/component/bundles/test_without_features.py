"""Each feature can be taken out: everything else passes its tests without its name in the list.

Two each day, and some of the tests; `make test-long` takes out each, and runs all tests of Bundles.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.without import TAKEN_OUT, WITHOUT, with_dependents

from copyrator.bundles.features import FEATURES

ROOT = Path(__file__).resolve().parents[3]
TODAY = datetime.now(UTC).date()
SOME = [FEATURES[(TODAY.toordinal() * 2 + more) % len(FEATURES)] for more in range(2)]
FEW = (
    "tests/unit/bundles/features",
    "tests/unit/bundles/test_gates.py",
    "tests/unit/bundles/test_remembered.py",
    "tests/component/bundles/test_deploys.py",
    "tests/component/bundles/test_toy_feature.py",
)
COMMAND = ("-m", "pytest", "-p", "tests.without", "-p", "no:cacheprovider", "-q", *FEW)


@pytest.mark.skipif(bool(TAKEN_OUT), reason="some are taken out already")
def test_everything_else_works_without_some_features(tmp_path: Path) -> None:
    name = ",".join(SOME)
    done = subprocess.run(
        [sys.executable, *COMMAND, "--basetemp", str(tmp_path / "pytest")],
        cwd=ROOT,
        env=os.environ | {WITHOUT: name},
        capture_output=True,
        text=True,
        check=False,
    )
    again = f"on {TODAY}, to repeat: {WITHOUT}={name} hack/run python {' '.join(COMMAND)}"
    assert done.returncode == 0, f"{done.stdout[-5000:]}{done.stderr[-1000:]}\n{again}"


def test_who_needs_a_feature_goes_with_it() -> None:
    assert with_dependents({"promotion", "age"}) == {"promotion", "age", "attest"}
