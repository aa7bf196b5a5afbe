"""What a rule and a Bundle show in a line."""

from datetime import UTC, datetime, timedelta

import pytest

from copyrator.api.times import format_time
from copyrator.cli.get.describe import rule_lines
from copyrator.cli.view import rows
from copyrator.cli.view import rule as rule_view

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        ({"seconds": 5}, "5s"),
        ({"seconds": 119}, "119s"),
        ({"minutes": 2}, "2m"),
        ({"minutes": 119}, "119m"),
        ({"hours": 47}, "47h"),
        ({"days": 2}, "2d"),
        ({"seconds": -30}, "0s"),
    ],
)
def test_an_age_has_one_unit_as_in_kubectl(ago, shown):
    assert rows.age(format_time(NOW - timedelta(**ago)), NOW) == shown


@pytest.mark.parametrize("junk", [None, "", 7, "yesterday"])
def test_what_is_no_time_is_a_dash(junk):
    assert rows.age(junk, NOW) == "-"
    assert rows.until(junk, NOW) == "-"


@pytest.mark.parametrize(
    ("ahead", "shown"), [(-1, "now"), (5, "in 5s"), (600, "in 10m"), (36000, "in 10h")]
)
def test_the_time_until_something(ahead, shown):
    assert rows.until(format_time(NOW + timedelta(seconds=ahead)), NOW) == shown


def cells(columns, body):
    return {column.head: column.value(body) for column in columns}


def test_a_rule_that_no_operator_has_seen_says_so_instead_of_looking_well():
    body = {"metadata": {"name": "r", "namespace": "n"}, "spec": {}}
    found = cells(rule_view.rule_columns(NOW), body)
    assert found["READY"] == "-"
    assert "copyrator doctor" in found["MESSAGE"]


def test_a_failing_rule_shows_what_is_wrong_and_a_good_one_nothing():
    condition = {"type": "Ready", "status": "False", "reason": "PartialFailure", "message": "quota"}
    body = {
        "metadata": {"name": "r", "namespace": "n"},
        "status": {"conditions": [condition], "copies": {"ready": 2, "desired": 3}},
    }
    found = cells(rule_view.rule_columns(NOW), body)
    assert (found["REASON"], found["COPIES"], found["MESSAGE"]) == (
        "PartialFailure",
        "2/3",
        "quota",
    )
    condition["status"] = "True"
    assert cells(rule_view.rule_columns(NOW), body)["MESSAGE"] == ""


@pytest.mark.parametrize(
    ("left", "shown"),
    [
        ({"days": 40, "hours": 5}, "40d"),
        ({"hours": 48}, "2d"),
        ({"hours": 47}, "47h"),
        ({"minutes": 5}, "0h"),
        ({}, "ended"),
        ({"days": -3}, "ended"),
    ],
)
def test_the_first_end_of_a_certificate(left, shown):
    def one(**after):
        stamp = format_time(NOW + timedelta(**after))
        return {"source": "infra/tls", "key": "tls.crt", "commonName": "a.io", "notAfter": stamp}

    found = [one(days=50), one(**left)]
    body = {"metadata": {"name": "r", "namespace": "n"}, "status": {"certificates": found}}
    assert cells(rule_view.rule_columns(NOW), body)["CERTIFICATE"] == shown
    told = [line for line in rule_lines(body, NOW) if line.startswith("Certificate:")]
    assert told[0].split()[1:4] == ["a.io", "(infra/tls,", "key"]
    assert told[0].endswith(f"({shown})")
    assert told[1].endswith("(50d)")


def test_a_rule_without_certificates_shows_a_dash():
    body = {"metadata": {"name": "r", "namespace": "n"}, "status": {}}
    assert cells(rule_view.rule_columns(NOW), body)["CERTIFICATE"] == "-"


def test_a_rule_without_targets_is_ready_and_says_which_it_has():
    message = "targets team-* match no namespace"
    condition = {"type": "Ready", "status": "True", "reason": "NoTargets", "message": message}
    body = {"metadata": {"generation": 1}, "status": {"conditions": [condition]}}
    assert rows.trouble(body) == message


