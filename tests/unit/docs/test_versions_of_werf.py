"""The tested versions of werf: those that the stand-in plays, and the chart's is one of them."""

import re
from pathlib import Path

import yaml

from localcluster.standin import settings

ROOT = Path(__file__).resolve().parents[3]
SECTION = (ROOT / "docs/bundles.md").read_text().split("## Versions of werf\n")[1].split("\n## ")[0]
ROWS = dict(re.findall(r"^\| (\d\S+) \| (.*) \|$", SECTION, re.MULTILINE))


def test_the_table_has_the_versions_that_the_stand_in_plays() -> None:
    assert set(ROWS) == {each.removeprefix("v") for each in settings.VERSIONS}


def test_the_charts_version_is_in_the_table_as_its_default() -> None:
    values = yaml.safe_load((ROOT / "charts/copyrator/values.yaml").read_text())

    assert values["bundles"]["werfTag"] == "2.75.3"
    defaults = [each for each, text in ROWS.items() if "the chart's default" in text]
    assert defaults == ["2.75.3"]
    assert f"`bundles.werfTag` names ({defaults[0]})" in SECTION
    assert settings.version({}) == "v2.75.3", "what the tests run"


def test_werf_3_is_said_to_be_tried_and_in_channel_dev() -> None:
    assert ROWS["3.2.0"].startswith("dev | tried")
