"""The stop button where the operator serves some namespaces: it reads these, and watches no others.

That no request is refused is seen by the audit log, in every module.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.bundles.features.freeze.test_freeze import Terminal, waits
from tests.e2e.installation import apply, install, uninstall
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.rights.conftest import settings
from tests.e2e.vanishing import vanish

from demo.chart import render
from localcluster import Api, Cluster


@pytest.fixture
def home(cluster: Cluster, api: Api) -> Iterator[str]:
    name = f"op-{secrets.token_hex(3)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    uninstall(cluster, name)


def test_freezes_are_obeyed_with_roles_alone(
    cluster: Cluster, api: Api, home: str, team: Team, tmp_path: Path
) -> None:
    values = {
        "watchNamespaces": [team.namespace],
        "bundles.timerInterval": 3,
        "bundles.timerIdle": 1,
    }
    rendered = render(cluster.helm, namespace=home, values=values)
    rendered.deployment["spec"]["replicas"] = 0
    kubeconfig = install(cluster, home, rendered)
    apply(api, [rendered.deployment])
    terminal = Terminal(cluster, home)
    digest = team.publish("1.0.0", "first")
    terminal.types(f"freeze -n {team.namespace}", reason="inventory")
    with OperatorProcess(kubeconfig, tmp_path / "log", settings=settings(rendered)) as operator:
        team.bundle("shop")
        assert "inventory" in waits(team)["message"], "from the first deploy on"
        assert "inventory" in terminal.types("why shop --kind bundle -n " + team.namespace)
        terminal.types("freeze --all", reason="incident")
        terminal.types(f"thaw -n {team.namespace}")
        until(lambda: "all namespaces are frozen" in waits(team)["message"], "the other freeze")
        said = terminal.types("freeze -n default", code=1, reason="not ours")
        assert f"serves only the namespaces {team.namespace}" in said
        assert team.jobs("shop") == []
        terminal.types("thaw --all")
        team.wait_deployed("shop", digest)
        assert operator.stop() == 0


@pytest.fixture
def team(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Team]:
    name = f"team-{secrets.token_hex(3)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield make_team(cluster, api, name, tmp_path)
    vanish(cluster, [name])
