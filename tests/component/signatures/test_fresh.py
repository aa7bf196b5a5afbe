"""The table again with keys, certificates and signatures made on the spot."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from tests.long import LONG
from tests.recorded_signatures import Recording
from tests.signature_table import STRICTER, verdict

from signatures.make import make


@pytest.mark.skipif(not LONG, reason="make test-long: it builds cosign and notation")
@pytest.mark.timeout(3600)
def test_fresh_signatures_have_the_verdicts_of_the_recorded_ones() -> None:
    recorded = {row.name: row.holds for row in Recording.load().rows()}
    with tempfile.TemporaryDirectory(prefix="signatures-") as name:
        make(Path(name) / "fresh")
        fresh = Recording.load(Path(name) / "fresh")
        ours = {row.name: verdict(fresh, row)[0] for row in fresh.rows()}

    assert {row.name: row.holds for row in fresh.rows()} == recorded
    assert ours == {name: holds and name not in STRICTER for name, holds in recorded.items()}
