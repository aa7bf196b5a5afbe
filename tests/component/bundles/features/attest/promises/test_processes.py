"""Which variables the process gets that pushes statements."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.component.bundles.attesting import ATTEST, AttestedRegistry, attest_key
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.promises.notify.test_notifications import (
    HIDDEN,
    NEEDED,
    children_of_this,
    names_of,
)


@pytest.fixture
async def registry() -> AsyncIterator[AttestedRegistry]:
    registry = AttestedRegistry()
    await registry.start()
    yield registry
    await registry.stop()


@pytest.mark.needs("promotion")
async def test_the_process_that_pushes_gets_only_the_variables_that_it_needs(
    cluster: BundleCluster,
    registry: AttestedRegistry,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = children_of_this()
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    for name, value in HIDDEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    bundle("staging", attest=ATTEST)
    await run(timer_interval=1.0)

    await eventually(lambda: registry.pushes, "an attestation is pushed")

    found = children_of_this() - before
    assert found
    for pid in found:
        assert names_of(pid) == NEEDED
