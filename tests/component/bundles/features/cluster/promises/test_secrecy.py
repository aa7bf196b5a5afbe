"""No status, Event or log shows what a kubeconfig holds."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, approve, deployed, idle, waits
from tests.component.bundles.drifting import DETECT
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.promises.test_secrecy import shown, stops
from tests.kubeconfigs import SERVER, TOKEN, kubeconfig_data


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


KUBE_CONFIG = {"secretName": "other"}

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in base64": lambda text: base64.b64encode(text.encode()).decode(),
    "in JSON": lambda text: json.dumps({"users": [{"user": {"token": text}}]}),
}


@pytest.mark.parametrize("log", ["", "without its log"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "kind",
    [
        "deploy",
        pytest.param("planned deploy", marks=pytest.mark.needs("approval")),
        pytest.param("plan", marks=pytest.mark.needs("approval")),
        pytest.param("drift", marks=pytest.mark.needs("drift")),
        "uninstall",
    ],
)
async def test_a_kubeconfig_that_was_written_for_a_job_appears_in_no_log_or_status(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    form: str,
    log: str,
) -> None:
    cluster.put_object("secrets", "other", data=kubeconfig_data(SERVER, TOKEN))
    said = f'Error: Get "{SERVER}/api": Bearer {FORMS[form](TOKEN)} is bad\n'
    stops(cluster, kind.removeprefix("planned "), "begins\n" if log else said, message=said)
    spec: dict[str, Any] = {"drift": DETECT} if kind == "drift" else {}
    if kind in ("plan", "planned deploy"):
        spec = {"approval": ALWAYS}
    bundle(kubeConfig=KUBE_CONFIG, retry={"limit": 0}, **spec)
    operator = await run()
    if kind == "planned deploy":
        approve(cluster, await waits(cluster))
    if kind == "uninstall":
        await deployed(cluster)
        cluster.drop(path_of("bundles", "shop"))

    await eventually(lambda: "is bad" in shown(cluster, caplog), "the fault is told")
    await idle(operator)

    written = shown(cluster, caplog)
    assert TOKEN not in written
    assert FORMS["in base64"](TOKEN) not in written
    assert FORMS["in base64"](TOKEN).rstrip("=") not in written


async def test_a_kubeconfig_that_was_replaced_while_its_job_ran_appears_nowhere_either(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The Job has a copy of the former one."""
    cluster.put_object("secrets", "other", data=kubeconfig_data(SERVER, TOKEN))
    werf.holds_deploys = True
    bundle(kubeConfig=KUBE_CONFIG, retry={"limit": 0})
    operator = await run()
    (job,) = await eventually(lambda: cluster.jobs())  # noqa: PLW0108 - it is looked at anew
    cluster.change("secrets", "other", data=kubeconfig_data(SERVER, "another-t0ken-by-now"))
    await idle(operator)
    name = job["metadata"]["name"]
    cluster.logs[f"{name}-pod"] = f"Error: {TOKEN} is bad, another-t0ken-by-now is\n"

    cluster.end_job(name, 1, "Error: is bad")

    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Failed")
    operator.let_pass(timedelta(minutes=1))
    await idle(operator)
    assert TOKEN not in shown(cluster, caplog)
