"""Bundles that attest in the registry what they run: when, with which key, what withdraws it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from tests.component.bundles.approvals import annotate, condition, idle
from tests.component.bundles.attesting import (
    ATTEST,
    AttestedRegistry,
    attest_key,
    private_pem,
    promoted_by,
    trust,
)
from tests.component.bundles.cloud import HOST, Cloud
from tests.component.bundles.crashing import die_after
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.promoting import deployed
from tests.component.bundles.waiting import eventually
from tests.component.lasting_child import LastingChild
from tests.component.oci.fake_registry import answering

from copyrator.bundles.features.attest.metrics import AttestMetrics
from copyrator.oci import statements
from copyrator.workqueue.isolated import Isolated

pytestmark = pytest.mark.needs("promotion")


ENCRYPTED = {"secretName": "attest-key", "key": "key.pem", "passwordKey": "password"}


@pytest.fixture(scope="module")
def child() -> Iterator[Any]:
    with LastingChild(Isolated()).running() as child:
        yield child


@pytest.fixture(autouse=True)
def pushed_by(child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All operators' statements are signed and pushed by one process."""
    monkeypatch.setattr(statements, "Isolated", lambda **_: child)


@pytest.fixture
async def registry() -> AsyncIterator[AttestedRegistry]:
    registry = AttestedRegistry()
    await registry.start()
    yield registry
    await registry.stop()


def record(cluster: BundleCluster, name: str = "staging") -> dict[str, Any]:
    """What was last said about a digest."""
    found: dict[str, Any] = (cluster.status(name).get("attest") or [{}])[-1]
    return found


async def said(cluster: BundleCluster, state: str, name: str = "staging") -> dict[str, Any]:
    await eventually(lambda: record(cluster, name).get("state") == state, f"{name} is {state}")
    return record(cluster, name)


async def told(cluster: BundleCluster, reason: str) -> str:
    """The message of the condition Attested with a reason."""
    await eventually(lambda: condition(cluster, "Attested", "staging")[1] == reason, reason)
    found = cluster.status("staging")["conditions"]
    return str(next(one["message"] for one in found if one["type"] == "Attested"))


