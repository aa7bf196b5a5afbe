"""Requests are counted once each, by user, verb and resource."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from localcluster.audit import WRITE_VERBS, Requests, offset, read_events


def entry(number: int, verb: str, resource: str = "secrets", **more: Any) -> dict[str, Any]:
    return {
        "auditID": str(number),
        "stage": "ResponseComplete",
        "requestURI": f"/api/v1/namespaces/a/{resource}",
        "verb": verb,
        "user": {"username": "bot"},
        "objectRef": {"resource": resource, "namespace": "a", "name": "n"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": "2026-11-21T18:00:00.250000Z",
        "stageTimestamp": "2026-11-21T18:00:00.750000Z",
        **more,
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


def write(log: Path, *entries: dict[str, Any]) -> None:
    """Of a write there is a line when it comes, too."""
    with log.open("a") as lines:
        for one in entries:
            if one["verb"] in WRITE_VERBS:
                lines.write(json.dumps({**one, "stage": "RequestReceived"}) + "\n")
            lines.write(json.dumps(one) + "\n")


def test_a_watch_that_began_and_ended_is_one_request(log: Path) -> None:
    write(log, entry(1, "watch", stage="ResponseStarted"), entry(1, "watch"), entry(2, "list"))

    assert [event.verb for event in read_events(log)] == ["watch", "list"]


def test_only_what_came_since_is_read(log: Path) -> None:
    assert offset(log) == 0
    write(log, entry(1, "create"))
    requests = Requests(log, offset(log))
    write(log, entry(2, "update"), entry(3, "get"), entry(4, "update", "configmaps"))

    assert requests.count() == Counter(
        {("update", "secrets"): 1, ("update", "configmaps"): 1, ("get", "secrets"): 1}
    )
    assert len(requests.writes()) == 2
    assert len(requests.all(resource="configmaps", verb="update")) == 1
    assert requests.all(user="someone") == []


def test_a_write_that_came_before_is_not_counted_where_its_last_line_is_late(log: Path) -> None:
    """What it did may be seen before that line."""
    write(log, received(1, datetime.now(UTC)))
    requests = Requests(log, offset(log))
    write(log, entry(2, "update"))
    with log.open("a") as lines:
        lines.write(json.dumps(entry(1, "update")) + "\n")
    write(log, entry(3, "get"))

    assert [event.verb for event in requests.all()] == ["update", "get"]


def test_an_impersonated_user_is_the_user(log: Path) -> None:
    write(log, entry(1, "get", impersonatedUser={"username": "jane"}))

    assert read_events(log)[0].user == "jane"


def test_a_line_that_is_being_written_is_left_for_later(log: Path) -> None:
    write(log, entry(1, "get"))
    with log.open("a") as lines:
        lines.write('{"auditID": "2", "verb"')

    assert len(read_events(log)) == 1


def test_a_line_that_was_being_written_when_it_began_was_before(log: Path) -> None:
    whole = json.dumps(entry(1, "create")) + "\n"
    log.write_text(whole[:40])
    requests = Requests(log, offset(log))
    assert requests.all() == []

    log.write_text(whole)
    write(log, entry(2, "update"))

    assert [event.verb for event in requests.all()] == ["update"]


def test_a_missing_right_is_told_from_another_403(log: Path) -> None:
    refused = {"responseStatus": {"code": 403}}
    forbid, allow = ({"authorization.k8s.io/decision": word} for word in ("forbid", "allow"))
    write(log, entry(1, "create", annotations=forbid, **refused))
    write(log, entry(2, "create", annotations=allow, **refused))

    assert [event.denied for event in read_events(log)] == [True, False]


def received(number: int, at: datetime) -> dict[str, Any]:
    return entry(number, "update", stage="RequestReceived", stageTimestamp=at.isoformat())


def test_a_write_that_came_and_is_not_done_is_waited_for(log: Path) -> None:
    write(log, received(1, datetime.now(UTC)))
    with ThreadPoolExecutor(1) as others:
        found = others.submit(read_events, log)
        with pytest.raises(TimeoutError):
            found.result(0.1)
        write(log, received(2, datetime.now(UTC)), entry(1, "update"))
        # What came after the look isn't waited for, or a busy server would never be read.
        assert [event.verb for event in found.result(60)] == ["update"]


def test_a_write_that_a_killed_server_never_ended_is_not_waited_for(log: Path) -> None:
    write(log, received(1, datetime.now(UTC) - timedelta(minutes=1)), entry(2, "create"))
    assert [event.verb for event in read_events(log)] == ["create"]
