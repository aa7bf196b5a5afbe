"""What commands, the page and notices say of a Bundle: what it attests."""

from __future__ import annotations

from tests.unit.cli.view.test_bundle import OPEN, READY, bundle, described, why
from tests.unit.notify.test_transitions import condition as of_type
from tests.unit.notify.test_transitions import of_bundle, one

from copyrator.api.reasons import Severity
from copyrator.api.reasons.notices import About

ATTEST = {"environment": "staging", "keyFrom": {"secretName": "a", "key": "b"}}


def test_describe_and_why_say_what_is_attested() -> None:
    said = {"environment": "staging", "state": "Attested", "issuedAt": "2026-01-02T11:00:00Z"}
    withdrawn = {**said, "state": "Withdrawn", "reason": "it was held: \x1b[31mx"}
    records = [{**said, "version": "1.4.1", "digest": "sha256:" + "b" * 64}, {**withdrawn, **OPEN}]
    condition = {"type": "Attested", "status": "False", "reason": "PushRefused", "message": "no."}
    body = bundle({"attest": ATTEST}, attest=records, conditions=[READY, condition])
    assert described(body, "Attested") == [
        "Attested:",
        "  1.4.2        aaaaaaaaaaaa  Withdrawn as staging, 60m ago (it was held: \\x1b[31mx)",
        "  1.4.1        bbbbbbbbbbbb  Attested as staging, 60m ago",
    ]
    assert why(body, "Attested as") == ["Attested as staging: False, PushRefused: no."]
    assert why(bundle({"attest": ATTEST}), "Attested") == []


def test_what_is_attested_is_told_and_why_it_is_not():
    said = "1.9.0 (sha256:1) is attested as staging"
    well = of_bundle(conditions=[of_type("Attested", "True", "Attested", said)])
    found = one(well, About.ATTESTED)
    assert (found.what, found.why, found.severity) == ("is attested", said, Severity.SUCCESS)
    assert About.NOT_ATTESTED in well.resolved
    refused = of_type("Attested", "False", "PushRefused", "the registry answered 403")
    found = one(of_bundle(conditions=[refused]), About.NOT_ATTESTED)
    assert found.what == "can't be attested: PushRefused"
    assert found.why == "the registry answered 403"
    assert found.command == "copyrator why prod/shop --kind bundle"
    withdrawn = of_type("Attested", "False", "AttestationWithdrawn", "ann: it is slow")
    assert one(of_bundle(conditions=[withdrawn]), About.NOT_ATTESTED).what == (
        "isn't attested any more"
    )
    soaking = of_bundle(conditions=[of_type("Attested", "Unknown", "Soaking")])
    assert soaking.holding == ()
    assert About.NOT_ATTESTED in soaking.unknown
