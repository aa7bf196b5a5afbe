"""What a rule and a Bundle show in a line."""

from datetime import UTC, datetime, timedelta

import pytest

from copyrator.api.text import detail_lines, format_time, time_since, time_until
from copyrator.cli.view import rows
from copyrator.cli.view import rule as rule_view
from copyrator.cli.view.rule import describe_rule

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
    assert time_since(format_time(NOW - timedelta(**ago)), NOW) == shown


@pytest.mark.parametrize("junk", [None, "", 7, "yesterday"])
def test_what_is_no_time_is_a_dash(junk):
    assert time_since(junk, NOW) == "-"
    assert time_until(junk, NOW) == "-"


@pytest.mark.parametrize(
    ("ahead", "shown"), [(-1, "now"), (5, "in 5s"), (600, "in 10m"), (36000, "in 10h")]
)
def test_the_time_until_something(ahead, shown):
    assert time_until(format_time(NOW + timedelta(seconds=ahead)), NOW) == shown


def cells(body):
    view = rule_view.RuleView(body, NOW)
    return {column.head: column.value(view) for column in rule_view.RULE_COLUMNS}


def test_a_rule_that_no_operator_has_seen_says_so_instead_of_looking_well():
    body = {"metadata": {"name": "r", "namespace": "n"}, "spec": {}}
    found = cells(body)
    assert (found["STATUS"], found["READY"], found["REASON"]) == ("Waiting", "-", "-")
    assert "copyrator doctor" in found["MESSAGE"]


def test_a_failing_rule_shows_what_is_wrong_and_a_good_one_nothing():
    condition = {"type": "Ready", "status": "False", "reason": "PartialFailure", "message": "quota"}
    body = {
        "metadata": {"name": "r", "namespace": "n"},
        "status": {"conditions": [condition], "copies": {"ready": 2, "desired": 3}},
    }
    found = cells(body)
    assert (found["REASON"], found["COPIES"], found["MESSAGE"]) == (
        "PartialFailure",
        "2/3",
        "quota",
    )
    condition["status"] = "True"
    assert cells(body)["MESSAGE"] == ""


@pytest.mark.parametrize(
    ("left", "shown"),
    [
        ({"days": 40, "hours": 5}, "40d"),
        ({"hours": 48}, "2d"),
        ({"hours": 47}, "47h"),
        ({"minutes": 5}, "0h"),
        ({}, "expired"),
        ({"days": -3}, "expired"),
    ],
)
def test_the_first_end_of_a_certificate(left, shown):
    def one(**after):
        stamp = format_time(NOW + timedelta(**after))
        return {"source": "infra/tls", "key": "tls.crt", "commonName": "a.io", "notAfter": stamp}

    found = [one(days=50), one(**left)]
    body = {"metadata": {"name": "r", "namespace": "n"}, "status": {"certificates": found}}
    assert cells(body)["EXPIRES"] == shown
    told = [
        line
        for line in detail_lines(describe_rule(rule_view.RuleView(body, NOW)))
        if line.startswith("Certificate:")
    ]
    assert told[0].split()[1:4] == ["a.io", "(infra/tls,", "key"]
    assert told[0].endswith("ago)" if shown == "expired" else f"(in {shown})")
    assert told[1].endswith("(in 50d)")


def test_a_rule_without_certificates_shows_a_dash():
    body = {"metadata": {"name": "r", "namespace": "n"}, "status": {}}
    assert cells(body)["EXPIRES"] == "-"


def test_a_rule_without_targets_is_ready_and_says_which_it_has():
    message = "targets team-* match no namespace"
    condition = {"type": "Ready", "status": "True", "reason": "NoTargets", "message": message}
    body = {"metadata": {"generation": 1}, "status": {"conditions": [condition]}}
    assert rows.trouble(body) == message
