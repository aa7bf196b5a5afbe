"""Statements whose push fails hold no other up, and are pushed with no other key or name."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.component.bundles.approvals import annotate, condition, idle
from tests.component.bundles.attesting import ATTEST, AttestedRegistry, attest_key, private_pem
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.features.attest.test_attest import said, told
from tests.component.bundles.features.health.watching import timing_of
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.promoting import deployed
from tests.component.bundles.waiting import eventually
from tests.component.bundles.workloads import deployment
from tests.component.oci.fake_registry import answering

pytestmark = pytest.mark.needs("promotion")


@pytest.fixture
async def registry() -> AsyncIterator[AttestedRegistry]:
    registry = AttestedRegistry()
    await registry.start()
    yield registry
    await registry.stop()


def states(cluster: BundleCluster) -> list[tuple[str, str]]:
    found = cluster.status("staging").get("attest", [])
    return [(one["version"], one["state"]) for one in found]


async def test_a_version_that_the_registry_has_no_more_holds_no_other_statement_up(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    first = registry.put("app", "1.0.0", "one")
    bundle("staging", version="1.*", attest=ATTEST)
    operator = await run(timer_interval=1.0)
    await said(cluster, "Attested")
    registry.fault, registry.fault_at = answering(404), f"/manifests/{first}"
    annotate(cluster, "staging", hold="no")
    await said(cluster, "Gone")
    message = await told(cluster, "AttestationWithdrawn")
    assert "was withdrawn (the registry has it no more): " in message

    second = registry.put("app", "1.1.0", "two")
    await deployed(cluster, "staging", "1.1.0")
    annotate(cluster, "staging", hold=None)

    await eventually(lambda: states(cluster) == [("1.0.0", "Gone"), ("1.1.0", "Attested")])
    assert [one.withdrawn for one in registry.statements(second)] == [False]
    annotate(cluster, "staging", hold="no")
    await eventually(lambda: states(cluster)[-1] == ("1.1.0", "Withdrawn"))
    assert [one.withdrawn for one in registry.statements(second)] == [True]

    assert [one.withdrawn for one in registry.statements(first)] == [False]
    registry.fault = None
    operator.let_pass(timedelta(hours=1, minutes=1))
    await eventually(lambda: states(cluster)[0] == ("1.0.0", "Withdrawn"), "it came back")
    assert [one.withdrawn for one in registry.statements(first)] == [True]


@pytest.mark.needs("health")
async def test_a_release_that_becomes_healthy_is_attested_without_another_event(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    bundle("staging", health="Watch", attest=ATTEST | {"after": "1h"})
    deployment(cluster, release="staging", ready=0)
    operator = await run(timer_interval=90000.0, timing=timing_of())
    await deployed(cluster, "staging", "1.0.0")
    deployment(cluster, release="staging")
    await eventually(lambda: condition(cluster, "Healthy", "staging")[0] == "True")
    await idle(operator)

    operator.let_pass(timedelta(hours=1, seconds=5))

    await said(cluster, "Attested")


@pytest.mark.needs("health")
async def test_a_release_that_is_not_healthy_is_withdrawn_at_once(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", health="Watch", attest=ATTEST)
    deployment(cluster, release="staging")
    await run(timer_interval=90000.0, timing=timing_of())
    await said(cluster, "Attested")

    deployment(cluster, release="staging", ready=0, late=True)

    await said(cluster, "Withdrawn")
    (statement,) = registry.statements(digest)
    assert statement.reason == "the release wasn't healthy"


async def test_edits_in_a_pause_push_nothing_but_a_withdrawal_does_not_wait_for_its_end(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST | {"renew": "1h"})
    operator = await run(timer_interval=90000.0)
    await said(cluster, "Attested")
    registry.fault, registry.fault_at = answering(500), "/blobs/uploads/"
    operator.let_pass(timedelta(hours=1))
    await told(cluster, "RegistryUnreachable")
    await idle(operator)
    tries = sum(method == "POST" for method, _ in registry.asked)

    for number in range(3):
        reconciled = len(operator.reconciled)
        annotate(cluster, "staging", other=str(number))
        await eventually(lambda seen=reconciled: len(operator.reconciled) > seen)
        await idle(operator)

    assert sum(method == "POST" for method, _ in registry.asked) == tries
    registry.fault = None
    annotate(cluster, "staging", hold="no")
    await said(cluster, "Withdrawn")
    assert [one.withdrawn for one in registry.statements(digest)] == [True]


async def test_what_was_recorded_under_another_name_is_not_signed_with_the_operators_key(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """Nobody lists the name, so it is free with a key of one's own, and with no other."""
    cluster.namespace("kube-system")
    cluster.namespace("default")
    data = {"key.pem": b64encode(private_pem()).decode()}
    cluster.object("secrets", "default", "copyrator-attest-key", data=data)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST | {"environment": "other"})
    await run(timer_interval=90000.0, attest_environments=(("staging", "team"),))
    await told(cluster, "AttestKeyInvalid")

    attest = {"environment": "staging", "keyFrom": {"secretName": None, "key": None}}
    attest["keyFrom"] |= {"operator": True}  # type: ignore[operator]
    cluster.change("bundles", "staging", spec={"attest": attest})

    await told(cluster, "Attested")
    assert [one.environment for one in registry.statements(digest)] == ["staging"]
    annotate(cluster, "staging", hold="no")
    await eventually(
        lambda: (
            {state for _, state in states(cluster)} == {"Withdrawn"}
            and {one.withdrawn for one in registry.statements(digest)} == {True}
        )
    )


@pytest.mark.parametrize("is_withdrawal", [True, False], ids=["a withdrawal", "an attestation"])
async def test_of_what_was_decided_only_a_withdrawal_is_pushed_while_its_bundle_is_uninstalled(
    cluster: BundleCluster,
    registry: AttestedRegistry,
    run: Run,
    bundle: Make,
    *,
    is_withdrawal: bool,
) -> None:
    """As long as something else keeps the Bundle; its deletion doesn't wait for a registry."""
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    if not is_withdrawal:
        registry.fault, registry.fault_at = answering(500), "/blobs/uploads/"
    bundle("staging", attest=ATTEST)
    timing = replace(TIMING, uninstall_recheck=0.1)
    operator = await run(timer_interval=90000.0, timing=timing)
    if is_withdrawal:
        await said(cluster, "Attested")
        registry.fault, registry.fault_at = answering(500), "/blobs/uploads/"
        annotate(cluster, "staging", hold="no")
    await told(cluster, "RegistryUnreachable")
    cluster.drop(path_of("serviceaccounts", "werf"))
    cluster.drop(path_of("bundles", "staging"))
    await eventually(lambda: cluster.reason("staging") == "UninstallFailed")

    registry.fault = None
    operator.let_pass(timedelta(minutes=1))

    pushed = [True] if is_withdrawal else []
    await eventually(lambda: [one.withdrawn for one in registry.statements(digest)] == pushed)
    reconciled = len(operator.reconciled)
    await eventually(lambda: len(operator.reconciled) > reconciled + 3)
    assert len(registry.pushes) == 2 * is_withdrawal
    cluster.put_object("serviceaccounts", "werf")
    await eventually(lambda: cluster.look("bundles", "staging") is None)
