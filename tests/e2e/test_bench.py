"""The benchmarks, at a size that takes seconds: what they count is true, and is written down."""

import json
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.e2e.installation import uninstall
from tests.e2e.operator_process import HOME
from tests.e2e.vanishing import sweep, vanish
from tests.long import LONG

from demo.chart import ROOT
from localcluster.paths import state_root
from localcluster.processes import marked
from localcluster.waiting import eventually

FIGURES = {"create_ratio", "update_ratio", "writes_a_copy", "reads_a_copy", "peak_mb"}


@pytest.fixture
def bench(monkeypatch):
    """`python -m bench` in this process."""
    from bench.__main__ import main  # noqa: PLC0415 - every worker would import kopf for it

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return lambda *arguments: CliRunner().invoke(main, arguments)


@pytest.fixture
def no_other_cluster(cluster, bench, monkeypatch):
    """A scenario runs on the worker's control plane and once; `bench` starts one for each."""
    from bench.scenario import REGISTRY  # noqa: PLC0415 - as above

    monkeypatch.setattr("bench.__main__.started", lambda _name: nullcontext(cluster))
    once = replace(REGISTRY["fan-out"], warm_up=False)
    monkeypatch.setitem(REGISTRY, "fan-out", once)
    yield
    uninstall(cluster, HOME)
    cluster.api().delete("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/bench:bare")
    vanish(cluster, ["bundles"])
    sweep(cluster, "fan-out-")


@pytest.mark.skipif(not LONG, reason="make test-long: make bench is that itself")
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("no_other_cluster")
def test_a_scenario_is_measured_beside_the_bare_client_and_written_down(bench, tmp_path):
    figures = tmp_path / "figures.json"
    size = ("--size", "20", "--runs", "1", "--rest", "0")
    done = bench("fan-out", *size, "--json", str(figures))
    assert done.exit_code == 0, done.output
    (result,) = json.loads(figures.read_text())["results"]
    assert result["size"] == 20
    assert result["figures"].keys() >= FIGURES
    found = {name: figure["values"] for name, figure in result["figures"].items()}
    assert found["writes_a_copy"] == [1.0]
    assert found["reads_a_copy"] == [0.0]
    assert found["create_seconds"][0] > 0 < found["bare_create_seconds"][0]
    ratio = found["create_seconds"][0] / found["bare_create_seconds"][0]
    assert found["create_ratio"] == [pytest.approx(ratio)]
    (requests,) = result["requests"]
    assert requests["update"] == requests["delete"] == 20 <= requests["create"]  # Events, too
    assert "| One Secret of 2 KB into 20 namespaces" in done.stdout


MOMENTS = {"while the control plane starts": ("kube-apiserver.log", "")}
if LONG:
    MOMENTS["while the operator runs"] = ("operator.log", "Started:")


@pytest.mark.skipif(not LONG, reason="make test-long: it is about the benchmarks")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "says"), MOMENTS.values(), ids=MOMENTS)
def test_a_run_that_is_ended_leaves_nothing_behind(name, says):
    state = state_root() / "bench-this"
    running = subprocess.Popen(
        [sys.executable, "-m", "bench", "base"],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = state / "logs" / name
    eventually(lambda: log.exists() and says in log.read_text(), f"{name}: {says}", 480)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "Traceback" not in said
    assert marked(state) == []
    assert not state.exists()
