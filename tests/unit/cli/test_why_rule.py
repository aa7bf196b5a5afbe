"""Why a rule is in its state."""

from datetime import UTC, datetime

from tests.unit.cli.objects_seen import rule

from copyrator.cli.view.rule import explain_rule

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_a_rule_that_is_well_is_said_in_a_line_with_its_copies():
    body = rule("creds", copies={"ready": 2, "desired": 2})
    assert list(explain_rule(body, NOW)) == [
        "The rule infra/creds is Ready=True for 60m, Synced",
        "  Copies: 2/2 are as wanted.",
    ]


def test_what_holds_a_rule_up_and_the_certificates_in_its_copies_are_named():
    stopped = {"namespace": "a", "kind": "Deployment", "name": "web", "message": "0/1"}
    ends = {"source": "infra/tls", "key": "tls.crt", "notAfter": "2026-01-03T12:00:00Z"}
    body = rule(
        "creds",
        "False",
        "RolloutStopped",
        message="it is stopped",
        copies={"ready": 1, "desired": 3},
        composedOf="hub, private (3)",
        rollout={"content": "a" * 32, "steps": 4, "step": 1, "stopped": stopped},
        failures=[{"namespace": "b", "name": "creds", "reason": "Conflict", "message": "taken"}, 7],
        certificates=[ends],
    )
    body["spec"]["suspend"] = True
    assert list(explain_rule(body, NOW)) == [
        "The rule infra/creds is Ready=False for 60m, RolloutStopped: it is stopped",
        "  It is suspended; to resume it: copyrator resume rule infra/creds",
        "  Copies: 1/3 are as wanted.",
        "  They are made from hub, private (3).",
        "  Rollout: step 1 of 4, stopped: Deployment a/web: 0/1",
        "  b/creds: Conflict: taken",
        "  Certificate: in infra/tls, key tls.crt until 2026-01-03T12:00:00Z (24h)",
    ]


def test_a_rule_that_no_operator_has_seen():
    (line,) = explain_rule({**rule("creds"), "status": {}}, NOW)
    assert line.startswith("The rule infra/creds is not reconciled yet")
