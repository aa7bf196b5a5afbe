"""An operator that sees nothing says so, with the reason, also when idle."""

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.e2e.faults.proxy import FaultProxy, answers, everything, only, silent
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess

from localcluster import Cluster

pytestmark = pytest.mark.timeout(300)

PATIENCE = 180.0
"""Seconds until /readyz is red, however busy the machine is. `make bench BENCH=blind` measures the
minute that is promised."""


@pytest.fixture
def idle(
    cluster: Cluster, tmp_path: Path
) -> Iterator[Callable[[], tuple[FaultProxy, OperatorProcess]]]:
    """Starts operators with nothing to do, each behind a proxy of its own."""
    homes: list[str] = []
    with ExitStack() as stack:

        def start() -> tuple[FaultProxy, OperatorProcess]:
            home = f"op-{secrets.token_hex(3)}"
            direct = install(cluster, home)
            homes.append(home)
            proxy = stack.enter_context(FaultProxy(cluster))
            kubeconfig = proxy.kubeconfig(direct, tmp_path / f"{home}.yaml")
            settings = {"NAMESPACE": home}
            process = OperatorProcess(kubeconfig, tmp_path / f"{home}.log", settings=settings)
            stack.enter_context(process)
            process.wait_ready()
            return proxy, process

        yield start
    for home in homes:
        uninstall(cluster, home)


def test_silent_watches_and_lost_credentials_turn_readyz_red(idle) -> None:
    """Both at once, on two operators, because each takes its time."""
    (quiet, deaf), (stern, refused) = idle(), idle()
    with (
        quiet.fault(silent, only("watch")),
        stern.fault(answers(401, "Unauthorized"), everything, cut=False),
    ):
        began = time.monotonic()
        looks: dict[str, Callable[[], bool]] = {
            # Three are named, kopf's two first; the others are counted. A Bundle of another test
            # that is about to go has a watch of its Secret until its deletion is seen.
            "silent": lambda: (
                says(deaf, "no event and no bookmark")
                and says(deaf, f"and {watches(deaf) + 2 - 3} more")
            ),
            "refused": lambda: says(refused, "all requests fail") and says(refused, "(401)"),
        }
        while looks and time.monotonic() - began < PATIENCE:
            looks = {name: look for name, look in looks.items() if not look()}
            time.sleep(1)  # a look costs more than the operators
        assert not looks, (deaf.get("/readyz"), refused.get("/readyz"))
        # Nothing that a restart could mend.
        assert deaf.get("/healthz") == refused.get("/healthz") == (200, "ok\n")
    for process in (deaf, refused):
        process.wait_ready()
        assert process.stop() == 0


def says(process: OperatorProcess, text: str) -> bool:
    status, body = process.get("/readyz")
    return status == 503 and text in body


def watches(process: OperatorProcess) -> int:
    """Our own open watches, by the operator's count."""
    counted = re.findall(
        r"^copyrator_watches\{.*\} (\S+)$", process.get("/metrics")[1], re.MULTILINE
    )
    return int(sum(map(float, counted)))
