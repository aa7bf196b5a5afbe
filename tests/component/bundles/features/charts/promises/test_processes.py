"""Which variables the process gets that judges charts."""

from __future__ import annotations

import pytest
from tests.component.bundles.approvals import ALWAYS, waits
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.notify.test_notifications import (
    HIDDEN,
    NEEDED,
    children_of_this,
    names_of,
)

from copyrator.workqueue.isolated import Isolated


@pytest.mark.needs("approval")
async def test_the_process_that_judges_charts_gets_only_the_variables_that_it_needs(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = children_of_this()
    for name, value in HIDDEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    bundle(approval=ALWAYS)
    await run(isolated=Isolated)

    await waits(cluster)

    found = children_of_this() - before
    assert found
    for pid in found:
        assert names_of(pid) == NEEDED
