"""The operator's identity in a cloud: whose it is."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.component.bundles.approvals import deployed
from tests.component.bundles.cloud import HOST, Cloud
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.installed import settings

from copyrator.api.clouds import Provider
from copyrator.clouds.calls import Account, Issued
from copyrator.clouds.logins import SharedLogins


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
    values = {
        "bundles.operatorIdentity.namespaces": ["infra-*", "platform"],
        "image.variant": "clouds",
    }
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
        "image.variant": "clouds",
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
