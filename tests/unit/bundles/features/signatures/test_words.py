"""What commands, the page and notices say of a Bundle: signatures."""

from __future__ import annotations

import pytest
from tests.unit.cli.view.test_why_bundle import NO_SIGNATURE, described, polls, why
from tests.unit.notify.test_transitions import of_bundle, one

from copyrator.api.reasons.notices import About


@pytest.mark.parametrize(
    "status",
    [
        {"gates": [NO_SIGNATURE]},
        {"conditions": [{"type": "Ready", "status": "False", "reason": "TagNotFound"}]},
    ],
    ids=["a signature", "a tag"],
)
def test_while_something_is_awaited_no_time_of_the_interval_is_said(status):
    (said,) = polls(status, image="copyrator:1")
    assert said == "soon, every 10m by default"
    (said,) = polls({**status, "nextPollAt": "2026-01-02T12:00:09Z"}, image="copyrator:1")
    assert said == "in 10s, every 10m by default"


TRUSTED = {"verdict": "Trusted", "reason": "Verified", "message": "spec.verify: signed by ann"}

WITHDRAWN = {
    "verdict": "NotTrusted",
    "reason": "SignatureInvalid",
    "message": "wrong key",
}

UNKNOWN = {"verdict": "Unknown", "reason": "VerificationUnavailable", "message": "503"}


@pytest.mark.parametrize(
    ("verification", "shown"),
    [
        (TRUSTED, "Signatures:    Trusted: spec.verify: signed by ann"),
        (WITHDRAWN, "Signatures:    NotTrusted (SignatureInvalid), stays deployed: wrong key"),
        (UNKNOWN, "Signatures:    Unknown (VerificationUnavailable): 503"),
    ],
)
def test_the_verdict_on_what_is_deployed_is_said(verification, shown):
    body = {
        "metadata": {"name": "shop", "namespace": "apps", "generation": 1},
        "spec": {"registry": "r.example.com", "repo": "shop"},
        "status": {"verification": verification},
    }
    assert shown in why(body)
    assert shown in described(body)
    body["status"] = {}
    assert "Signatures" not in " ".join((*why(body), *described(body)))


def test_trust_that_is_lost_is_told_and_trust_that_is_unknown_resolves_nothing():
    bad = of_bundle(verification={"verdict": "NotTrusted", "message": "no", "digest": "sha256:1"})
    assert one(bad, About.UNTRUSTED).why == "no"
    assert About.UNTRUSTED not in of_bundle(verification={"verdict": "Unknown"}).resolved
