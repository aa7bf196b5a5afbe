"""The recorded pages of metrics are what an operator serves; COPYRATOR_RECORD=1 records them anew.

tests/component/test_monitoring.py evaluates alerts and dashboard over them.
"""

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.faults.light import Light
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.installation import install, uninstall
from tests.e2e.monitoring.setup import DEPLOYED, INTERVAL, Setup
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.vanishing import vanish
from tests.long import LONG
from tests.monitoring.pages import BAD, GOOD, RECORDED, recorded, shape

from localcluster import Api, Cluster

pytestmark = pytest.mark.timeout(600)

RECORDS = bool(os.environ.get("COPYRATOR_RECORD"))


@pytest.fixture
def setup(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Setup]:
    home, teams = f"op-{secrets.token_hex(3)}", f"team-{secrets.token_hex(3)}"
    direct = install(cluster, home)
    api.create("/api/v1/namespaces", {"metadata": {"name": teams}})
    light = Light(api, home, make_team(cluster, api, teams, tmp_path))
    settings = {
        "NAMESPACE": home,
        "WERF_OPERATOR_TIMER_INTERVAL": str(INTERVAL),
        "WERF_OPERATOR_TIMER_IDLE": "0",
    }
    with FaultProxy(cluster) as proxy:
        kubeconfig = proxy.kubeconfig(direct, tmp_path / "kubeconfig")
        with OperatorProcess(kubeconfig, tmp_path / "operator.log", settings=settings) as process:
            process.wait_ready()
            yield Setup(proxy, process, light)
            assert process.stop() == 0
            assert "Traceback" not in process.log
    vanish(cluster, light.targets)
    uninstall(cluster, home)


def test_the_recorded_pages_are_what_an_operator_serves(setup: Setup) -> None:
    """All of them with COPYRATOR_LONG or COPYRATOR_RECORD; in `make test` that of good days."""
    setup.light.begin()
    setup.wait_right()
    setup.wait_value(DEPLOYED)
    pages = {GOOD[0]: setup.page}
    setup.do_some_work()
    pages[GOOD[1]] = setup.page
    if LONG or RECORDS:
        with setup.all_bad():
            pages[BAD] = setup.page
    for name, page in pages.items():
        if RECORDS:
            lines = [one for one in page.splitlines(keepends=True) if "copyrator_" in one]
            (RECORDED / f"{name}.prom").write_text("".join(lines))
        expected, served = shape(recorded(name)), shape(page)
        # The operator serves other tests' Bundles too: a counter with labels exists from its
        # first increment on, such as that of releases left behind in a Terminating namespace.
        others = {one for one in served if one.endswith("_total") and served[one]}
        for series in others - expected.keys():
            del served[series]
        assert expected == served, f"{name}: record it anew, COPYRATOR_RECORD=1"
