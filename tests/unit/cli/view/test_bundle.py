"""What lists, `describe` and `why` say of a Bundle, however its status was forged."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import known as bundle
from tests.unit.cli.view.objects_seen import PLAN

from copyrator.api.text import detail_lines, printable
from copyrator.bundles.engine.gate import load_gates
from copyrator.bundles.features.approval.words import (
    awaits_decision,
    describe_plan,
    is_decision_due,
    permission_summary,
    plan_state,
)
from copyrator.bundles.features.freeze import words as freeze
from copyrator.bundles.features.freeze.fields import Freeze
from copyrator.bundles.jobs.identity import spec_hash
from copyrator.bundles.words import load_words
from copyrator.cli.core.installation import Installation
from copyrator.cli.view.bundle import (
    ASSUMED,
    BundleView,
    bundle_columns,
    describe_bundle,
)
from copyrator.cli.view.overview import bundle_row
from copyrator.cli.view.why_bundle import explain_bundle
from copyrator.settings.config import Settings
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
INSTALLATION = Installation(settings=Settings(), namespace="copyrator")
READY = {"type": "Ready", "status": "True", "reason": "Deployed", "message": "fine"}


def view_of(body: dict[str, Any]) -> BundleView:
    return BundleView(body, NOW, INSTALLATION)


def described(body: dict[str, Any], *labels: str) -> list[str]:
    """The lines of `describe` of the parts with these labels."""
    return detail_lines(part for part in describe_bundle(view_of(body)) if part.label in labels)


def why(body: dict[str, Any], begin: str) -> list[str]:
    """The line of `why` that begins so, and those that belong to it."""
    lines = list(explain_bundle(view_of(body)))
    first = next((at for at, line in enumerate(lines) if line.startswith(begin)), len(lines))
    end = next(
        (at for at in range(first + 1, len(lines)) if not lines[at].startswith("  ")), len(lines)
    )
    return lines[first:end]


def cells(body: dict[str, Any]) -> dict[str, str]:
    view = BundleView(body, NOW)
    return {column.head: column.value(view) for column in bundle_columns()}


def glance(*conditions: Any, **status: Any) -> tuple[str, str]:
    """What a list shows: reason and message."""
    found = cells(bundle(conditions=list(conditions), **status))
    return found["REASON"], found["MESSAGE"]


def condition(kind: str, status: str, reason: str = "R", message: str = "m") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pending(reason: str, message: str = "it waits", status: str = "True") -> dict[str, str]:
    return condition("UpdatePending", status, reason, message)


@pytest.mark.parametrize("kind", ["UpdatePending", "Healthy"])
def test_a_reason_of_another_type_is_listed_as_an_unknown_one(kind: str) -> None:
    odd = {**condition(kind, "True"), "reason": ["x"]}
    assert glance(READY, odd) == glance(READY, condition(kind, "True", "-"))


SINCE, LATER, LAST = (f"2026-01-02T{hour}:00:00Z" for hour in ("05", "07", "08"))


@pytest.mark.parametrize(
    ("ready", "update", "shown"),
    [
        ("True Deployed", "False UpToDate", "Ready Deployed 7h"),
        ("True Deployed", "True NotPromoted", "Ready waiting: NotPromoted 4h"),
        ("True Deployed", "True AwaitingApproval", "Waiting AwaitingApproval 4h"),
        ("True Deployed", "True Pinned", "Waiting Pinned 4h"),
        ("False DeployFailed", "True NotPromoted", "Failing DeployFailed 7h"),
        ("Unknown NotPromoted", "True NotPromoted", "Waiting NotPromoted 7h"),
        ("True Suspended", "True NotPromoted", "Suspended Suspended 7h"),
    ],
)
def test_a_list_shows_for_how_long_it_has_the_reason_that_is_shown(
    ready: str, update: str, shown: str
) -> None:
    told = [
        {**condition("Ready", *ready.split()), "lastTransitionTime": SINCE},
        {
            **condition("UpdatePending", *update.split()),
            "lastTransitionTime": LATER,
            "reasonTime": LAST,
        },
    ]
    body = bundle(conditions=told)
    found = cells(body)
    assert f"{found['STATUS']} {found['REASON']} {found['SINCE']}" == shown
    row = bundle_row(view_of(body))
    assert f"{row.state} {row.reason} {row.since}" == shown
    (line,) = described(body, "Status")
    assert line.split(maxsplit=1)[1] == f"{found['STATUS']} ({found['REASON']})"


SICK = {
    "type": "Healthy",
    "status": "False",
    "reason": "Unhealthy",
    "message": "not healthy: Deployment/web (Ready: 0/1)",
    "lastTransitionTime": "2026-01-02T09:00:00Z",
}
DRIFTED = condition("Drifted", "True", "Drifted", "update ::ConfigMap:app has drifted")
UNTRUSTED = "1.0.1 stays deployed, but isn't trusted: no key"


@pytest.mark.needs("drift", "health", "signatures")
@pytest.mark.parametrize(
    ("conditions", "seen"),
    [
        ([condition("Verified", "False", message=UNTRUSTED)], ("Deployed,Untrusted", UNTRUSTED)),
        ([condition("Verified", "Unknown", message="no keys")], ("Deployed", "no keys")),
        ([condition("Verified", "True")], ("Deployed", "")),
        ([SICK], ("Deployed,Unhealthy", SICK["message"])),
        ([condition("Healthy", "Unknown", "Forbidden", "grant it")], ("Deployed", "grant it")),
        ([condition("Healthy", "Unknown", "Progressing")], ("Deployed", "")),
        ([condition("Healthy", "True", "Healthy")], ("Deployed", "")),
        ([DRIFTED], ("Deployed,Drifted", DRIFTED["message"])),
        ([condition("Drifted", "False", "InSync")], ("Deployed", "")),
    ],
)
def test_what_isnt_well_is_seen_at_a_glance_although_it_is_deployed(
    conditions: list[Any], seen: tuple[str, str]
) -> None:
    assert glance(READY, *conditions) == seen
    failed = condition("Ready", "False", "DeployFailed", "bad")
    assert glance(failed, *conditions)[1] == "bad"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("AwaitingApproval", True),
        ("PlanFailed", True),
        ("PlanUnstable", True),
        ("PlanRejected", False),
        ("PromotionHeld", True),
        ("PromotionWithdrawn", True),
        ("PromotionNotAllowed", True),
        ("NotPromoted", False),
        ("TooYoung", False),
        ("OutsideWindow", False),
    ],
)
def test_a_version_that_waits_is_shown_where_somebody_has_to_do_something(
    reason: str, shown: bool
) -> None:
    assert glance(READY, pending(reason))[1] == ("it waits" if shown else "")
    assert glance(READY, pending(reason, status="False"))[1] == ""


def test_an_edit_that_waits_for_a_window_and_a_person_says_both() -> None:
    ready = condition("Ready", "Unknown", "OutsideWindow", "closed")
    waits = pending("AwaitingApproval", "plan 1 waits")
    assert glance(ready, waits)[1] == "closed. plan 1 waits"
    assert glance({**ready, "reason": "AwaitingApproval"}, waits)[1] == "closed"
    assert glance(ready, {**waits, "reason": "OutsideWindow"})[1] == "closed"


SIGNED = {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]}


@pytest.mark.needs("age", "approval", "dependencies", "promotion", "signatures", "windows")
@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        ({}, {}, "none"),
        ({"aproval": {"mode": "Always"}, "minage": "1h", "window": []}, {}, "none"),
        ({"approval": {"mode": "Never"}}, {}, "none"),
        ({"approval": {"mode": "Always"}}, {}, "approval"),
        (
            {
                "approval": {"mode": "OnRisk"},
                "verify": SIGNED,
                "minAge": "1h",
                "promoteFrom": {"bundles": [{"name": "staging"}]},
                "dependsOn": [{"name": "db"}],
                "windows": [{"days": ["Mon"]}],
            },
            {},
            "signature, age, promotion, dependsOn, window, approval",
        ),
        ({}, {"gates": [{"name": "approval", "state": "Passed"}]}, "approval"),
        ({}, {"gates": [{"name": "junk"}, {"name": "freeze", "state": "Waiting"}]}, "none"),
        ({}, {"conditions": [condition("Verified", "True")]}, "signature"),
        ({"approval": {"mod": "Always"}}, {}, None),
    ],
    ids=["none", "misspelled", "off", "one", "all", "by the settings", "freeze", "policy", "empty"],
)
def test_which_gates_a_bundle_has_is_shown_also_where_it_has_none(
    spec: dict[str, Any], status: dict[str, Any], shown: str | None
) -> None:
    body = bundle(spec, **status)
    (line,) = described(body, "Gates")
    if shown is None:
        assert line.endswith(" unknown: the spec isn't valid")
        return
    assert cells(body)["GATES"] == shown.replace(", ", ",")
    none = "none: a new version is deployed as soon as it is found"
    text = none if shown == "none" else shown
    assert line.endswith(f" {text}")
    assert why(body, "Its gates") == [f"Its gates: {text}."]


@pytest.mark.needs("freeze")
def test_the_gates_of_these_names_exist() -> None:
    named = {name for words in load_words() for name in words.gates}
    assert {*named, freeze.GATE} <= {gate.name for gate in load_gates()}


ELSEWHERE = {"project_namespace": "prod", "kubeConfig": {"secretName": "other"}}
SERVER = "https://other.example.com"


def ready(status: str, reason: str) -> list[dict[str, str]]:
    return [{**READY, "status": status, "reason": reason}]


def ended(reason: str) -> list[dict[str, str]]:
    return [{"outcome": "Interrupted", "reason": reason}]


AGAIN, ONCE = {"outcome": "Running", "interruptions": 1}, {"outcome": "Running", "interruptions": 0}
AWAY = "waiting, ClusterUnreachable"


@pytest.mark.needs("approval", "cluster")
@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ({"server": None}, "waiting"),
        ({}, "passed"),
        ({"server": "https://new", "deployed": {"server": SERVER}}, "passed"),
        ({"conditions": ready("False", "ClusterUnreachable")}, AWAY),
        (
            {
                "conditions": ready("Unknown", "Deploying"),
                "attempted": AGAIN,
                "history": ended("ClusterUnreachable"),
            },
            AWAY,
        ),
        ({"conditions": ready("Unknown", "Planning"), "plan": AGAIN}, AWAY),
        ({"attempted": AGAIN, "history": ended("JobLost"), "plan": AGAIN}, "passed"),
        ({"attempted": ONCE, "history": ended("ClusterUnreachable")}, "passed"),
    ],
)
def test_the_server_of_a_release_in_another_cluster_is_named(
    status: dict[str, Any], verdict: str
) -> None:
    body = bundle(ELSEWHERE, **{"server": SERVER, **status})
    where = SERVER if verdict != "waiting" else "a cluster that isn't known yet"
    named = f"{where} (Secret other, key value)"
    assert described(body, "Release in", "Consent") == [f"Release in:    prod of {named}"]
    lines = list(explain_bundle(view_of(body)))
    assert f"  cluster: {verdict}: the release is in {named}." in lines


def test_nothing_is_said_of_consent_in_the_bundles_own_namespace() -> None:
    for where in (None, "apps"):
        body = bundle({"project_namespace": where}, consent={"namespace": "prod"})
        assert described(body, "Consent") == []
        assert "onsent" not in "".join(explain_bundle(view_of(body)))


def planned(plan: Any = PLAN, **status: Any) -> dict[str, Any]:
    found = {"conditions": [pending("AwaitingApproval")], "plan": plan, **status}
    return bundle({"approval": {"mode": "Always"}}, **found)


@pytest.mark.parametrize(
    ("change", "state", "waits"),
    [
        ({}, "waits for a decision; expires in 24h", True),
        ({"expiresAt": None}, "waits for a decision", True),
        (
            {"expiresAt": "2026-01-02T11:00:00Z"},
            "expired 60m ago; the operator makes it again",
            False,
        ),
        ({"id": None}, "waits for a decision; expires in 24h", False),
        (
            {"decision": "Approved", "by": "ann", "at": "2026-01-02T11:00:00Z"},
            "approved by ann, 60m ago",
            False,
        ),
        ({"decision": "Rejected"}, "rejected", False),
        ({"outcome": "Running"}, "being made by the Job shop-plan-1", False),
        (
            {"outcome": "Failed", "reason": "PlanFailed", "message": "no.", "nextRetryAt": "2026"},
            "failed: PlanFailed: no; made again -",
            False,
        ),
    ],
)
def test_the_state_of_a_plan_in_words(change: dict[str, Any], state: str, waits: bool) -> None:
    view = view_of(planned(PLAN | change))
    assert plan_state(view) == state
    assert awaits_decision(view) is waits


def test_a_decision_is_due_by_a_condition_or_by_the_gate() -> None:
    gate = {"name": "approval", "state": "Waiting", "reason": "AwaitingApproval"}
    assert is_decision_due(view_of(planned()))
    assert is_decision_due(view_of(planned(conditions=[], gates=[gate])))
    for other in ({"state": "Passed"}, {"name": "window"}, {"reason": "Planning"}):
        view = view_of(planned(conditions=[], gates=[gate | other]))
        assert not is_decision_due(view)
        assert plan_state(view) == "made; no decision is required"


ONE = {"verbs": ["create", "patch"], "resource": "deployments.apps", "namespace": "live"}
LACKS = {"job": "p", "outcome": "Planned", "missingPermissions": 2, "missing": [ONE]}
NAMED = "missing: create, patch deployments.apps in live"
FAILED = {"outcome": "Failed", "missing": [ONE]}
NONE_IS = LACKS | {"missing": [], "missingPermissions": 0}


@pytest.mark.parametrize(
    ("plan", "attempted", "text"),
    [
        ({}, {}, ""),
        ({"job": "p", "outcome": "Planned"}, {}, ""),  # the operator may not ask
        (LACKS, {}, NAMED),
        (NONE_IS, {}, "none is missing"),
        (NONE_IS | {"unreviewed": 2}, {}, "none is missing (2 kinds not reviewed)"),
        (
            LACKS | {"missing": [{**ONE, "resource": f"r{number}"} for number in range(5)]},
            {},
            f"missing: {'; '.join(f'create, patch r{n} in live' for n in range(3))} and 2 more",
        ),
        (LACKS, {"planJob": "p", "outcome": "Succeeded"}, ""),  # what it needs is proved
        (NONE_IS, {"planJob": "p", **FAILED}, NAMED),
        (LACKS, {"planJob": "an-older-plan", **FAILED, "missing": [{"resource": "x"}]}, NAMED),
    ],
)
def test_missing_permissions_are_summed_up(plan: Any, attempted: Any, text: str) -> None:
    view = view_of(bundle(plan=plan, attempted=attempted))
    assert permission_summary(view.status) == text


EARLIER = "2026-01-02T11:50:00Z"
FOUND: dict[str, Any] = {
    "check": {"job": "shop-drift-2", "number": 2, "outcome": "Planned", "startedAt": EARLIER},
    "checkedAt": EARLIER,
    "verdict": "Drifted",
    "attempt": 1,
    "objects": ["update ::ConfigMap:app"],
    "count": 21,
    "since": "2026-01-02T09:00:00Z",
    "foundJob": "shop-drift-2",
    "corrections": 1,
}


def drifting(drift: Any = FOUND, mode: str = "Correct", **status: Any) -> dict[str, Any]:
    body = bundle({"drift": {"mode": mode}})
    made_of = {"digest": "sha256:a", "specHash": spec_hash(body["spec"], {}, {})}
    body["status"] = {
        "conditions": [DRIFTED],
        "deployed": {"version": "1.0.0", "reference": "r.example.com/shop", **made_of},
        "attempted": {"attempt": 1, "outcome": "Succeeded"},
        "baseline": {**made_of, "madeAt": EARLIER},
        "drift": drift,
        **status,
    }
    return body


def test_nothing_is_said_where_nobody_asks() -> None:
    off = drifting(mode="Off", conditions=[SICK])
    assert described(off, "Drift", "Health", "Soak", "Promoted to", "Held", "Plan") == []
    for begin in ("Drift:", "Health:", "Soak:", "Held:", "Plan:"):
        assert why(off, begin) == []


DIGEST = "sha256:" + "a" * 64
OPEN = {"version": "1.4.2", "digest": DIGEST, "since": "2026-01-02T09:00:00Z"}


@pytest.mark.needs("freeze", "windows")
def test_no_time_is_promised_that_a_freeze_will_prevent() -> None:
    attempted = {"attempt": 1, "outcome": "Failed", "nextRetryAt": "2026-01-02T12:00:34Z"}
    body, freezes = bundle(attempted=attempted), [Freeze(reason="holidays")]
    waiting = bundle(
        attempted=attempted, gates=[{"name": "freeze", "state": "Waiting", "reason": "Frozen"}]
    )
    assert described(body, "Next attempt") == ["Next attempt:  in 34s"]
    assert described(waiting, "Next attempt") == ["Next attempt:  when the freeze ends"]
    shut = {"name": "window", "state": "Waiting", "reason": "OutsideWindow"}
    outside = bundle(attempted=attempted, gates=[shut])
    assert described(outside, "Next attempt") == ["Next attempt:  when a window opens"]
    frozen = replace(view_of(outside), beside=freezes)
    both = "Next attempt:  when the freeze ends and a window opens"
    assert both in detail_lines(describe_bundle(frozen))
    frozen = replace(view_of(body), beside=freezes)
    assert "Next attempt:  when the freeze ends" in detail_lines(describe_bundle(frozen))
    assert "It is retried when the freeze ends." in explain_bundle(frozen)
    assert "It is retried in 34s." in explain_bundle(view_of(body))


FORGED = st.dictionaries(
    st.sampled_from(
        [
            *(*PLAN, "newer", "decision", "by", "at", "reason", "message", "nextRetryAt"),
            *("bound", "unbound", "hidden", "changed", "changeUnknown"),
        ]
    ),
    JSON | st.sampled_from(["Planned", "Running", "Failed", "\x1b[2J" * 9, ["x"] * 9999, 2**62]),
)


@given(FORGED, JSON, JSON, JSON)
def test_a_forged_status_ends_no_command_and_moves_no_cursor(
    plan: Any, conditions: Any, attempted: Any, drift: Any
) -> None:
    body = planned(plan, conditions=conditions, attempted=attempted, preview=plan)
    lines = [*detail_lines(describe_plan(view_of(body))), *described(body, "Plan", "Preview")]
    lines += why(body, "The plan")
    assert all(line.isprintable() for line in lines)
    assert sum(map(len, lines)) < 20_000
    body = drifting(drift, conditions=[conditions])
    body["spec"]["health"] = "Watch"
    lines = described(body, "Drift", "Health")
    lines += [*why(body, "Drift is"), *why(body, "Whether its")]
    assert all(line == printable(line) and "\n" not in line for line in lines)
    cells(body)
    list(describe_bundle(view_of(planned(plan, soak=drift, lastError=attempted, gates=drift))))


VERSION = {"version": "1.0.0", "digest": "sha256:" + "c" * 64, "time": "2026-01-02T09:00:00Z"}


@pytest.mark.parametrize(
    ("label", "body", "lines"),
    [
        ("Deployed", bundle(deployed=VERSION), ["1.0.0  cccccccccccc  since 3h"]),
        ("Available", bundle(available=VERSION), ["1.0.0  cccccccccccc  since 3h"]),
        ("Available", bundle(), ["-"]),
        (
            "Next attempt",
            bundle(attempted={"nextRetryAt": "2026-01-02T12:05:00Z"}),
            ["in 5m"],
        ),
        (
            "Next poll",
            bundle({}, {"disable-autoupdate": "x"}, nextPollAt="2026-01-02T12:05:00Z"),
            ["none: annotation operator.werf.dev/disable-autoupdate"],
        ),
        (
            "Next poll",
            bundle(
                {"interval": "5m"},
                nextPollAt="2026-01-02T11:59:00Z",
                conditions=[condition("Ready", "False", "TagNotFound")],
            ),
            ["soon, every 5m"],
        ),
        ("Next poll", bundle(), [f"every 10m{ASSUMED}"]),
        ("Tag filter", bundle({"tagFilter": ".*-eu"}), [".*-eu"]),
        ("Suspended", bundle({"suspend": True}), ["yes; copyrator resume bundle apps/shop"]),
        (
            "Last error",
            bundle(lastError={"reason": "DeployFailed", "message": "no", "logTail": "x"}),
            ["DeployFailed: no", "(copyrator logs bundle apps/shop prints werf's log)"],
        ),
        ("Last error", bundle(lastError={"reason": "R", "message": "no"}), ["R: no"]),
    ],
)
def test_what_describe_says_of(label: str, body: dict[str, Any], lines: list[str]) -> None:
    first, *below = lines
    text = f"{label}:"
    assert described(body, label) == [f"{text:<15}{first}", *(f"  {line}" for line in below)]