async def test_what_is_deployed_is_attested_and_promoted_elsewhere(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """The statement is on record before it is in the registry."""
    attest_key(cluster)
    trust(cluster)
    digest = registry.put("app", "1.0.0", "one")
    recorded: list[Any] = []
    registry.on_push = lambda one: recorded.append((record(cluster).get("issuedAt"), one))
    bundle("staging", attest=ATTEST)
    bundle("production", promoteFrom=promoted_by())
    operator = await run(timer_interval=1.0)

    await deployed(cluster, "production", "1.0.0")

    found = await said(cluster, "Attested")
    (statement,) = registry.statements(digest)
    assert recorded == [(found["issuedAt"], statement)]
    uid = cluster.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"]
    assert statement.source == (uid, "team/staging")
    assert (statement.environment, statement.withdrawn) == ("staging", False)
    assert registry.pushes == [found["manifest"]]
    assert condition(cluster, "Attested", "staging") == ("True", "Attested")
    assert operator.metrics.of(AttestMetrics).attestations.labels("Attested")._value.get() == 1
    await idle(operator)
    reconciled = len(operator.reconciled)
    writes = len(cluster.statuses["staging"])
    await eventually(lambda: len(operator.reconciled) > reconciled + 4, "it is polled")
    assert registry.pushes == [found["manifest"]]
    assert len(cluster.statuses["staging"]) == writes


@pytest.mark.needs("login")
async def test_with_a_provider_the_same_identity_pushes_by_a_login_of_its_own(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """A login for pulls doesn't push."""
    cloud = Cloud(registry)
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST, registry=HOST, insecure=None, provider="aws")
    await run(prepare=cloud.prepare)
    await said(cluster, "Attested")
    assert set(cloud.asked) == {
        ("ServiceAccount team/werf", False),
        ("ServiceAccount team/werf", True),
    }


async def test_it_is_attested_once_it_has_stood_and_renewed_by_one_that_replaces_it(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST | {"after": "24h", "renew": "12h"})
    operator = await run(timer_interval=90000.0)
    await deployed(cluster, "staging", "1.0.0")
    assert "once it has stood for 24h" in await told(cluster, "Soaking")
    assert registry.pushes == []
    operator.let_pass(timedelta(hours=24))
    first = await said(cluster, "Attested")
    assert first["seconds"] == 86400
    await idle(operator)

    operator.let_pass(timedelta(hours=12))

    await eventually(lambda: len(registry.pushes) == 2)
    second = await said(cluster, "Attested")
    (statement,) = registry.statements(digest)
    assert registry.pushes == [first["manifest"], second["manifest"]]
    assert 129600 <= statement.seconds < 129700
    assert "left" not in second
    states = [one.get("attest", [{}])[-1].get("state") for one in cluster.statuses["staging"]]
    assert "Renewing" in states
    assert condition(cluster, "Attested", "staging") == ("True", "Attested")


async def test_a_user_withdraws_and_deleting_the_bundle_withdraws_nothing(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST, deletionPolicy="Orphan")
    bundle("other", attest=ATTEST)
    operator = await run(timer_interval=3600.0)
    await said(cluster, "Attested")
    await said(cluster, "Attested", "other")
    asked = "2026-05-04T12:00:00Z the test was wrong"

    annotate(cluster, "staging", withdraw=asked)

    await said(cluster, "Withdrawn")
    assert cluster.status("staging")["lastHandledWithdrawal"] == asked
    pushes = len(registry.pushes)
    for name in ("staging", "other"):
        cluster.drop(path_of("bundles", name))
    await eventually(lambda: cluster.look("bundles", "staging") is None)
    await eventually(lambda: cluster.look("bundles", "other") is None)
    await idle(operator)
    assert len(registry.pushes) == pushes
    found = {one.release: one.withdrawn for one in registry.statements(digest)}
    assert found == {"staging": True, "other": False}


async def test_a_registry_that_refuses_holds_no_deploy_up(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    registry.fault, registry.fault_at = answering(503), "/blobs/uploads/"
    bundle("staging", version="1.*", attest=ATTEST)
    operator = await run(timer_interval=1.0)
    message = await told(cluster, "RegistryUnreachable")
    assert message.startswith("the statement that 1.0.0 (sha256:")
    assert record(cluster)["state"] == "Attesting"
    assert condition(cluster, "Ready", "staging") == ("True", "Deployed")
    registry.put("app", "1.1.0", "two")
    await deployed(cluster, "staging", "1.1.0")
    await idle(operator)
    failed = (
        operator.metrics.of(AttestMetrics).attestations.labels("RegistryUnreachable")._value.get()
    )
    assert failed >= 1

    registry.fault = None
    operator.let_pass(timedelta(minutes=15))

    await eventually(
        lambda: {one["state"] for one in cluster.status("staging")["attest"]} == {"Attested"}
    )
    assert [one["version"] for one in cluster.status("staging")["attest"]] == ["1.0.0", "1.1.0"]


async def test_a_failing_push_is_tried_again_after_growing_pauses(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    registry.fault, registry.fault_at = answering(503), "/blobs/uploads/"
    bundle("staging", attest=ATTEST)
    operator = await run(timer_interval=0.5)
    counter = operator.metrics.of(AttestMetrics).attestations.labels("RegistryUnreachable")._value
    await eventually(lambda: counter.get() == 1)
    for count, seconds in enumerate((15, 30, 60), start=1):
        reconciled = len(operator.reconciled)
        await eventually(lambda seen=reconciled: len(operator.reconciled) > seen + 1)
        assert counter.get() == count
        operator.let_pass(timedelta(seconds=seconds))
        await eventually(lambda wanted=count + 1: counter.get() == wanted)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (None, "Secret team/attest-key of spec.attest doesn't exist; create it"),
        ({}, "has no key key.pem; add it"),
        ({"key.pem": b"secret text"}, "isn't PEM: store one private key"),
        ({"key.pem": private_pem(password=b"one")}, "there is no password for it: add it"),
    ],
)
async def test_a_key_that_cannot_be_used_is_told_without_its_content_and_taken_once_it_can(
    cluster: BundleCluster,
    registry: AttestedRegistry,
    run: Run,
    bundle: Make,
    data: dict[str, bytes] | None,
    fault: str,
) -> None:
    cluster.namespace("kube-system")
    if data is not None:
        encoded = {name: b64encode(content).decode() for name, content in data.items()}
        cluster.put_object("secrets", "attest-key", data=encoded)
    registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST)
    await run(timer_interval=3600.0)

    message = await told(cluster, "AttestKeyInvalid")

    assert fault in message
    assert "secret text" not in str(cluster.statuses)
    assert registry.pushes == []
    attest_key(cluster)
    await said(cluster, "Attested")


