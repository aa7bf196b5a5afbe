"""The recorded pages of metrics are what an operator serves; COPYRATOR_RECORD=1 records them anew.

tests/component/test_monitoring.py evaluates alerts and dashboard over them.
"""

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.faults.light import Light
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.vanishing import vanish
from tests.monitoring.pages import GOOD, RECORDED, recorded, shape

from localcluster import Api, Cluster

pytestmark = pytest.mark.timeout(600)

DEPLOYED = r'^copyrator_deploys_total\{action="deploy",result="succeeded"\} [1-9]'


@dataclass
class Setup:
    process: OperatorProcess
    light: Light

    @property
    def page(self) -> str:
        """The metrics that are served now."""
        status, body = self.process.get("/metrics")
        assert status == 200, body
        return body

    def works(self) -> None:
        """Wait until all copies are right, and a Bundle has been deployed."""
        until(lambda: not self.light.wrong(), lambda: str(self.light.wrong()))
        until(lambda: re.search(DEPLOYED, self.page, re.MULTILINE), lambda: self.page)


@pytest.fixture
def setup(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Setup]:
    home, teams = f"op-{secrets.token_hex(3)}", f"team-{secrets.token_hex(3)}"
    kubeconfig = install(cluster, home)
    api.create("/api/v1/namespaces", {"metadata": {"name": teams}})
    light = Light(api, home, make_team(cluster, api, teams, tmp_path))
    settings = {
        "NAMESPACE": home,
        "WERF_OPERATOR_TIMER_INTERVAL": "10",
        "WERF_OPERATOR_TIMER_IDLE": "0",
    }
    with OperatorProcess(kubeconfig, tmp_path / "operator.log", settings=settings) as process:
        process.wait_ready()
        yield Setup(process, light)
        assert process.stop() == 0
        assert "Traceback" not in process.log
    vanish(cluster, light.targets)
    uninstall(cluster, home)


def test_the_recorded_pages_are_what_an_operator_serves(setup: Setup) -> None:
    setup.light.begin()
    setup.works()
    pages = {GOOD[0]: setup.page}
    for _ in range(2):
        setup.light.change()
        setup.works()
    pages[GOOD[1]] = setup.page
    for name, page in pages.items():
        if os.environ.get("COPYRATOR_RECORD"):
            lines = [one for one in page.splitlines(keepends=True) if "copyrator_" in one]
            (RECORDED / f"{name}.prom").write_text("".join(lines))
        expected, served = shape(recorded(name)), shape(page)
        # The operator serves other tests' Bundles too: a counter with labels exists from its
        # first increment on, such as that of releases left behind in a Terminating namespace.
        others = {one for one in served if one.endswith("_total") and served[one]}
        for series in others - expected.keys():
            del served[series]
        assert expected == served, f"{name}: record it anew, COPYRATOR_RECORD=1"
