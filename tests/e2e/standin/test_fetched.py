"""What werf reads besides the bundle: values and files that variables name, and dependencies."""

import http.server
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import Charts, Werf, detail
from tests.e2e.standin.test_render import RECORDED, rendered

from localcluster import Cluster

SUB = """
apiVersion: v1
kind: ConfigMap
metadata: {name: from-sub}
data: {text: TEXT}
"""
OWN = """
apiVersion: v1
kind: ConfigMap
metadata: {name: own}
data: {text: own}
"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Serve a directory at loopback."""
    handler = partial(_Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    directory = tmp_path / "site"
    directory.mkdir()
    with serving(directory) as url:
        yield directory, url


def helm(cluster: Cluster, *arguments: str, home: Path) -> None:
    env = {"HOME": str(home), "PATH": str(cluster.bin_dir)}
    subprocess.run([cluster.bin_dir / "helm", *arguments], env=env, check=True)


@pytest.fixture
def depending(
    cluster: Cluster, charts: Charts, werf: Werf, site: tuple[Path, str]
) -> Callable[[str], None]:
    """A bundle that names a chart of a repository, and hasn't got it; sets that chart's content."""
    directory, url = site

    def publish(text: str) -> None:
        sub = charts.directory / "sub"
        (sub / "templates").mkdir(parents=True, exist_ok=True)
        (sub / "Chart.yaml").write_text("apiVersion: v2\nname: sub\nversion: 1.0.0\n")
        (sub / "templates" / "cm.yaml").write_text(SUB.replace("TEXT", text))
        helm(cluster, "package", str(sub), "-d", str(directory), home=charts.directory)
        helm(cluster, "repo", "index", str(directory), "--url", url, home=charts.directory)

    publish("one")
    chart = charts.directory / "c"
    chart.mkdir()
    more = f"dependencies: [{{name: sub, version: 1.0.0, repository: {url}}}]\n"
    (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: c\nversion: 0.1.0\n{more}")
    helm(cluster, "dependency", "update", str(chart), home=charts.directory)
    (chart / "charts" / "sub-1.0.0.tgz").unlink()
    charts.push(name="c", more=more, cm=OWN)
    return publish


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


def test_a_missing_dependency_is_downloaded_as_the_recorded_one(
    werf: Werf, depending: Callable[[str], None], site: tuple[Path, str]
) -> None:
    recorded = (RECORDED / "2.67.0" / "render-dependency.txt").read_text().split("\n", 2)[2]

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
