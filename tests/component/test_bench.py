"""What documents say of the benchmarks is what the last run measured."""

import re

import bench.__main__  # noqa: F401 - defines all scenarios
import pytest
from bench import report
from bench.scenario import REGISTRY


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
