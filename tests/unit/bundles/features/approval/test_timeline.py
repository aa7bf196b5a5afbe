"""What the timeline of a Bundle says: approval."""

from __future__ import annotations

import pytest
from tests.unit.cli.view.test_timeline import bundle, digest, entry, events, shown


def test_what_each_attempt_did_is_said_in_words_the_newest_first() -> None:
    history = [
        entry(9, "1.1", "b", correction=True),
        entry(8, "1.1", "b"),
        entry(7, "1.1", "b"),
        entry(6, "1.2", "c", "Interrupted", reason="JobLost"),
        entry(5, "1.2", "c", reason="Deployed", approvedBy="ann"),
        entry(4, "1.2", "c", "Failed", reason="DeployFailed", approvedBy="ann"),
        entry(3, "1.1", "b", passedOver=[{"name": "window", "reason": "OutsideWindow"}]),
        entry(2, "1.0", "a", cause="NewVersion", by="bob", approvedBy="bob"),
    ]
    assert shown(bundle(history=history)) == [
        ("Drift corrected", "1.1", "Correction"),
        ("Deployed again", "1.1"),
        ("Deployed", "1.1"),  # that its digest was deployed before doesn't say why
        ("Interrupted", "1.2"),
        ("Deployed", "1.2", "approved by ann"),
        ("Failed", "1.2", "approved by ann"),
        ("Deployed", "1.1", "passed over window"),
        ("Deployed", "1.0", "NewVersion, approved by bob"),
    ]
    reasons = [one.reason for one in events(bundle(history=history)) if one.reason]
    assert reasons == ["JobLost", "DeployFailed"]


def test_the_running_attempt_is_the_newest_entry() -> None:
    running = {"version": "1.1", "digest": digest("b"), "outcome": "Running", "job": "shop-3"}
    running |= {"startedAt": "2026-01-10T11:59:00Z", "approvedBy": "bob"}
    body = bundle(history=[entry(2, "1.0", "a")], attempted=running)
    assert shown(body) == [("Deploying", "1.1", "approved by bob"), ("Deployed", "1.0")]


@pytest.mark.parametrize(("decision", "word"), [("Approved", "Approved"), ("Rejected", "Rejected")])
def test_a_decision_about_a_plan_is_an_entry_until_the_plan_is_deployed(
    decision: str, word: str
) -> None:
    plan = {"id": "p", "version": "1.1", "decision": decision, "by": "ann"}
    body = bundle(plan=plan | {"at": "2026-01-10T11:00:00Z"}, history=[entry(2, "1.0", "a")])
    assert shown(body) == [(word, "1.1", "by ann"), ("Deployed", "1.0")]
    body["status"]["plan"]["decisionReason"] = "no\x1b more"
    assert shown(body)[0] == (word, "1.1", "by ann", "no\\x1b more")
    body["status"]["attempted"] = {"plan": "p", "outcome": "Succeeded"}
    assert shown(body) == [("Deployed", "1.0")]
