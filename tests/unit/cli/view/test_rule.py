"""What lists, `describe` and `why` show of a rule and its copies, in a line and whole."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.replacing import replace
from tests.unit.cli.view.objects_seen import rule

from copyrator.api.rollout import Restart, Rollout, RolloutState, Stopped
from copyrator.api.rule_status import Failure
from copyrator.api.selectors import LabelSelector
from copyrator.api.text import Detail, detail_lines, format_time, time_since, time_until
from copyrator.cli.get.describe import refer_to_error
from copyrator.cli.rules.plan import in_steps
from copyrator.cli.rules.why import waits_for_rollout
from copyrator.cli.view import rule as rule_view
from copyrator.cli.view.rule import (
    RuleView,
    certificate_rows,
    describe_rollout,
    describe_rule,
    explain_rule,
    failure_lines,
    rollout_lines,
    rollout_progress,
    rule_kind,
)
from copyrator.cli.view.why_copy import RuleAnswer, count_rules, explain

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
RUNNING = RolloutState("a" * 32, step=2, next_at=NOW + timedelta(seconds=90))
STOPPED = RolloutState(
    "a" * 32, step=2, stopped=Stopped("team-a", "Deployment", "web", "Replicas: 0/1")
)
ROLLOUT = Rollout(("1", "10%", "100%"))


def view_of(**status):
    return RuleView({"metadata": {"namespace": "home", "name": "r"}, "status": status}, NOW)


@pytest.mark.parametrize(
    ("rollout", "text"),
    [
        (ROLLOUT, "1, 10%, 100%; 10m after each"),
        (
            Rollout(
                ("100%",),
                3600,
                LabelSelector.from_labels({"tier": "canary"}),
                True,
                Restart.CONSUMERS,
            ),
            (
                "100%; 1h after each; tier=canary first; stops if consumers aren't healthy; "
                "restarts consumers"
            ),
        ),
    ],
)
def test_the_spec_in_a_line(rollout, text):
    assert describe_rollout(rollout) == text


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        (RolloutState("a" * 32), []),
        (RolloutState("a" * 32, step=1), ["1 of 3, being written"]),
        (RUNNING, ["2 of 3, its pause ends at 2026-01-01T12:01:30Z (in 90s)"]),
        (STOPPED, ["2 of 3, stopped: Deployment team-a/web: Replicas: 0/1"]),
    ],
)
def test_the_step(state, lines):
    assert list(rollout_lines(view_of(rollout=replace(state, steps=3).to_dict()))) == lines


@pytest.mark.parametrize("junk", [None, "junk", {"content": "x", "step": 1}])
def test_what_isnt_ours_is_no_rollout(junk):
    assert rollout_progress(view_of(rollout=junk)) == ""
    assert RuleView({"metadata": {"name": "r"}, "status": junk}, NOW).rollout is None


def test_a_plan_names_the_namespaces_of_each_step():
    assert in_steps(ROLLOUT, 500) == (
        "Existing copies are changed in steps (spec.rollout): 1, 50, 500 of 500 namespaces, 10m "
        "after each; new ones are created at once."
    )


def test_why_a_copy_isnt_changed_yet():
    assert waits_for_rollout("home/r", RUNNING) == (
        "It doesn't have the new content: the rule home/r changes its copies in steps, and the "
        "step of this copy hasn't begun (step 2, the next one is due at 2026-01-01T12:01:30Z)."
    )


def test_a_stopped_rollout_has_no_next_step_that_is_due():
    stopped = replace(STOPPED, next_at=NOW)
    assert waits_for_rollout("home/r", stopped).endswith(
        "(step 2); the rollout is stopped by Deployment team-a/web."
    )


def test_a_rule_that_is_well_is_said_in_a_line_with_its_copies():
    body = rule("creds", copies={"ready": 2, "desired": 2})
    assert list(explain_rule(RuleView(body, LATER))) == [
        "The rule infra/creds is Ready (Synced, for 60m)",
        "Copies:        2 desired: 2 ready, 0 failed, 0 in conflict, 0 pending",
        "Last sync:     never",
    ]


def test_without_a_source_nothing_is_said_of_copies():
    body = rule("creds", "False", "SourceNotFound", message="there is no Secret s")
    said = "The rule infra/creds is Failing (SourceNotFound, for 60m): there is no Secret s"
    assert list(explain_rule(RuleView(body, LATER))) == [said]
    body["status"]["copies"] = {"desired": 1, "ready": 1}
    assert any(line.startswith("Copies:") for line in explain_rule(RuleView(body, LATER)))
    unseen = RuleView({**rule("creds"), "status": {}}, LATER)
    (line,) = explain_rule(unseen)
    assert line.startswith("The rule infra/creds is not reconciled yet")


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
    assert list(explain_rule(RuleView(body, LATER))) == [
        "The rule infra/creds is Failing (RolloutStopped, for 60m): it is stopped",
        "  It is suspended; to resume it: copyrator resume rule infra/creds",
        "Copies:        3 desired: 1 ready, 0 failed, 0 in conflict, 0 pending",
        "Made from:     hub, private (3)",
        "Last sync:     never",
        "Certificate:   in infra/tls, key tls.crt expires 2026-01-03T12:00:00Z (in 24h)",
        "Rollout step:  1 of 4, stopped: Deployment a/web: 0/1",
        "Failures:",
        "  b/creds: Conflict: taken",
    ]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"spec": {"source": {"kind": "Secret"}}}, "Secret"),
        ({"spec": {"template": {"kind": "Role"}}}, "Role"),
        ({"ruleType": "ConfigMap"}, "ConfigMap"),
        ({"spec": "junk"}, "-"),
        ({"spec": {"source": []}}, "-"),
        ({}, "-"),
    ],
)
def test_the_kind_of_a_rule_in_either_form(body, kind):
    assert rule_kind(body) == kind


def sample(namespace, name="devs", message="no"):
    return Failure(namespace, name, "Forbidden", message)


def test_the_same_failure_in_many_namespaces_is_one_line():
    samples = [sample(f"team-{letter}") for letter in "cbadefg"]
    assert list(failure_lines([*samples, sample("other", message="quota")])) == [
        "7 namespaces (team-a, team-b, …): Forbidden: no",
        "other/devs: Forbidden: quota",
    ]


def test_messages_that_name_their_own_namespace_are_the_same_failure():
    samples = [
        sample(f"team-{letter}", message=f"namespace team-{letter} has no label team")
        for letter in "abcd"
    ]
    shared = "the namespace has no label team"
    (line,) = failure_lines(samples)
    assert line == f"4 namespaces (team-a, team-b, …): Forbidden: {shared}"
    assert list(failure_lines(samples[:1])) == [
        "team-a/devs: Forbidden: namespace team-a has no label team"
    ]


def test_the_certificates_of_one_source_are_those_that_its_copies_have():
    ends = {"key": "tls.crt", "commonName": "a.io", "notAfter": "2026-01-03T12:00:00Z"}
    view = view_of(certificates=[{**ends, "source": f"infra/{name}"} for name in ("tls", "old")])
    assert len(list(certificate_rows(view))) == 2
    assert [row.line for row in certificate_rows(view, "infra/old")] == [
        "a.io (infra/old, key tls.crt) expires 2026-01-03T12:00:00Z (in 2d)"
    ]


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


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
    assert time_since(format_time(NOON - timedelta(**ago)), NOON) == shown


@pytest.mark.parametrize("junk", [None, "", 7, "yesterday"])
def test_what_is_no_time_is_a_dash(junk):
    assert time_since(junk, NOON) == "-"
    assert time_until(junk, NOON) == "-"


@pytest.mark.parametrize(
    ("ahead", "shown"), [(-1, "now"), (5, "in 5s"), (600, "in 10m"), (36000, "in 10h")]
)
def test_the_time_until_something(ahead, shown):
    assert time_until(format_time(NOON + timedelta(seconds=ahead)), NOON) == shown


def cells(body):
    view = rule_view.RuleView(body, NOON)
    return {column.head: column.value(view) for column in rule_view.RULE_COLUMNS}


def test_a_rule_that_no_operator_has_seen_says_so_instead_of_looking_well():
    body = {"metadata": {"name": "r", "namespace": "n"}, "spec": {}}
    found = cells(body)
    assert (found["STATUS"], found["READY"], found["REASON"]) == ("Waiting", "-", "-")
    assert "copyrator doctor" in found["MESSAGE"]


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
        stamp = format_time(NOON + timedelta(**after))
        return {"source": "infra/tls", "key": "tls.crt", "commonName": "a.io", "notAfter": stamp}

    found = [one(days=50), one(**left)]
    body = {"metadata": {"name": "r", "namespace": "n"}, "status": {"certificates": found}}
    assert cells(body)["EXPIRES"] == shown
    told = [
        line
        for line in detail_lines(describe_rule(rule_view.RuleView(body, NOON)))
        if line.startswith("Certificate:")
    ]
    assert told[0].split()[1:4] == ["a.io", "(infra/tls,", "key"]
    assert told[0].endswith("ago)" if shown == "expired" else f"(in {shown})")
    assert told[1].endswith("(in 50d)")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["copies objects of kind ConfigMap"], "1 other rule"),
        (["is being deleted", "is suspended; otherwise: requires it"], "2 other rules"),
        (
            ["is being deleted", "requires it, but it belongs to the rule a/b"],
            "2 other rules, 1 of which requires it, too",
        ),
        (["requires it, from a"] * 3, "3 other rules, 3 of which require it, too"),
    ],
)
def test_other_rules_are_a_count(answers, said):
    found = [RuleAnswer(str(number), answer) for number, answer in enumerate(answers)]
    assert count_rules(found) == said


def test_rules_with_the_same_answer_share_a_line_but_the_owner_has_its_own():
    found = [RuleAnswer("a/own", "requires it", is_owner=True)]
    found += [RuleAnswer(f"a/r{number}", "requires it") for number in range(3)]
    assert list(explain(found)) == [
        "rule a/own (its owner): requires it",
        "3 rules (a/r0, a/r1, …): requires it",
    ]
    assert list(explain(found[1:3])) == ["rule a/r0: requires it", "rule a/r1: requires it"]


JUNE = datetime(2026, 6, 1, tzinfo=UTC)


def test_what_of_the_sources_is_not_used_is_said():
    body = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"namespace": "copyrator", "name": "r"},
        "ruleType": "secret",
        "status": {
            "overridden": [{"host": "a.io", "source": "b (x/b)", "by": "a (x/a)"}],
            "passedOver": [{"source": "b (x/c)", "reason": "has no key ca.crt"}],
        },
    }
    said = [" ".join(line.split()) for line in detail_lines(describe_rule(RuleView(body, JUNE)))]
    assert "Not used: b (x/b): a (x/a) is used for a.io" in said
    assert "Passed over: b (x/c): has no key ca.crt" in said


def test_the_text_of_the_last_error_is_printed_once():
    error = "create: ConfigMap/x failed: " + "it is not valid, " * 20
    body = {"status": {"lastError": {"reason": "DeployFailed", "message": error}}}
    below = [
        "Ready  False",
        f"  1.0.0: {error}. Next attempt at 12:00",
        f"2s  Warning  Failed: {error}",
    ]
    (found,) = refer_to_error(body, [Detail("Conditions", below=below)])
    assert found.below == [
        "Ready  False",
        "  1.0.0: see Last error. Next attempt at 12:00",
        "2s  Warning  Failed: see Last error",
    ]
    for status in ({"lastError": {"message": "False"}}, {"lastError": {"message": 7}}, {}, None):
        (found,) = refer_to_error({"status": status}, [Detail("Conditions", below=below)])
        assert found.below == below, status
