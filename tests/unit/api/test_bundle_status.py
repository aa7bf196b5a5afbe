"""A Bundle's status survives a round trip, junk, and fields of other versions."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.status_fields import json_fields

from copyrator.api.bundle_status import BundleStatus, Deployed, HistoryEntry
from copyrator.api.schema import Packed
from copyrator.bundles.fields import parse_status

FULL: dict[str, Any] = {
    "ready": 1,
    "target": {"digest": "sha256:aa", "version": "1.1.0"},
    "deploy": {"digest": "sha256:bb", "version": "1.0.0"},
    "conditions": [{"type": "Ready", "status": "True"}],
    "observedGeneration": 3,
    "available": {
        "version": "1.1.0",
        "digest": "sha256:aa",
        "rejected": [{"version": "2.0.0", "reason": "out of range"}],
    },
    "deployed": {"version": "1.0.0", "digest": "sha256:bb", "revision": 2, "verified": False},
    "attempted": {"version": "1.1.0", "failures": 0, "valuesHash": "h", "nextRetryAt": "later"},
    "history": [{"version": "1.0.0", "outcome": "Succeeded"}],
    "nextPollAt": "2026-01-01T00:00:00Z",
    "lastError": {"reason": "DeployFailed", "message": "m", "logTail": "l"},
    "lastHandledRequest": "r",
    "lastHandledForce": "f",
    "lastFailedRequest": "q",
    "lastFailedForce": "o",
}


def test_a_full_status_survives_the_round_trip() -> None:
    assert parse_status({"status": FULL}).to_dict() == FULL


def test_the_originals_status_is_read() -> None:
    status = parse_status(
        {
            "status": {
                "ready": 1,
                "forceUpdate": 1,
                "target": {"digest": "d", "version": "v"},
                "deploy": {"digest": "d", "version": "v"},
            }
        }
    )
    assert status.forced
    assert status.deploy.version == "v"
    assert status.deployed == Deployed()


def test_force_update_is_read_but_never_written() -> None:
    assert "forceUpdate" not in parse_status({"status": {"forceUpdate": 1}}).to_dict()


def test_history_is_bounded() -> None:
    status = BundleStatus(history=Packed.pack(HistoryEntry(version=str(i)) for i in range(30)))
    assert [entry["version"] for entry in status.to_dict()["history"]] == list("0123456789")


def test_no_status_is_an_empty_one() -> None:
    body: Any
    for body in (None, {}, {"status": None}, {"status": []}):
        assert parse_status(body) == BundleStatus()
    assert BundleStatus().to_dict() == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(json_fields(BundleStatus))), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_read_and_what_is_written_is_read_alike(raw: Any) -> None:
    written = parse_status({"status": raw}).to_dict()
    assert parse_status({"status": written}).to_dict() == written
