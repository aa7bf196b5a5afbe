"""What commands say of a Bundle: attest."""

from __future__ import annotations

from tests.unit.cli.view.test_bundle import OPEN, READY, bundle, described, why

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
