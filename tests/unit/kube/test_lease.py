"""What follows from what a replica has seen of the Lease; seconds are the onlooker's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from copyrator.api import names
from copyrator.api.seen_time import Gap, SeenTime
from copyrator.kube.leader import DEFAULT_TERMS, Lease, default_identity

NOW = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)
STAMP = "2026-11-21T12:00:00.250000Z"
SEEN = {names.ANN_SEEN_TIME: "2026-11-21T12:00:01Z"}
"""The record begins with the first renewal."""


def lease() -> Lease:
    return Lease("ops", "copyrator", "me", DEFAULT_TERMS)


def body(holder: str | None, renewed: str = "t1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ops", "name": "copyrator", "resourceVersion": renewed},
        "spec": {"holderIdentity": holder, "renewTime": renewed, **spec},
    }


@pytest.mark.parametrize(
    ("looks", "free_in_at_100"),
    [
        ([], 0),
        ([(100, None)], 0),
        ([(100, body(""))], 0),
        ([(100, body(None))], 0),
        ([(100, body("me"))], 0),
        ([(100, body("other"))], 10),
        ([(100, body("other", leaseDurationSeconds=15))], 15),
        ([(100, body("other", leaseDurationSeconds=None))], 10),
        ([(97, body("other"))], 7),
        ([(97, body("other")), (99, body("other"))], 7),
        ([(97, body("other")), (99, body("other", "t2"))], 9),
        ([(90, body("other"))], 0),
        ([(50, body("other"))], 0),
        ([(97, body("other")), (99, None)], 7),
        ([(97, body("other")), (99, body(""))], 0),
        ([(97, body("")), (99, body("other", "t2"))], 9),
    ],
    ids=[
        "never looked",
        "there is none",
        "given back",
        "never held",
        "ours: a container that starts again",
        "just renewed",
        "its holder's own duration counts",
        "a holder that named no duration",
        "renewed a while ago",
        "looked again, and nothing had changed",
        "looked again, and it had been renewed",
        "not renewed for its duration",
        "not renewed for ages",
        "vanished: its holder may still lead",
        "given back meanwhile",
        "taken by another meanwhile",
    ],
)
def test_when_it_may_be_taken(
    looks: list[tuple[float, dict[str, Any] | None]], free_in_at_100: float
) -> None:
    seen = lease()
    for at, found in looks:
        seen.seen(found, at)
    assert seen.free_in(100) == free_in_at_100


def test_a_label_that_somebody_adds_is_no_sign_of_its_holders_life() -> None:
    seen = lease()
    seen.seen(body("other"), 90)
    labelled = body("other")
    labelled["metadata"] |= {"labels": {"a": "b"}, "resourceVersion": "99"}
    seen.seen(labelled, 99)
    assert seen.free_in(100) == 0
    assert seen.claim(NOW)["metadata"]["resourceVersion"] == "99"


def test_its_holder_says_where_its_webhook_is_reached() -> None:
    seen = lease()
    theirs = body("other")
    theirs["metadata"]["annotations"] = {"theirs": "kept", names.ANN_WEBHOOK: "http://other"}
    seen.seen(theirs, 1)
    assert seen.holders_webhook == "http://other"
    seen.webhook = "http://me"
    claimed = seen.claim(NOW)["metadata"]["annotations"]
    assert claimed == {"theirs": "kept", names.ANN_WEBHOOK: "http://me", **SEEN}
    assert seen.surrender(NOW)["metadata"]["annotations"] == {"theirs": "kept"}
    seen.webhook = None
    assert seen.claim(NOW)["metadata"]["annotations"] == {"theirs": "kept", **SEEN}


def test_a_new_one_names_its_holder_and_terms() -> None:
    seen = lease()
    seen.seen(None, 1)
    assert seen.claim(NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "ops", "name": "copyrator", "annotations": SEEN},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 10,
            "acquireTime": STAMP,
            "renewTime": STAMP,
            "leaseTransitions": 1,
        },
    }


def test_a_take_over_keeps_what_others_wrote_and_is_tied_to_what_was_seen() -> None:
    seen = lease()
    found = body("other", "7", leaseTransitions=4, strategy="OldestEmulationVersion")
    found["metadata"] |= {"labels": {"theirs": "kept"}, "managedFields": [{}]}
    seen.seen(found, 1)
    claim = seen.claim(NOW)
    assert claim["metadata"] == {
        "namespace": "ops",
        "name": "copyrator",
        "resourceVersion": "7",
        "labels": {"theirs": "kept"},
        "annotations": SEEN,
    }
    assert claim["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 10,
        "acquireTime": STAMP,
        "renewTime": STAMP,
        "leaseTransitions": 5,
        "strategy": "OldestEmulationVersion",
    }


def test_a_renewal_changes_nothing_but_its_time() -> None:
    seen = lease()
    mine = body("me", "7", leaseTransitions=4, acquireTime="before", leaseDurationSeconds=10)
    seen.seen(mine, 1)
    assert seen.claim(NOW)["spec"] == mine["spec"] | {"renewTime": STAMP}


def test_a_holder_stops_before_others_may_begin() -> None:
    terms = DEFAULT_TERMS
    assert terms.deadline + terms.answer <= terms.duration
    assert terms.renew + 2 * terms.answer > terms.deadline > terms.renew + terms.answer, (
        "one renewal that hangs is no reason to stop, and none is waited for too long"
    )


def test_in_a_pod_the_identity_is_the_pods_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "copyrator-7d9c-x2x")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    default_identity.cache_clear()
    assert default_identity() == "copyrator-7d9c-x2x"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    default_identity.cache_clear()
    first = default_identity()
    assert first.startswith("copyrator-7d9c-x2x-")
    assert default_identity() == first
    default_identity.cache_clear()
    assert default_identity() != first


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def held(seen: Lease, seconds: float) -> Lease:
    """After a renewal that the API server has accepted."""
    seen.seen(seen.claim(at(seconds)), seconds)
    return seen


def test_the_time_in_which_a_leader_renewed_it_is_stored_with_it() -> None:
    seen = held(lease(), 0)
    assert seen.seen_time == SeenTime(at(0.75), (), at(0))
    for seconds in (2, 4, 6):
        held(seen, seconds)
    assert seen.seen_time == SeenTime(at(0.75), (), at(6))


def test_a_gap_without_a_leader_is_stored_by_the_next_one() -> None:
    former = held(held(lease(), 0), 2)
    other = Lease("ops", "copyrator", "other", DEFAULT_TERMS)
    other.seen(former.claim(at(4)), 4)
    held(other, 64)
    assert other.seen_time is not None
    assert other.seen_time.gaps == (Gap(at(3.75), at(64.75)),)
    assert held(other, 66).seen_time == SeenTime(at(0.75), other.seen_time.gaps, at(66))


def test_a_lease_that_is_given_back_in_time_leaves_no_gap() -> None:
    former = held(lease(), 0)
    other = Lease("ops", "copyrator", "other", DEFAULT_TERMS)
    other.seen(former.surrender(at(5)), 5)
    held(other, 12)
    assert other.seen_time is not None
    assert other.seen_time.gaps == ()


def test_without_a_record_nothing_before_counts() -> None:
    seen = lease()
    seen.seen(body("other", STAMP), 100)
    assert seen.seen_time is None
    assert held(seen, 200).seen_time == SeenTime(at(200.75), (), at(200))


def test_nobody_has_a_webhook_where_nobody_holds_it() -> None:
    seen = lease()
    assert seen.holders_webhook is None
    free = body("")
    free["metadata"]["annotations"] = {names.ANN_WEBHOOK: "http://other"}
    seen.seen(free, 1)
    assert seen.holders_webhook is None
