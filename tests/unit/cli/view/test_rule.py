"""What commands show of a rule: its failures, certificates and rollout."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.replacing import replace
from tests.unit.cli.view.objects_seen import rule

from copyrator.api.rollout import Restart, Rollout, RolloutState, Stopped
from copyrator.api.rule_status import Failure
from copyrator.api.selectors import LabelSelector
from copyrator.cli.rules.plan import in_steps
from copyrator.cli.rules.why import waits_for_rollout
from copyrator.cli.view.rule import (
    RuleView,
    certificate_rows,
    describe_rollout,
    explain_rule,
    failure_lines,
    rollout_lines,
    rollout_progress,
    rule_kind,
)

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


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (RolloutState("a" * 32), ""),
        (RUNNING, "step 2/3"),
        (STOPPED, "step 2/3, stopped"),
    ],
)
def test_the_progress_in_a_table(state, text):
    assert rollout_progress(view_of(rollout=replace(state, steps=3).to_dict())) == text


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


def test_a_rule_that_no_operator_has_seen():
    (line,) = explain_rule(RuleView({**rule("creds"), "status": {}}, LATER))
    assert line.startswith("The rule infra/creds is not reconciled yet")


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


def test_a_few_are_listed_and_a_name_that_isnt_known_is_left_out():
    assert list(failure_lines([sample("a"), sample("b", name="")])) == [
        "a/devs: Forbidden: no",
        "b: Forbidden: no",
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
