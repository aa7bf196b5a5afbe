"""A release in another namespace, and the operator's identity in a cloud: whose consent counts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, approve, deployed, idle, waits
from tests.component.bundles.cloud import HOST, Cloud
from tests.component.bundles.drifting import CORRECT, EDITED, Release
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.installed import settings

from copyrator.api.clouds import Provider
from copyrator.clouds.calls import Account, Issued
from copyrator.clouds.logins import SharedLogins

TEN_MINUTES = timedelta(minutes=10)
PROMPT = {"limit": 5, "backoff": "1s"}


def edit(cluster: BundleCluster, _registry: FakeRegistry) -> None:
    cluster.change("bundles", "shop", spec={"retry": {"limit": 4, "backoff": "1s"}})


def push(_cluster: BundleCluster, registry: FakeRegistry) -> None:
    registry.put("app", "1.0.0", "two")


def values(cluster: BundleCluster, _registry: FakeRegistry) -> None:
    cluster.change("configmaps", "values", data={"values.yaml": "a: 2\n"})


def ask(name: str, **more: str) -> Callable[[BundleCluster, FakeRegistry], None]:
    return lambda cluster, _registry: annotate(cluster, **{name: "now", **more})


BEGINNINGS = {
    "an edit of the spec": edit,
    "a push": push,
    "an edit of values": values,
    "requestedAt": ask("requestedAt"),
    "forceAt": ask("forceAt"),
}


@pytest.mark.parametrize("what", BEGINNINGS)
async def test_the_consent_of_a_namespace_is_at_most_ten_minutes_old_when_an_attempt_begins(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, what: str
) -> None:
    cluster.grant("prod")
    cluster.namespace("prod")
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1\n"})
    bundle(
        project_namespace="prod",
        retry=PROMPT,
        valuesFrom=[{"kind": "ConfigMap", "name": "values"}],
    )
    operator = await run()
    await deployed(cluster)
    await idle(operator)
    cluster.granted.clear()

    operator.let_pass(TEN_MINUTES)
    BEGINNINGS[what](cluster, registry)

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    operator.let_pass(TEN_MINUTES)
    await idle(operator)
    assert len(cluster.runs) == 1
    assert cluster.status()["consent"]["state"] == "NotAccepted"


async def test_a_retry_after_ten_minutes_asks_for_consent_again(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.grant("prod")
    cluster.namespace("prod")
    cluster.ends = fail
    bundle(project_namespace="prod", retry={"limit": 5, "backoff": "15m"})
    operator = await run()
    await eventually(lambda: cluster.reason() == "DeployFailed")
    await idle(operator)
    cluster.granted.clear()

    operator.let_pass(timedelta(minutes=30))

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    await idle(operator)
    assert len(cluster.runs) == 1


async def test_an_approval_after_ten_minutes_asks_for_consent_again(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.grant("prod")
    cluster.namespace("prod")
    bundle(project_namespace="prod", approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    await idle(operator)
    cluster.granted.clear()

    operator.let_pass(TEN_MINUTES)
    approve(cluster, found)

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    await idle(operator)
    assert cluster.jobs() == []


async def test_a_correction_of_drift_after_ten_minutes_asks_for_consent_again(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    cluster.grant("prod")
    cluster.namespace("prod")
    bundle(project_namespace="prod", drift=CORRECT)
    operator = await run()
    await release.in_sync()
    await idle(operator)
    cluster.granted.clear()
    release.changed += EDITED

    operator.let_pass(timedelta(hours=1))

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    await idle(operator)
    assert len(cluster.jobs()) == 1


async def test_it_is_the_bundles_account_that_is_asked_about_and_no_other(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """What one Bundle's account may do is no consent to another's."""
    cluster.grant("prod")
    cluster.namespace("prod")
    cluster.put_object("serviceaccounts", "weak")
    bundle("one", project_namespace="prod")
    operator = await run(allowed_service_accounts=("werf", "weak"))
    await deployed(cluster, "one")

    bundle("two", project_namespace="prod", serviceAccountName="weak")

    await eventually(lambda: cluster.reason("two") == "ReleaseNotAccepted")
    await idle(operator)
    assert "service account team/weak" in cluster.message("two")
    assert len(cluster.runs) == 1


@pytest.mark.parametrize(
    ("globs", "is_accepted"),
    [("team", True), ("a, te*", True), ("team-*", False), ("teams", False), ("", False)],
    ids=["its name", "a glob", "another glob", "a longer name", "nothing"],
)
async def test_an_annotation_accepts_the_namespaces_that_it_names(
    cluster: BundleCluster, run: Run, bundle: Make, globs: str, is_accepted: bool
) -> None:
    cluster.accept("prod", globs)
    bundle(project_namespace="prod")
    operator = await run()
    reason = "Deployed" if is_accepted else "ReleaseNotAccepted"
    await eventually(lambda: cluster.reason() == reason, cluster.message())
    await idle(operator)
    assert len(cluster.runs) == is_accepted


# --- the operator's own identity ------------------------------------------------------------------


def in_namespace(cluster: BundleCluster, made: dict[str, Any], namespace: str) -> None:
    """Make the same Bundle in another namespace, with its account."""
    cluster.namespace(namespace)
    account = {"metadata": {"name": "werf", "namespace": namespace}}
    cluster.write(path_of("serviceaccounts", "werf", namespace), account)
    metadata = {"name": made["metadata"]["name"], "namespace": namespace}
    where = path_of("bundles", metadata["name"], namespace)
    cluster.write(where, {"metadata": metadata, "spec": made["spec"]})


async def test_the_operators_own_identity_counts_in_its_own_namespaces_only(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cloud = Cloud(registry)
    cluster.accept("infra-1")
    values = {"bundles.operatorIdentity.namespaces": ["infra-*", "platform"]}
    made = bundle(registry=HOST, insecure=None, provider="aws")
    there = bundle(
        "there", registry=HOST, insecure=None, provider="aws", project_namespace="infra-1"
    )
    cluster.drop(path_of("bundles", "shop"))
    assert there["metadata"]["namespace"] == "team"
    await run(**settings(values), prepare=cloud.prepare)
    await deployed(cluster, "there")
    assert {one for one, _ in cloud.asked} == {"ServiceAccount team/werf"}

    cloud.asked.clear()
    for namespace in ("infra-1", "platform"):
        in_namespace(cluster, made, namespace)
    await eventually(lambda: len(cluster.runs) == 3)
    assert {one for one, _ in cloud.asked if "ServiceAccount" in one} == set()

    cloud.asked.clear()
    for namespace in ("infra", "platform-1", "team"):
        in_namespace(cluster, made, namespace)
    await eventually(lambda: len(cluster.runs) == 6)
    accounts = {f"ServiceAccount {one}/werf" for one in ("infra", "platform-1", "team")}
    assert {one for one, _ in cloud.asked} == accounts


async def test_no_bundle_gets_a_login_that_was_issued_to_another_identity(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """The operator's for one namespace, and each account's own for all others."""

    async def issue(
        _calls: Any, _registry: Any, account: Account | None, *, writes: bool
    ) -> Issued:
        name = "operator" if account is None else f"{account.namespace}.{account.name}"
        registry.users[name] = f"password of {name}"
        return Issued(name, registry.users[name], datetime.now(UTC) + timedelta(hours=12))

    def prepare(operator: Any) -> None:
        Cloud(registry).prepare(operator)
        registry.users = {}
        operator.oci.use_logins(
            lambda transport: SharedLogins(
                transport, operator.client, operator.metrics, issues={Provider.AWS: issue}
            )
        )

    cluster.ends = None
    values = {
        "bundles.operatorIdentity.namespaces": ["platform"],
        "bundles.allowedServiceAccounts": ["werf", "other"],
    }
    await run(**settings(values), prepare=prepare)
    cluster.put_object("serviceaccounts", "other")
    made = bundle(registry=HOST, insecure=None, provider="aws")
    bundle("other", registry=HOST, insecure=None, provider="aws", serviceAccountName="other")
    for namespace in ("platform", "dev"):
        repository = {**made, "spec": {**made["spec"], "repo": namespace}}
        registry.put(namespace, "1.0.0", "one")
        in_namespace(cluster, repository, namespace)
    await eventually(lambda: len(cluster.runs) == 4)

    users = {}
    for path, body in cluster.objects.items():
        if "/secrets/" in path and path.endswith("-login"):
            login = json.loads(base64.b64decode(body["data"][".dockerconfigjson"]))
            metadata = body["metadata"]
            owner = metadata["ownerReferences"][0]["name"]
            users[f"{metadata['namespace']}/{owner}"] = login["auths"][HOST]["username"]
    assert users == {
        "team/shop": "team.werf",
        "team/other": "team.other",
        "platform/shop": "operator",
        "dev/shop": "dev.werf",
    }
    asked = zip(registry.asked, registry.seen_authorization, strict=True)
    sent = {
        (path.split("/")[2], base64.b64decode(login.removeprefix("Basic ")).decode().split(":")[0])
        for (_, path), login in asked
        if login
    }
    accounts = {("app", "team.werf"), ("app", "team.other")}
    assert sent == accounts | {("platform", "operator"), ("dev", "dev.werf")}