@pytest.mark.parametrize("reason", ["Suspended", "AutoupdateDisabled"])
@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_what_is_suspended_says_so_whatever_ready_is(status, reason):
    message = "suspended; before: Deployed: 1.0.0 is deployed"
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    body = {"metadata": {"generation": 1}, "status": {"conditions": [condition]}}
    assert rows.is_suspended(body)
    assert rows.trouble(body) == rows.bundle_trouble(body) == message


def test_a_bundle_shows_what_runs_and_what_there_is():
    body = {
        "metadata": {"name": "b", "namespace": "n"},
        "spec": {"registry": "r.example.com", "repo": "team/app"},
        "status": {
            "deployed": {"version": "1.0.0", "digest": "sha256:" + "a" * 64},
            "available": {"version": "1.1.0"},
        },
    }
    found = cells(rows.bundle_columns(NOW), body)
    assert (found["DEPLOYED"], found["AVAILABLE"]) == ("1.0.0", "1.1.0")
    assert (found["WANTED"], found["FROM"]) == ("latest", "r.example.com/team/app")
    assert found["DIGEST"] == "a" * 12


def verified(status, message="1.0.1 stays deployed, but isn't trusted: no key", ready="True"):
    conditions = [
        {"type": "Ready", "status": ready, "reason": "Deployed", "message": "deployed"},
        {"type": "Verified", "status": status, "reason": "SignatureInvalid", "message": message},
    ]
    body = {"metadata": {"name": "b", "namespace": "n"}, "status": {"conditions": conditions}}
    return cells(rows.bundle_columns(NOW), body)


def test_a_version_that_isnt_trusted_is_seen_at_a_glance_although_it_is_deployed():
    found = verified("False")
    assert (found["READY"], found["REASON"]) == ("True", "Deployed,Untrusted")
    assert found["MESSAGE"] == "1.0.1 stays deployed, but isn't trusted: no key"


def test_where_trust_isnt_known_only_the_message_says_so():
    found = verified("Unknown", "the keys can't be read")
    assert (found["REASON"], found["MESSAGE"]) == ("Deployed", "the keys can't be read")
    found = verified("True", "signed by a key")
    assert (found["REASON"], found["MESSAGE"]) == ("Deployed", "")
    assert verified("False", ready="False")["MESSAGE"] == "deployed"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("AwaitingApproval", True),
        ("PlanFailed", True),
        ("PlanUnstable", True),
        ("PlanRejected", False),
        ("PromotionHeld", True),
        ("PromotionNotAllowed", True),
        ("NotPromoted", False),
        ("TooYoung", False),
        ("OutsideWindow", False),
    ],
)
def test_a_version_that_waits_is_shown_where_somebody_has_to_do_something(reason, shown):
    pending = {"type": "UpdatePending", "status": "True", "reason": reason, "message": "it waits"}
    ready = {"type": "Ready", "status": "True", "reason": "Deployed"}
    body = {"metadata": {"name": "b", "namespace": "n"}, "status": {"conditions": [ready, pending]}}
    assert cells(rows.bundle_columns(NOW), body)["MESSAGE"] == ("it waits" if shown else "")


def test_an_edit_that_waits_for_a_window_and_a_person_says_both():
    ready = {"type": "Ready", "status": "Unknown", "reason": "OutsideWindow", "message": "closed"}
    pending = {"type": "UpdatePending", "status": "True", "reason": "AwaitingApproval"}
    pending["message"] = "plan 1 waits"

    def message(*conditions):
        body = {"metadata": {"name": "b"}, "status": {"conditions": conditions}}
        return cells(rows.bundle_columns(NOW), body)["MESSAGE"]

    assert message(ready, pending) == "closed. plan 1 waits"
    assert message({**ready, "reason": "AwaitingApproval"}, pending) == "closed"
    assert message(ready, {**pending, "reason": "OutsideWindow"}) == "closed"


def test_the_gates_that_a_forced_deploy_passed_over():
    over = [{"name": "age", "reason": "TooYoung"}, {"name": "window"}]
    assert rows.passed_over({"passedOver": over}) == "age, window"
    assert rows.passed_over({}) == ""
    assert rows.passed_over({"passedOver": "junk"}) == ""
