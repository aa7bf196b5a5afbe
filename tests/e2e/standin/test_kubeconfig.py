"""Which cluster and user werf takes: a variable names them, and may run a command for them."""

import base64
import json
from typing import Any

import pytest
from tests.e2e.standin.conftest import Charts, Werf, mark

ENCODED = [
    "WERF_KUBE_CONFIG_BASE64",
    "WERF_KUBECONFIG_BASE64",
    "KUBECONFIG_BASE64",
]


@pytest.mark.parametrize("name", ENCODED)
def test_a_variable_runs_the_command_of_its_plug_in(
    werf: Werf, charts: Charts, plugin: dict[str, Any], name: str
) -> None:
    charts.push()
    config = base64.b64encode(json.dumps(plugin).encode()).decode()

    plan = werf.plan(WERF_KUBE_CONFIG="/nowhere", **{name: config})

    assert plan.code == 2, plan.output
    assert set(mark(werf).read_text().split()) == {"ran"}
    assert not list(werf.directory.glob("werf-kubeconfig-*")), "nothing of it is left"


@pytest.mark.parametrize("command", ["plan", "render", "apply"])
def test_so_does_a_file(werf: Werf, charts: Charts, plugin: dict[str, Any], command: str) -> None:
    charts.push()
    file = werf.directory / "kubeconfig"
    file.write_text(json.dumps(plugin))

    env = {"WERF_KUBE_CONFIG": "", "KUBECONFIG": str(file), "WERF_VALIDATE": "1"}
    code, output = werf.run("bundle", command, WERF_TAG="1.0.0", **env)

    assert code == 0, output
    assert mark(werf).exists()


def test_a_render_that_asks_no_cluster_runs_nothing(
    werf: Werf, charts: Charts, plugin: dict[str, Any]
) -> None:
    charts.push()
    config = base64.b64encode(json.dumps(plugin).encode()).decode()

    code, output = werf.run("bundle", "render", WERF_TAG="1.0.0", KUBECONFIG_BASE64=config)

    assert code == 0, output
    assert not mark(werf).exists()


def test_a_plug_in_that_fails_ends_the_plan(
    werf: Werf, charts: Charts, plugin: dict[str, Any]
) -> None:
    charts.push()
    plugin["users"][0]["user"]["exec"]["args"] = ["-c", "exit 3"]
    config = base64.b64encode(json.dumps(plugin).encode()).decode()

    plan = werf.plan(WERF_KUBE_CONFIG_BASE64=config)

    assert plan.code == 1
    assert plan.last.endswith("getting credentials: exec: executable sh failed with exit code 3")
