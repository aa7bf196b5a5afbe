"""What a Bundle's timeline says of its versions, however its status was forged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from tests.builders.bundles import known

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
    body = known({"retry": {"limit": 1}}, annotations, name=name, **status)
    body["metadata"]["uid"] = name
    return body


def entry(day: int, version: str, letter: str, outcome: str = "Succeeded", **more: Any) -> Any:
    stamp = f"2026-01-{day:02}T12:00:00Z"
    known = {"version": version, "digest": digest(letter), "outcome": outcome, "time": stamp}
    return {**known, "job": f"shop-{day}", **more}


def events(body: dict[str, Any], *sources: dict[str, Any]) -> list[VersionEvent]:
    return timeline(BundleView(body, NOW, INSTALLATION), sources)


def shown(body: dict[str, Any], *sources: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(str(one.change), one.version, *one.notes) for one in events(body, *sources)]


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


@given(JSON, JSON)
def test_any_status_has_a_timeline_of_printable_and_bounded_texts(status: Any, part: Any) -> None:
    forged = dict.fromkeys(("history", "attempted", "plan", "pin", "soak", "available"), part)
    for one in (status, forged, {"history": [part], "attempted": {"message": "x" * 65536}}):
        body = bundle() | {"status": one}
        for event in events(body, body, {"metadata": {"name": "x", "namespace": "y"}}):
            texts = (event.version, event.reason, event.message, *event.notes)
            assert all(text == printable(text) and "\n" not in text for text in texts)
            assert all(len(text) <= 4 * MESSAGE + 1 for text in texts)
