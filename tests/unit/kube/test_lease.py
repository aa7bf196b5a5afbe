"""What follows from what a replica has seen of the Lease; seconds are the onlooker's own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.api import names
from copyrator.kube.leader.lease import DEFAULT_TERMS, Lease, default_identity

NOW = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)
STAMP = "2026-11-21T12:00:00.250000Z"


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
    assert claimed == {"theirs": "kept", names.ANN_WEBHOOK: "http://me"}
    assert seen.surrender(NOW)["metadata"]["annotations"] == {"theirs": "kept"}
    seen.webhook = None
    assert seen.claim(NOW)["metadata"]["annotations"] == {"theirs": "kept"}, "not the former one's"


def test_nobody_has_a_webhook_where_nobody_holds_it() -> None:
    seen = lease()
    assert seen.holders_webhook is None
    free = body("")
    free["metadata"]["annotations"] = {names.ANN_WEBHOOK: "http://other"}
    seen.seen(free, 1)
    assert seen.holders_webhook is None


def test_a_new_one_names_its_holder_and_terms() -> None:
    seen = lease()
    seen.seen(None, 1)
    assert seen.claim(NOW) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": "ops", "name": "copyrator"},
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


def test_one_that_was_deleted_is_made_anew() -> None:
    seen = lease()
    seen.seen(body("me", "7", acquireTime="before"), 1)
    seen.seen(None, 2)
    assert seen.is_ours
    claim = seen.claim(NOW)
    assert "resourceVersion" not in claim["metadata"]
    assert claim["spec"]["acquireTime"] == "before"


def test_who_gives_it_back_names_nobody() -> None:
    seen = lease()
    seen.seen(body("me", "7", leaseTransitions=4), 1)
    assert seen.surrender(NOW)["spec"]["holderIdentity"] == ""
    assert seen.surrender(NOW)["metadata"]["resourceVersion"] == "7"


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
