"""What people are told: attest."""

from tests.unit.notify.test_transitions import condition, of_bundle, one

from copyrator.api.reasons import Severity
from copyrator.api.reasons.notices import About


def test_what_is_attested_is_told_and_why_it_is_not():
    said = "1.9.0 (sha256:1) is attested as staging"
    well = of_bundle(conditions=[condition("Attested", "True", "Attested", said)])
    found = one(well, About.ATTESTED)
    assert (found.what, found.why, found.severity) == ("is attested", said, Severity.SUCCESS)
    assert About.NOT_ATTESTED in well.resolved
    refused = condition("Attested", "False", "PushRefused", "the registry answered 403")
    found = one(of_bundle(conditions=[refused]), About.NOT_ATTESTED)
    assert found.what == "can't be attested: PushRefused"
    assert found.why == "the registry answered 403"
    assert found.command == "copyrator why prod/shop --kind bundle"
    withdrawn = condition("Attested", "False", "AttestationWithdrawn", "ann: it is slow")
    assert one(of_bundle(conditions=[withdrawn]), About.NOT_ATTESTED).what == (
        "isn't attested any more"
    )
    soaking = of_bundle(conditions=[condition("Attested", "Unknown", "Soaking")])
    assert soaking.holding == ()
    assert About.NOT_ATTESTED in soaking.unknown
