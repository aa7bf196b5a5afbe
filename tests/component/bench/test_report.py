"""The table, the file of figures and the drawings.

To name the machine, and to find fonts the first time, programs are started.
"""

from bench import report
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


def test_a_figure_without_a_goal_is_told():
    assert rows(result(1.0))[1] == "|  | all |  | 2 s |  |  |"


def test_requests_are_told_by_verb_as_in_the_median_run():
    made = Result("fan-out", "One into many", 1000, "this")
    for patches in (3, 7, 4):
        made.add(GOALS, {"ratio": 1.0}, {"create": 1000, "patch": patches})
    assert rows(made)[1] == "|  | requests of a run |  | 1,000 create, 4 patch |  |  |"


def test_what_is_for_plots_is_not_in_the_table():
    assert len(rows(result(1.0))) == 2


def test_two_trees_are_told_apart():
    assert [row.split("|")[1] for row in rows(result(1.0), result(1.1, tree="that"))[::2]] == [
        " One into many (this) ",
        " One into many (that) ",
    ]


def test_what_is_written_is_what_is_read(tmp_path):
    path = tmp_path / "figures.json"
    made = result(1.1, 1.2)
    made.add(GOALS, {}, {"list": 2})
    report.write_json([made], path)
    assert report.read_json(path) == [made]


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
