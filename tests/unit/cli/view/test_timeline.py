"""What a Bundle's timeline says of its versions, however its status was forged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from copyrator.api.text import printable
from copyrator.bundles.words import VersionEvent
from copyrator.cli.core.installation import Installation
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.versions import MESSAGE, timeline
from copyrator.settings.config import Settings
from hostile.mangled import JSON

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
INSTALLATION = Installation(settings=Settings(), namespace="copyrator")


def digest(letter: str) -> str:
    return f"sha256:{letter * 64}"


def bundle(
    name: str = "shop", annotations: dict[str, str] | None = None, **status: Any
) -> dict[str, Any]:
    named = {f"operator.werf.dev/{key}": value for key, value in (annotations or {}).items()}
    return {
        "metadata": {"namespace": "apps", "name": name, "uid": name, "annotations": named},
        "spec": {"registry": "r.example.com", "repo": "shop", "retry": {"limit": 1}},
        "status": status,
    }


def entry(day: int, version: str, letter: str, outcome: str = "Succeeded", **more: Any) -> Any:
    stamp = f"2026-01-{day:02}T12:00:00Z"
    known = {"version": version, "digest": digest(letter), "outcome": outcome, "time": stamp}
    return {**known, "job": f"shop-{day}", **more}


def events(body: dict[str, Any], *sources: dict[str, Any]) -> list[VersionEvent]:
    return timeline(BundleView(body, NOW, INSTALLATION), sources)


def shown(body: dict[str, Any], *sources: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(str(one.change), one.version, *one.notes) for one in events(body, *sources)]


@pytest.mark.needs("approval")
def test_what_each_attempt_did_is_said_in_words_the_newest_first() -> None:
    history = [
        entry(9, "1.1", "b", correction=True),
        entry(8, "1.1", "b"),
        entry(7, "1.1", "b"),
        entry(6, "1.2", "c", "Interrupted", reason="JobLost"),
        entry(5, "1.2", "c", reason="Deployed", approvedBy="ann"),
        entry(4, "1.2", "c", "Failed", reason="DeployFailed", approvedBy="ann"),
        entry(3, "1.1", "b", passedOver=[{"name": "window", "reason": "OutsideWindow"}]),
        entry(2, "1.0", "a"),
    ]
    assert shown(bundle(history=history)) == [
        ("Drift corrected", "1.1"),
        ("Deployed again", "1.1"),
        ("Rolled back", "1.1"),
        ("Interrupted", "1.2"),
        ("Deployed", "1.2", "approved by ann"),
        ("Failed", "1.2", "approved by ann"),
        ("Deployed", "1.1", "passed over window"),
        ("Deployed", "1.0"),
    ]
    reasons = [one.reason for one in events(bundle(history=history)) if one.reason]
    assert reasons == ["JobLost", "DeployFailed"]


@pytest.mark.needs("approval")
def test_the_running_attempt_is_the_newest_entry() -> None:
    running = {"version": "1.1", "digest": digest("b"), "outcome": "Running", "job": "shop-3"}
    running |= {"startedAt": "2026-01-10T11:59:00Z", "approvedBy": "bob"}
    body = bundle(history=[entry(2, "1.0", "a")], attempted=running)
    assert shown(body) == [("Deploying", "1.1", "approved by bob"), ("Deployed", "1.0")]


def test_only_the_newest_attempt_has_a_message_and_says_what_became_of_it() -> None:
    history = [entry(n, "1.1", "b", "Failed", reason="DeployFailed") for n in (3, 2)]
    attempted = {
        "version": "1.1",
        "digest": digest("b"),
        "outcome": "Failed",
        "job": "shop-3",
        "message": "timed out\n\x1b[2J",
        "failures": 2,
        "rollback": "Succeeded",
    }
    body = bundle(history=history, attempted=attempted, deployed={"version": "1.0"})
    newest, former = events(body)
    assert newest.message == "timed out \\x1b[2J"
    assert list(newest.notes) == ["rolled back to 1.0", "quarantined: it failed 2 times"]
    assert newest.command == "copyrator reconcile bundle apps/shop"
    assert (former.message, former.notes, former.command) == ("", [], "")
    attempted["failures"] = 1
    assert events(body)[0].command == ""


@pytest.mark.needs("promotion")
def test_a_version_was_promoted_from_the_bundle_that_had_it_before() -> None:
    soak = [{"version": "1.0", "digest": digest("a"), "since": "2026-01-01T12:00:00Z"}]
    staging = bundle("staging", soak=soak)
    later = bundle("later", history=[entry(5, "1.0", "a")])
    broken = bundle("broken", history=[entry(1, "1.0", "a", "Failed")])
    body = bundle(history=[entry(3, "1.0", "a")])
    assert shown(body, staging, later, broken) == [
        ("Deployed", "1.0", "promoted from apps/staging")
    ]
    assert shown(body, later, broken) == [("Deployed", "1.0")]


@pytest.mark.needs("approval")
@pytest.mark.parametrize(("decision", "word"), [("Approved", "Approved"), ("Rejected", "Rejected")])
def test_a_decision_about_a_plan_is_an_entry_until_the_plan_is_deployed(
    decision: str, word: str
) -> None:
    plan = {"id": "p", "version": "1.1", "decision": decision, "by": "ann"}
    body = bundle(plan=plan | {"at": "2026-01-10T11:00:00Z"}, history=[entry(2, "1.0", "a")])
    assert shown(body) == [(word, "1.1", "by ann"), ("Deployed", "1.0")]
    body["status"]["attempted"] = {"plan": "p", "outcome": "Succeeded"}
    assert shown(body) == [("Deployed", "1.0")]


@pytest.mark.needs("rollback")
def test_a_pin_and_skipped_digests_have_the_command_that_ends_them() -> None:
    pin = {"version": "1.0", "digest": digest("a"), "at": "2026-01-09T12:00:00Z"}
    skipped = {"skip-digests": f"{digest('c')},{digest('d')}"}
    rejected = [{"version": "1.3", "reason": "Skipped"}]
    history = [entry(9, "1.0", "a"), entry(8, "1.2", "c")]
    body = bundle(annotations=skipped, pin=pin, history=history, available={"rejected": rejected})
    found = events(body)
    assert [(one.change, one.version, one.command) for one in found] == [
        ("Skipped", "1.2", "copyrator unskip bundle apps/shop 1.2"),
        ("Skipped", "1.3", "copyrator unskip bundle apps/shop 1.3"),
        ("Rolled back", "1.0", ""),
        ("Pinned", "1.0", "copyrator unpin bundle apps/shop"),
        ("Deployed", "1.2", ""),
    ]


@given(JSON, JSON)
def test_any_status_has_a_timeline_of_printable_and_bounded_texts(status: Any, part: Any) -> None:
    forged = dict.fromkeys(("history", "attempted", "plan", "pin", "soak", "available"), part)
    for one in (status, forged, {"history": [part], "attempted": {"message": "x" * 65536}}):
        body = bundle() | {"status": one}
        for event in events(body, body, {"metadata": {"name": "x", "namespace": "y"}}):
            texts = (event.version, event.reason, event.message, *event.notes)
            assert all(text == printable(text) and "\n" not in text for text in texts)
            assert all(len(text) <= 4 * MESSAGE + 1 for text in texts)
