"""The table of figures, the file of them and the drawings; what is read from the registry's log.

To name the machine, and to find fonts the first time, programs are started.
"""

from pathlib import Path

from bench import report
from bench.polling import _heads
from bench.scenario import Goal, Result
from tests.long import LONG

GOALS = {"ratio": Goal("against the bare client", "times", 1.3), "seconds": Goal("all", "s")}


def result(*ratios, tree="this"):
    made = Result("fan-out", "One into many", 1000, tree)
    for ratio in ratios:
        made.add(GOALS, {"ratio": ratio, "seconds": 2.0, "memory_at_100": 70.0})
    return made


def rows(*results):
    return report.table(list(results)).splitlines()[2:]


def test_a_figure_is_the_median_of_its_runs_with_their_spread():
    assert rows(result(1.1, 1.5, 1.2))[0] == (
        "| One into many | against the bare client | ≤ 1.3 times | 1.2 times | 1.1 to 1.5 | met |"
    )


def test_a_goal_that_is_missed_says_so():
    assert rows(result(1.4))[0].endswith("| 1.4 times |  | **missed** |")


def test_what_a_file_has_of_other_scenarios_stays(tmp_path):
    path = tmp_path / "figures.json"
    other = Result("burst", "Many into new ones", 1000, "this")
    report.write_json([result(1.1), other], path)
    assert report.write_json([result(1.2)], path) == [result(1.2), other]
    assert report.read_json(path) == [result(1.2), other]


def test_growth_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PLOTS", tmp_path)
    if LONG:
        monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))  # as on a machine that never drew
    grown = result(1.0)
    grown.add(GOALS, {"memory_at_200": 130.0})
    assert report.plot([grown]) == ["memory"]
    assert (tmp_path / "memory.svg").read_text().startswith("<?xml")


ACCESS = (
    '127.0.0.1 - - [22/Nov/2026:07:{}:57 +0000] "{} /v2/big/app/{} HTTP/1.1" {} 0 "" "copyrator/1"'
)


def test_only_heads_of_manifests_that_were_answered_are_polls(tmp_path: Path) -> None:
    log = tmp_path / "registry.log"
    begun = 'time="2026-11-22T07:08:57Z" level=info msg="response completed"'
    lines = [
        begun,
        ACCESS.format("08", "HEAD", "manifests/1.2.3", 200),
        ACCESS.format("08", "GET", "manifests/1.2.3", 200),
        ACCESS.format("08", "HEAD", "blobs/sha256:00", 200),
        ACCESS.format("08", "HEAD", "manifests/1.2.4", 404),
        ACCESS.format("09", "HEAD", "manifests/1.2.3", 200),
    ]
    log.write_text("\n".join([*lines, ""]))

    ((url, times),) = _heads(log, 0).items()

    assert url == "/v2/big/app/manifests/1.2.3"
    assert times[1] - times[0] == 60.0
    assert list(_heads(log, len("\n".join(lines[:5])) + 1).values()) == [times[1:]]
