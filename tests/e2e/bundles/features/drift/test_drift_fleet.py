"""Many Bundles whose drift is looked for each quarter of an hour: no check is late or left out."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.faults.recorder import Recorder
from tests.e2e.operator_process import until
from tests.long import long_form

from copyrator.api.text import parse_time
from copyrator.bundles.features.drift.record import check_rhythm

FLEET = 300
EVERY = 900.0
"""Seconds: the shortest interval that may be set."""
LATE = 60.0
"""Seconds that a check may wait for its turn."""
PLACES = 2
"""Half of the default --max-plan-jobs."""
TOGETHER = 6
"""Bundles that are deployed side by side: the machine's memory is for other tests, too."""
EACH = 20.0
"""Seconds for a deploy and its baseline, on a loaded machine."""
REQUESTS = 15
"""The operator's for a check."""
Body = dict[str, Any]


def checked_at(body: Body) -> datetime | None:
    return parse_time(body.get("status", {}).get("drift", {}).get("checkedAt"))


def drifted(body: Body) -> str:
    """The reason of the condition."""
    conditions = body.get("status", {}).get("conditions", [])
    return "".join(one["reason"] for one in conditions if one["type"] == "Drifted")


def are_in_sync(bundles: Recorder, number: int, since: datetime) -> bool:
    """Whether so many were compared since then, and nothing has drifted."""
    found = bundles.newest().values()
    return len(found) == number and all(
        (checked_at(body) or since) > since and drifted(body) == "InSync" for body in found
    )


def at_once(jobs: Recorder) -> int:
    """How many checks ran side by side at most."""
    running: set[str] = set()
    most = 0
    for state in jobs.states:
        metadata = state["metadata"]
        if metadata["labels"].get("operator.werf.dev/job") != "drift":
            continue
        running.add(metadata["uid"])
        if state.get("status", {}).get("conditions") or metadata.get("deletionTimestamp"):
            running.discard(metadata["uid"])
        most = max(most, len(running))
    return most


def metric(operator: Operator, name: str) -> float:
    assert operator.process is not None
    _, text = operator.process.get("/metrics")
    (found,) = re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)
    return float(found)


def lateness(body: Body) -> float:
    """Seconds from the Bundle's time to the beginning of its last check."""
    began = parse_time(body["status"]["drift"]["check"]["startedAt"])
    assert began is not None
    rhythm = check_rhythm(body["metadata"]["uid"], EVERY)
    due = rhythm.after(began - timedelta(seconds=EVERY))
    return (began - due).total_seconds()


@long_form(
    "tests/component/bundles/features/drift/test_drift_queue.py::test_half_of_the_places_are_for_checks"
)
@pytest.mark.timeout(7200)
def test_a_fleet_is_checked_each_quarter_of_an_hour(team: Team, operator: Operator) -> None:
    team.publish("1.0.0", "first")
    begin = datetime.now(UTC) - timedelta(seconds=1)
    skipped = metric(operator, "copyrator_drift_checks_skipped_total")
    with (
        Recorder(team.api, team.path("jobs")) as jobs,
        Recorder(team.api, team.path("bundles")) as bundles,
    ):
        for number in range(FLEET):
            drift = {"mode": "Detect", "interval": "15m"}
            team.bundle(f"shop{number:03}", interval="1h", drift=drift)
            if (number + 1) % TOGETHER == 0 or number + 1 == FLEET:
                until(
                    lambda there=number + 1: are_in_sync(bundles, there, begin),
                    "each has its baseline",
                    EACH * TOGETHER,
                )
        checked(team, operator, bundles)
        assert jobs.whole()
        assert bundles.whole()
        assert 0 < at_once(jobs) <= PLACES
    assert metric(operator, "copyrator_drift_checks_skipped_total") == skipped


def checked(team: Team, operator: Operator, bundles: Recorder) -> None:
    """Each Bundle's next check, and what they cost."""
    begin, requests = datetime.now(UTC), team.cluster.requests()
    cpu = metric(operator, "process_cpu_seconds_total")
    until(
        lambda: are_in_sync(bundles, FLEET, begin), "each is checked once more", EVERY + LATE + EACH
    )
    cpu = metric(operator, "process_cpu_seconds_total") - cpu
    late = sorted(map(lateness, bundles.newest().values()))
    made = [one for one in requests.all(user=operator.user) if one.verb != "watch"]
    found = {
        "late, median": late[len(late) // 2],
        "late, most": late[-1],
        "operator's CPU seconds": round(cpu, 1),
        "requests for a check": round(len(made) / FLEET, 1),
    }
    print(json.dumps(found))  # noqa: T201 - the figures of a long run
    assert late[-1] <= LATE
    assert len(made) <= REQUESTS * FLEET
