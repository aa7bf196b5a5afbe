"""What stands between the operator and the API server misbehaves while things change.

For each fault: the process stays, asks fewer than ten times a second beside what the changes need,
tells the fault once, deletes nothing and deploys nothing, and all is right again after its end.
"""

import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.faults.catalogue import FAULTS, Faults
from tests.e2e.faults.light import Light
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.vanishing import vanish
from tests.long import LONG

from localcluster import Api, Cluster

pytestmark = pytest.mark.timeout(300)

SECONDS = 40.0 if LONG else 4.0
"""How long a fault lasts, once everybody has met it."""
PATIENCE = 120.0
"""Seconds from its end until all is right, however busy the machine is. `make bench BENCH=faults`
measures the seconds."""
RATE = 10.0
"""Requests a second that a fault may cause, beside the writes that a change needs."""
STATUSES = 2
"""That a change writes, of the rule and of the Bundle, beside the copies."""
SOME = (
    "cut in mid-stream and mid-body",
    "500 and 503",
    "410 on watches and on page 2",
    "watches that go silent while they stand",
)
"""What `make test` has. The others are tried there with our client and reflectors alone, in
tests/component/kube, with kopf's watches in tests/component/handlers/test_kopf_guard.py, and what
silent watches and lost credentials make of /readyz in tests/component/runtime."""
FIRST = 0.0 if LONG else 1.0
"""Seconds at its beginning that aren't counted: all watches that were cut are opened again then,
and a short fault has little else."""


@dataclass
class Setup:
    proxy: FaultProxy
    process: OperatorProcess
    light: Light

    def complaints(self, since: int) -> Counter[str]:
        """What was said of trouble since then; numbers don't make a line another one."""
        found = re.findall(r"(?:WARNING|ERROR|CRITICAL) .*", self.process.log[since:])
        return Counter(re.sub(r"\d+", "N", line) for line in found)

    def wait_right(self, seconds: float) -> float:
        began = time.monotonic()
        until(
            lambda: not self.light.wrong(),
            lambda: f"{self.light.wrong()}\n{self.process.log[-4000:]}",
            seconds,
        )
        return time.monotonic() - began


@pytest.fixture(scope="module")
def setup(cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    logs: Path = tmp_path_factory.mktemp("faults")
    home, teams = f"op-{secrets.token_hex(3)}", f"team-{secrets.token_hex(3)}"
    direct = install(cluster, home)
    settings = {"NAMESPACE": home, "WERF_OPERATOR_TIMER_IDLE": "0"}
    api.create("/api/v1/namespaces", {"metadata": {"name": teams}})
    light = Light(api, home, make_team(cluster, api, teams, logs))
    light.begin()
    since = cluster.audit_offset()
    with FaultProxy(cluster) as proxy:
        kubeconfig = proxy.kubeconfig(direct, logs / "kubeconfig")
        with OperatorProcess(kubeconfig, logs / "operator.log", settings=settings) as process:
            process.wait_ready()
            setup = Setup(proxy, process, light)
            setup.wait_right(120.0)
            yield setup
            assert process.stop() == 0
            assert "Traceback" not in process.log
    ours = [one for one in cluster.audit_events(since) if home in one.user]
    assert [one for one in ours if one.verb == "delete" and one.resource == "secrets"] == []
    jobs = [one for one in ours if one.verb == "create" and one.resource == "jobs"]
    assert len([one for one in jobs if one.code < 300]) == 1, "one deploy, and no reason for more"
    vanish(cluster, [*light.targets, teams])
    uninstall(cluster, home)


MOST = FAULTS if LONG else {name: FAULTS[name] for name in SOME}


@pytest.mark.parametrize("faults", MOST.values(), ids=MOST)
def test_it_outlives(setup: Setup, faults: Faults, record_property) -> None:
    process, proxy, light = setup.process, setup.proxy, setup.light
    mark, began, step = len(process.log), time.monotonic(), light.step
    with ExitStack() as lasting, light.changing():
        for fault, chosen in faults:
            lasting.enter_context(proxy.fault(fault, chosen))
        until(lambda: met_by_both(proxy, began), "kopf and our reflectors met the fault")
        time.sleep(SECONDS)  # that is how long the fault lasts
    lasted = time.monotonic() - began
    needed = (light.step - step) * (len(light.targets) + STATUSES)
    asked = max(0, len(proxy.since(began + FIRST)) - needed)
    said = setup.complaints(mark)
    converged = setup.wait_right(PATIENCE)
    until(lambda: process.get("/readyz")[0] == 200, lambda: process.get("/readyz")[1], PATIENCE)
    record_property("requests a second", f"{asked / (lasted - FIRST):.1f}")
    record_property("lines", said.total())
    record_property("right after", f"{converged:.1f} s")
    assert process.code is None
    assert "Restarting in" not in process.log[mark:]
    assert asked / (lasted - FIRST) < RATE
    assert [line for line, times in said.items() if times > 1] == []


def met_by_both(proxy: FaultProxy, since: float) -> bool:
    by_kopf = {one.resource in ("copyrators", "bundles") for one in proxy.met(since)}
    return by_kopf == {True, False}
