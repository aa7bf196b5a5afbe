"""The table of figures, the file of them and the drawings; what is read from the registry's log.

To name the machine, and to find fonts the first time, programs are started.
"""

import re
from pathlib import Path

import bench.__main__  # noqa: F401 - defines all scenarios
import pytest
from bench import report
from bench.polling import _heads
from bench.scenario import REGISTRY, Goal, Result
from tests.long import LONG

GOALS = {"ratio": Goal("against the bare client", "times", 1.3), "seconds": Goal("all", "s")}


def result(*ratios, tree="this"):
    made = Result("fan-out", "One into many", 1000, tree)
    for ratio in ratios:
        made.add(GOALS, {"ratio": ratio, "seconds": 2.0, "copies_memory_at_100": 70.0})
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
    grown.add(GOALS, {"copies_memory_at_200": 130.0})
    assert report.plot([grown]) == ["copies_memory"]
    drawn = (tmp_path / "copies_memory.svg").read_text()
    assert drawn.startswith("<?xml")
    assert {*report.CURVES["copies_memory"], "measured", "200"} <= texts(drawn)


def texts(drawn):
    """The texts of a plot."""
    return set(re.findall(r"<text[^>]*>([^<]+)</text>", drawn))


@pytest.mark.parametrize("name", report.CURVES)
def test_a_plot_in_the_docs_has_its_title_and_units(name):
    assert {*report.CURVES[name], "measured"} <= texts((report.PLOTS / f"{name}.svg").read_text())
    title, sizes, unit = report.CURVES[name]
    assert (
        f"![{title} in {unit}, by {sizes}](performance/{name}.svg)" in report.DOCUMENT.read_text()
    )


def test_tables_that_compare_tools_have_the_medians_of_the_run():
    figures = {"create_seconds": 1.524, "update_seconds": 2.0, "writes_a_copy": 1.0}
    fan_out = Result("fan-out", "", 1000, "this")
    drift = Result("drift", "", 1000, "this")
    before = Result("fan-out", "", 1000, "that")
    fan_out.add({}, figures)
    drift.add({}, {"p50_ms": 4.716})
    before.add({}, {"create_seconds": 9.0})
    text = (
        "| 1 object into 1,000 namespaces | 1 s | 198 s |\n| its update | 1.1 s | 2 s |\n"
        "| an edited or deleted copy is restored | 0.1 s | never |\n| memory | 1 MB | 2 MB |\n"
    )
    assert report.compared(text, [before, fan_out, drift]) == (
        "| 1 object into 1,000 namespaces | 1.52 s | 198 s |\n| its update | 2 s | 2 s |\n"
        "| an edited or deleted copy is restored | 4.72 ms | never |\n| memory | 1 MB | 2 MB |\n"
    )


def medians():
    """The medians in the table of the docs, by scenario and figure."""
    titles = {one.title.format(size=one.size): one for one in REGISTRY.values()}
    found, scenario = {}, None
    for line in report.DOCUMENT.read_text().partition("begin -->")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6:
            continue
        if cells[0]:
            scenario = titles.get(cells[0].removesuffix(" (the day before)"))
        if scenario:
            names = [name for name, goal in scenario.goals.items() if goal.text == cells[1]]
            found |= {(scenario.name, name): cells[3] for name in names}
        if line.startswith("## "):
            break
    return found


def test_what_is_compared_is_from_the_table_of_the_last_run():
    lines = report.COMPARISON.read_text().splitlines()
    found = 0
    for label, (scenario, figure, unit) in report.COMPARED.items():
        for line in [one for one in lines if one.startswith(f"| {label} |")]:
            assert line.split("|")[2].strip() == medians()[scenario, figure], label
            assert line.split("|")[2].strip().endswith(unit)
            found += 1
    assert found >= 4


def test_the_text_has_the_figures_of_the_table():
    text = report.DOCUMENT.read_text()
    head, missed = (
        text.partition(before)[2].partition("\n## ")[0]
        for before in ("# Performance\n", "\n## Missed goals\n")
    )
    assert f"**{medians()['large-restart', 'rss_mb']}** with 100,000" in head
    assert f"**{medians()['idle', 'cpu_percent']}** of a core" in head
    table = text.partition("begin -->")[2].partition("<!-- figures: end")[0]
    rows = [line.split("|")[4].strip() for line in table.splitlines() if "**missed**" in line]
    assert [median for median in rows if median not in missed] == []


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