async def test_an_encrypted_key_and_a_credential_of_its_own(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace("kube-system")
    data = {"key.pem": private_pem("ed25519", b"pa55"), "password": b"pa55"}
    encoded = {name: b64encode(content).decode() for name, content in data.items()}
    cluster.put_object("secrets", "attest-key", data=encoded)
    login = {"username": b64encode(b"pusher").decode(), "password": b64encode(b"pw").decode()}
    cluster.put_object("secrets", "push-creds", data=login)
    registry.auth, registry.users = "basic", {"pusher": "pw", "reader": "pw"}
    login = {"username": b64encode(b"reader").decode(), "password": b64encode(b"pw").decode()}
    cluster.put_object("secrets", "creds", data=login)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", auth="creds", attest=ATTEST | {"keyFrom": ENCRYPTED, "auth": "push-creds"})
    await run(timer_interval=3600.0)

    await said(cluster, "Attested")

    assert len(registry.statements(digest)) == 1
    basic = "Basic " + b64encode(b"pusher:pw").decode()
    sent = zip(registry.asked, registry.seen_authorization, strict=True)
    assert {one for (method, _), one in sent if method in ("POST", "PUT")} <= {basic, None}


@pytest.mark.needs("signatures")
async def test_a_key_that_is_trusted_for_signatures_attests_nothing(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    """By the policy for whatever repository: an attestation is never a signature."""
    attest_key(cluster)
    cluster.namespace("default")
    keys = {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "staging-keys"}}}
    policy = f"entries: [{{repositories: [elsewhere.example.com/*], anyOf: [{keys}]}}]"
    cluster.object(
        "configmaps", "default", "copyrator-signature-policy", data={"policy.yaml": policy}
    )
    trust(cluster)
    there = cluster.look("configmaps", "staging-keys")
    assert there is not None
    cluster.object("configmaps", "default", "staging-keys", data=there["data"])
    registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST)
    await run(timer_interval=3600.0)

    message = await told(cluster, "AttestKeyInvalid")

    assert "is trusted for signatures by entry 1 of the signature policy" in message
    assert registry.pushes == []


def set_operators_key(cluster: BundleCluster) -> None:
    cluster.namespace("kube-system")
    cluster.namespace("default")
    data = {"key.pem": b64encode(private_pem()).decode()}
    cluster.object("secrets", "default", "copyrator-attest-key", data=data)


async def test_the_operators_key_is_for_the_environments_of_the_settings(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    set_operators_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    attest = {"environment": "staging", "keyFrom": {"operator": True}}
    bundle("staging", attest=attest)
    operator = await run(timer_interval=3600.0)
    message = await told(cluster, "EnvironmentNotAllowed")
    assert message.startswith("the namespace team may not attest as staging")
    await idle(operator)
    await operator.stop()
    assert registry.pushes == []

    await run(timer_interval=3600.0, attest_environments=(("staging", "te*"),))

    await said(cluster, "Attested")
    assert len(registry.statements(digest)) == 1


async def test_without_a_name_for_the_cluster_nothing_is_attested(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    refused = cluster.refuse("get", "/namespaces/kube-system", 403, "no")
    bundle("staging", attest=ATTEST)
    operator = await run(timer_interval=3600.0)
    message = await told(cluster, "Forbidden")
    assert "attest.environments" in message

    refused.clear()
    operator.let_pass(timedelta(minutes=1))

    await said(cluster, "Attested")


async def test_while_updates_are_disabled_nothing_is_pushed(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make
) -> None:
    attest_key(cluster)
    registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST)
    operator = await run(timer_interval=3600.0)
    await said(cluster, "Attested")
    annotate(cluster, "staging", disable_autoupdate="")
    await eventually(lambda: cluster.reason("staging") == "AutoupdateDisabled")
    pushes, asked = len(registry.pushes), len(registry.asked)

    annotate(cluster, "staging", hold="no")

    await said(cluster, "Withdrawing")
    await idle(operator)
    assert (len(registry.pushes), len(registry.asked)) == (pushes, asked)
    annotate(cluster, "staging", disable_autoupdate=None)
    await said(cluster, "Withdrawn")


WRITES = 5
"""Finalizer, attempt, Job, outcome with the statement's record, the statement's end; and the
Job's TTL, which may be before or after that."""


@pytest.mark.parametrize("number", range(1, WRITES + 2))
async def test_a_process_that_dies_at_any_write_attests_once(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make, number: int
) -> None:
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST)
    soon = partial(run, timing=replace(TIMING, job_handover=0.5))
    await die_after(cluster, soon, number)

    await soon()

    found = await said(cluster, "Attested")
    assert set(registry.pushes) == {found["manifest"]}
    assert len(registry.statements(digest)) == 1
    assert len(set(cluster.runs)) == 1


@pytest.mark.parametrize("number", [1, 2])
async def test_a_process_that_dies_at_any_write_withdraws_once(
    cluster: BundleCluster, registry: AttestedRegistry, run: Run, bundle: Make, number: int
) -> None:
    """The withdrawal's record, and its end."""
    attest_key(cluster)
    digest = registry.put("app", "1.0.0", "one")
    bundle("staging", attest=ATTEST)
    operator = await run()
    await said(cluster, "Attested")
    await idle(operator)
    await operator.stop()
    annotate(cluster, "staging", hold="no")
    await die_after(cluster, run, number)

    await run()

    found = await said(cluster, "Withdrawn")
    assert len(set(registry.pushes)) == 2
    assert registry.pushes[-1] == found["manifest"]
    assert [one.withdrawn for one in registry.statements(digest)] == [True]


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
    set_operators_key(cluster)
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
