"""API server and etcd are killed under a running operator and come back, also without history."""

import json
import re
import secrets
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.faults.light import Light
from tests.e2e.faults.proxy import FaultProxy, answers
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import DIRECT, OperatorProcess, until
from tests.e2e.vanishing import vanish
from tests.long import LONG, long_form

from localcluster import Cluster

# An API server that starts refuses what is asked before it has read the roles.
pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.refused("update leases", "get *", "list *", "watch *"),
]

HERE = "tests/e2e/faults/test_control_plane_dies.py"
COMPONENTS = ("kube-apiserver", "etcd")
AWAY = 30.0 if LONG else 5.0
"""Seconds for which the control plane is gone."""
CONVERGED = 180.0
"""Seconds until all is right, on a busy machine too; `make bench BENCH=outage` measures it."""
SETTINGS = {"WERF_OPERATOR_TIMER_INTERVAL": "3", "WERF_OPERATOR_TIMER_IDLE": "0"}


@dataclass
class Setup:
    cluster: Cluster
    home: str
    proxy: FaultProxy
    process: OperatorProcess
    light: Light
    since: int

    def wait_right(self) -> None:
        until(
            lambda: not self.light.wrong(),
            lambda: f"{self.light.wrong()}\n{self.process.log[-4000:]}",
            CONVERGED,
        )

    def jobs(self) -> int:
        """Those that were made, but for those in place of others.

        While controllers find their feet a Job may get no pod; an edit of the spec replaces it.
        """
        replaced = self.process.log.count("was deleted because the spec was edited")
        return self.written("create", "jobs") - replaced

    def went_on(self, jobs: int, digest: str) -> None:
        """All that changed and was pushed meanwhile is made up for, with one Job more."""
        self.light.change()
        self.wait_right()
        self.light.team.wait_deployed(self.light.word, digest)
        self.process.wait_ready()
        assert self.process.code is None
        assert self.jobs() == jobs + 1
        assert self.written("delete", "secrets") == 0

    def written(self, verb: str, resource: str) -> int:
        """What the operator did and the API server took."""
        events = self.cluster.audit_events(self.since)
        return sum(
            (one.verb, one.resource) == (verb, resource)
            and self.home in one.user
            and one.code < 300
            for one in events
        )


@pytest.fixture(scope="module")
def setup(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """The worker's own cluster: nobody else uses it now."""
    logs: Path = tmp_path_factory.mktemp("dies")
    api, home, team = cluster.api(), f"op-{secrets.token_hex(3)}", f"t-{secrets.token_hex(3)}"
    with FaultProxy(cluster) as proxy:
        direct = install(cluster, home)
        api.create("/api/v1/namespaces", {"metadata": {"name": team}})
        light = Light(api, home, make_team(cluster, api, team, logs))
        light.begin()
        since = cluster.audit_offset()
        kubeconfig = proxy.kubeconfig(direct, logs / "kubeconfig")
        settings = {**SETTINGS, "NAMESPACE": home}
        with OperatorProcess(kubeconfig, logs / "operator.log", settings=settings) as process:
            process.wait_ready()
            setup = Setup(cluster, home, proxy, process, light, since)
            until(lambda: not light.wrong(), lambda: f"{light.wrong()}\n{process.log}")
            yield setup
            assert process.stop() == 0
            assert "Traceback" not in process.log
    vanish(cluster, [*light.targets, team])
    uninstall(cluster, home)


@pytest.fixture(autouse=True)
def revived(setup: Setup) -> Iterator[None]:
    """Also after a test that failed: the next file's tests need the cluster."""
    yield
    for component, runs in setup.cluster.status().items():
        if not runs:
            setup.cluster.restart(component)


@long_form(f"{HERE}::test_without_its_history_everything_is_listed_again_and_nothing_is_lost")
def test_killed_and_back_it_goes_on_where_it_was(setup: Setup) -> None:
    jobs = setup.jobs()
    digest = setup.light.team.publish("1.0.0", "second")
    with setup.light.changing(undeterred=True):
        for component in COMPONENTS:
            setup.cluster.kill(component)
        time.sleep(AWAY)  # that is how long it is away
        for component in COMPONENTS[::-1]:
            setup.cluster.restart(component)
    setup.went_on(jobs, digest)


def test_without_its_history_everything_is_listed_again_and_nothing_is_lost(setup: Setup) -> None:
    jobs, restarts = setup.jobs(), listed_again(setup.process)
    with setup.proxy.fault(answers(503, "ServiceUnavailable")):
        for _ in range(3):
            setup.light.change()
        for component in COMPONENTS:  # the former's cache would remember
            setup.cluster.kill(component)
    digest = setup.light.team.publish("1.0.0", "third")
    time.sleep(AWAY)  # that is how long it is away
    setup.cluster.restart("etcd")
    compact(setup.cluster)
    setup.cluster.restart("kube-apiserver")
    setup.went_on(jobs, digest)
    assert listed_again(setup.process) - restarts >= 5, "the versions were gone"


def compact(cluster: Cluster) -> None:
    """Let etcd forget everything but the present."""
    now = etcd(cluster, "range", {"key": "AA=="})["header"]["revision"]
    etcd(cluster, "compaction", {"revision": now, "physical": True})


def etcd(cluster: Cluster, action: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
    url = f"{cluster.supervisor.plan.url('etcd', 'http')}/v3/kv/{action}"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with DIRECT.open(request) as answer:
        found: dict[str, dict[str, str]] = json.load(answer)
    return found


def listed_again(process: OperatorProcess) -> float:
    """Watches that began again, by the operator's count.

    Because their version was gone, or because before that they had been refused several times.
    """
    pattern = r'^copyrator_watch_restarts_total\{reason="(?:expired|lost)".*\} (\S+)$'
    return sum(map(float, re.findall(pattern, process.get("/metrics")[1], re.MULTILINE)))
