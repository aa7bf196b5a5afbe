"""What people are told: signatures."""

from tests.unit.notify.test_transitions import of_bundle, one

from copyrator.api.reasons.notices import About


def test_trust_that_is_lost_is_told_and_trust_that_is_unknown_resolves_nothing():
    bad = of_bundle(verification={"verdict": "NotTrusted", "message": "no", "digest": "sha256:1"})
    assert one(bad, About.UNTRUSTED).why == "no"
    assert About.UNTRUSTED not in of_bundle(verification={"verdict": "Unknown"}).resolved
