"""The table: signatures and attestations by the real tools, and forgeries, under policies.

Each row has the verdict of the real `cosign verify`, `cosign verify-attestation` or
`notation verify` beside ours. They are
equal, or ours is stricter and STRICTER says why.
"""

from __future__ import annotations

import hashlib

import pytest
from tests.recorded_signatures import Recording, Row
from tests.signature_table import STRICTER, verdict

RECORDING = Recording.load()
ROWS = list(RECORDING.rows())


@pytest.mark.parametrize("row", ROWS, ids=[" / ".join(row.name) for row in ROWS])
def test_our_verdict_is_the_real_tools_or_stricter(row: Row) -> None:
    holds, reason = verdict(RECORDING, row)

    if row.name in STRICTER:
        assert row.holds, "the real tool refuses it too: take the row out of STRICTER"
        assert not holds, "we accept it now: take the row out of STRICTER"
        assert STRICTER[row.name] in reason
    else:
        assert holds == row.holds, reason or "we accept it"


def test_what_the_operator_attests_is_accepted_by_cosign_without_further_options() -> None:
    rows = {
        row.name[0]: row
        for row in ROWS
        if row.policy.startswith("attested by") and row.policy != "attested by other"
    }

    for name in ("p256", "p384", "ed25519", "fallback-tag", "withdrawn"):
        assert rows[f"attested-{name}"].verdicts["cosign3"]["holds"], name


def test_every_exception_is_a_row() -> None:
    assert set(STRICTER) <= {row.name for row in ROWS}


def test_what_is_recorded_is_what_the_index_names_and_nothing_private() -> None:
    blobs = {path.name: path.read_bytes() for path in (RECORDING.directory / "blobs").iterdir()}
    cases = RECORDING.index["cases"]
    named = {digest for case in cases for digest in (*case["manifests"], *case["blobs"])}

    assert {f"sha256:{name}" for name in blobs} == named
    assert [name for name, blob in blobs.items() if hashlib.sha256(blob).hexdigest() != name] == []
    index = (RECORDING.directory / "cases.json").read_bytes()
    assert [text for text in (index, *blobs.values()) if b"PRIVATE KEY" in text] == []
    assert b"/tmp" not in index
    assert sum(map(len, (index, *blobs.values()))) < 1_000_000
