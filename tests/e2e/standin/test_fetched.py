"""What werf reads besides the bundle: values and files that variables name, and dependencies."""

import re
from collections.abc import Callable
from pathlib import Path

from tests.e2e.standin.conftest import Charts, Werf, detail, each_version
from tests.e2e.standin.test_render import RECORDED, rendered


def test_values_at_an_address_are_read_at_each_run(
    werf: Werf, charts: Charts, site: tuple[Path, str]
) -> None:
    charts.push()
    directory, url = site
    werf.env["WERF_VALUES_ZZZ"] = f"{url}/values.yaml"

    (directory / "values.yaml").write_text("greeting: planned\n")
    assert "greeting: planned\n" in werf.plan().output
    (directory / "values.yaml").write_text("greeting: another\n")
    werf.apply()

    assert werf.object("demo-cm")["data"]["greeting"] == "another"


def test_a_variable_brings_a_file_of_the_pod_into_the_plan(werf: Werf, charts: Charts) -> None:
    charts.push()
    token = werf.directory / "token"
    token.write_text("the-token")

    plan = werf.plan(WERF_SET_FILE_1=f"greeting={token}")

    assert "greeting: the-token\n" in plan.output


@detail
def test_a_string_is_set_as_one(werf: Werf, charts: Charts) -> None:
    charts.push(cm="{{ fail (kindOf .Values.greeting) }}")

    for name, kind in (("WERF_SET_1", "int64"), ("WERF_SET_STRING_1", "string")):
        plan = werf.plan(**{name: "greeting=1"})
        assert plan.code == 1
        assert f": {kind}\n" in plan.output


@each_version
def test_a_missing_dependency_is_downloaded_as_the_recorded_one(
    werf: Werf, depending: Callable[[str], None], site: tuple[Path, str], version: str
) -> None:
    recorded = (RECORDED / version / "render-dependency.txt").read_text().split("\n", 2)[2]

    text = rendered(werf, WERF_ADD_LABEL_0="a=b")

    assert text == recorded.replace("http://127.0.0.1:1", site[1])
    cache = Path(werf.env["HOME"]) / ".werf" / "local_cache" / "helm_chart_dependencies"
    assert len(list(cache.iterdir())) == 1
    again = rendered(werf, WERF_ADD_LABEL_0="a=b")
    assert again == text[text.index("---\n") :], "taken from the cache"


def test_a_dependency_that_changes_is_deployed_unseen_by_another_home(
    werf: Werf, depending: Callable[[str], None]
) -> None:
    werf.env["WERF_SKIP_DEPENDENCIES_REPO_REFRESH"] = "1"
    assert "text: one\n" in werf.plan().output
    depending("two")
    assert "text: one\n" in werf.plan().output, "the same HOME"

    werf.apply(WERF_HOME=str(werf.directory / "another"))

    assert werf.object("from-sub")["data"] == {"text": "two"}


def test_without_a_lock_nothing_is_downloaded(werf: Werf, charts: Charts) -> None:
    more = "dependencies: [{name: sub, version: 1.0.0, repository: http://127.0.0.1:1}]\n"
    charts.push(more=more)

    plan = werf.plan()

    assert plan.code == 1
    assert re.search("missing in charts/ directory: sub$", plan.last), plan.output
