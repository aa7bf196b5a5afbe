"""No message of a plan shows a text of a template."""

from __future__ import annotations

import logging

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.promises.test_secrecy import HIDDEN, TEXTS, shown


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.mark.needs("previews")
@pytest.mark.parametrize("what", TEXTS)
async def test_a_plans_message_holds_no_text_of_a_template(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    werf.says = lambda *_: (1, "begins\n" + TEXTS[what])
    bundle(approval=ALWAYS)
    operator = await run()

    await eventually(lambda: cluster.status().get("plan", {}).get("outcome") == "Failed")
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Failed")
    await idle(operator)

    assert HIDDEN not in shown(cluster, caplog)
