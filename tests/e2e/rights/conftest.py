"""The operator under the chart's rights, and the stage on which they are taken away."""

import contextlib
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.copies.conftest import User
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.installation import KINDS, install, rendered, uninstall
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.rights.bundle_cases import FAILS
from tests.e2e.rights.roles import Roles
from tests.e2e.rights.stage import Stage
from tests.e2e.vanishing import vanish

from demo.chart import Rendered
from localcluster import Api, Cluster

VALUES: dict[str, Any] = {**KINDS, "rules.bindClusterRoles": ["edit"]}


def settings(chart: Rendered) -> dict[str, str]:
    """The variables that the chart's Deployment gives the operator."""
    return {one["name"]: one["value"] for one in chart.container["env"] if "value" in one}


@pytest.fixture(scope="module")
def stage(cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One operator for all cases; it runs on while its rights come and go."""
    folder = tmp_path_factory.mktemp("rights")
    home = f"op-{secrets.token_hex(3)}"
    chart = rendered(cluster, home, VALUES)
    kubeconfig = install(cluster, home, chart)
    word = secrets.token_hex(3)
    places = {role: f"{role}-{word}" for role in ("source", "first", "second", "team", "bare")}
    for name in places.values():
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    log = folder / "operator.log"
    with FaultProxy(cluster) as proxy, contextlib.ExitStack() as stack:
        led = proxy.kubeconfig(kubeconfig, folder / "kubeconfig.yaml")
        process = OperatorProcess(led, log, settings=settings(chart))
        operator = stack.enter_context(process)
        roles = Roles(api, chart, home)
        team = make_team(cluster, api, places.pop("team"), folder)
        bare = Team(api, cluster, places.pop("bare"), folder)
        stage = Stage(User(api), operator, proxy, roles, home, **places, team=team, bare=bare)
        prepare(stage)
        operator.wait_ready()
        yield stage
        assert operator.stop() == 0
    assert "Traceback" not in log.read_text()
    uninstall(cluster, home)
    vanish(cluster, [*places.values(), team.namespace, bare.namespace])


def prepare(stage: Stage) -> None:
    """Bundles to deploy, and two copies that always work."""
    stage.team.publish("1.0.0", "", repo="rights/app")
    stage.team.publish(FAILS, "", repo="rights/app", template='{{ fail "no" }}\n')
    for plural in ("configmaps", "limitranges"):
        stage.make_source(plural, "canary")
        rule = f"canary-{plural}"
        kind = {"configmaps": "ConfigMap", "limitranges": "LimitRange"}[plural]
        source = {"kind": kind, "namespace": stage.source, "name": "canary"}
        targets = {"namespaces": [stage.first]}
        stage.user.rule(stage.home, rule, {"source": source, "targets": targets})
