"""The client and its watches against the real API server: what it really says and does."""

import asyncio
import contextlib
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.long import LONG

from copyrator.api.keys import ObjectName
from copyrator.api.reasons.rules import FailureReason
from copyrator.kube import errors
from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient, PatchType
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.events import EventRecorder, ObjectRef
from copyrator.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    RESOURCEQUOTAS,
    ROLEBINDINGS,
    SECRETS,
    SERVICEACCOUNTS,
    Discovery,
    Resource,
)
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import Reflector, Timing, WatchSpec
from copyrator.workqueue.limits import AdaptiveLimit
from localcluster import Cluster

MakeNamespace = Callable[..., str]


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    connection = await load_connection(cluster.admin_kubeconfig)
    async with KubeClient(connection, limit=AdaptiveLimit()) as client:
        yield client


async def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


# --- writes and errors ---------------------------------------------------------------------------


async def test_a_dry_run_changes_nothing_whatever_the_verb(
    cluster: Cluster, client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    made = await client.create(SECRETS, ns, named("s", stringData={"a": "1"}))
    metadata = made["metadata"]
    told: list[str] = []
    connection = await load_connection(cluster.admin_kubeconfig)
    async with KubeClient(connection, on_dry_run=lambda call, _: told.append(call.verb)) as dry:
        await dry.create(SECRETS, ns, named("new"))
        body = {"metadata": metadata, "data": {"b": "Mg=="}}
        await dry.request("PUT", SECRETS.path(ns, "s"), body=body)
        for kind in (PatchType.MERGE, PatchType.APPLY):
            apply = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
            await dry.patch(SECRETS, ns, "s", {**apply, "data": {"b": "Mg=="}}, kind=kind)
        await dry.delete(SECRETS, ns, "s")
        await dry.delete(
            SECRETS, ns, "s", uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )
        await dry.request("DELETE", SECRETS.path(ns, "s"))
    assert told == ["create", "update", "patch", "patch", "delete", "delete", "delete"]
    assert await client.get(SECRETS, ns, "s") == made
    with pytest.raises(errors.NotFound):
        await client.get(SECRETS, ns, "new")


async def test_an_object_is_created_read_replaced_patched_and_deleted(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    made = await client.create(SECRETS, ns, named("s", stringData={"a": "1"}))
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["copyrator"]
    replaced = await client.request(
        "PUT", SECRETS.path(ns, "s"), body={"metadata": made["metadata"], "data": {"b": "Mg=="}}
    )
    assert replaced["data"] == {"b": "Mg=="}  # exactly ours: a is gone
    with pytest.raises(errors.ConflictError):  # the version is a precondition
        await client.request(
            "PUT", SECRETS.path(ns, "s"), body={"metadata": made["metadata"], "data": {}}
        )
    patched = await client.patch(SECRETS, ns, "s", {"metadata": {"labels": {"x": "y"}}})
    assert patched["metadata"]["labels"] == {"x": "y"}
    with pytest.raises(errors.ConflictError):
        await client.delete(SECRETS, ns, "s", uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(errors.ConflictError):
        await client.delete(SECRETS, ns, "s", resource_version=made["metadata"]["resourceVersion"])
    meta = patched["metadata"]
    await client.delete(SECRETS, ns, "s", uid=meta["uid"], resource_version=meta["resourceVersion"])
    with pytest.raises(errors.NotFound) as caught:
        await client.get(SECRETS, ns, "s")
    assert not caught.value.kind_missing
    assert not caught.value.namespace_missing


async def test_apply_and_json_patch_are_understood(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    body = {"apiVersion": "v1", "kind": "ConfigMap", **named("c", data={"a": "1"})}
    made = await client.patch(
        CONFIGMAPS, ns, "c", body, kind=PatchType.APPLY, field_manager="x", force=True
    )
    assert made["metadata"]["managedFields"][0]["manager"] == "x"
    steps = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
    ]
    changed = await client.patch(CONFIGMAPS, ns, "c", steps, kind=PatchType.JSON)
    assert changed["data"] == {"a": "2"}
    with pytest.raises(errors.Invalid):
        await client.patch(CONFIGMAPS, ns, "c", steps, kind=PatchType.JSON)


async def test_what_is_there_is_not_touched_by_a_create(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    await client.create(CONFIGMAPS, ns, named("c", data={"mine": "1"}))
    with pytest.raises(errors.AlreadyExists):
        await client.create(CONFIGMAPS, ns, named("c", data={"other": "1"}))
    assert (await client.get(CONFIGMAPS, ns, "c"))["data"] == {"mine": "1"}


async def test_a_missing_namespace_and_a_missing_kind_are_told_from_a_missing_object(
    client: KubeClient,
) -> None:
    with pytest.raises(errors.NotFound) as caught:
        await client.create(CONFIGMAPS, "no-such-namespace", named("c"))
    assert caught.value.namespace_missing
    for nothing in (
        Resource("no.such.group", "v1", "things", "Thing"),
        Resource("apps", "v1", "things", "Thing"),
        Resource("", "v1", "things", "Thing"),
    ):
        with pytest.raises(errors.NotFound) as caught:
            async for _ in client.list_pages(nothing):
                pass
        assert caught.value.kind_missing


async def test_a_terminating_namespace_says_so(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    held = {"metadata": {"name": "held", "finalizers": ["test.copyrator/hold"]}}
    await client.create(CONFIGMAPS, ns, held)
    await client.delete(NAMESPACES, None, ns)
    try:
        with pytest.raises(errors.NamespaceTerminating):
            await client.create(CONFIGMAPS, ns, named("late"))
        recorder = EventRecorder(client)
        task = asyncio.create_task(recorder.run())
        recorder.record(
            ObjectRef("v1", "ConfigMap", ns, "held"), FailureReason.CONFLICT, "not possible"
        )
        recorder.record(
            ObjectRef("v1", "Namespace", "", ns), FailureReason.CONFLICT, "but here it is"
        )
        await recorder.flush(10)
        task.cancel()
        found = await client.request(
            "GET",
            "/api/v1/namespaces/default/events",
            params={"fieldSelector": f"involvedObject.name={ns}"},
        )
        assert [event["message"] for event in found["items"]] == ["but here it is"]
    finally:
        await client.patch(CONFIGMAPS, ns, "held", {"metadata": {"finalizers": None}})


async def test_a_used_up_quota_says_so(client: KubeClient, namespace: MakeNamespace) -> None:
    ns = namespace()
    quota = named("q", spec={"hard": {"count/secrets": "0"}})
    await client.create(RESOURCEQUOTAS, ns, quota)

    async def known() -> bool:
        """Whether admission knows of the quota: later than the quota's status does."""
        try:
            await client.request(
                "POST", SECRETS.path(ns), params={"dryRun": "All"}, body=named("probe")
            )
        except errors.QuotaExceeded:
            return True
        return False

    async with asyncio.timeout(20):
        while not await known():
            await asyncio.sleep(0.05)
    counted = "the ResourceQuota q counts count/secrets: 0 of 0 used, 1 requested"
    with pytest.raises(errors.QuotaExceeded, match=counted):
        await client.create(SECRETS, ns, named("s"))


async def test_immutable_fields_are_recognised(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()

    async def refusal(res: Resource, before: dict[str, Any], after: dict[str, Any]) -> None:
        name = before["metadata"]["name"]
        await client.create(res, ns, before)
        with pytest.raises(errors.Invalid) as caught:
            await client.request("PUT", res.path(ns, name), body=after)
        assert caught.value.immutable, caught.value

    await refusal(
        SECRETS,
        named("frozen", immutable=True, stringData={"a": "1"}),
        named("frozen", immutable=True, stringData={"a": "2"}),
    )
    await refusal(
        CONFIGMAPS,
        named("frozen", immutable=True, data={"a": "1"}),
        named("frozen", immutable=True, data={"a": "2"}),
    )
    await refusal(SECRETS, named("typed", type="a/b"), named("typed", type="c/d"))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    await refusal(
        ROLEBINDINGS,
        named("rb", roleRef={**role, "name": "view"}),
        named("rb", roleRef={**role, "name": "edit"}),
    )
    with pytest.raises(errors.Invalid) as caught:  # invalid for another reason
        await client.create(CONFIGMAPS, ns, named("Not-A-Name"))
    assert not caught.value.immutable


@pytest.mark.parametrize(("size", "status"), [(1_100_000, 422), (3_500_000, 413)])
async def test_too_large_is_one_error_whoever_says_it(
    client: KubeClient, namespace: MakeNamespace, size: int, status: int
) -> None:
    body = named("big", data={"blob": "x" * size})
    with pytest.raises(errors.TooLarge) as caught:
        await client.create(CONFIGMAPS, namespace(), body)
    assert caught.value.status == status


async def test_an_admission_policy_that_says_no_is_quoted(
    client: KubeClient, namespace: MakeNamespace, cluster: Cluster
) -> None:
    skip_before_1_30(cluster.api(), POLICIES_ARE_BETA)
    ns = namespace("policed", labels={"policed": "yes"})
    name = f"no-secrets-{secrets.token_hex(3)}"
    group = "/apis/admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["secrets"],
                    }
                ],
            },
            "validations": [{"expression": "false", "message": "no secrets here"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    await client.request("POST", f"{group}/validatingadmissionpolicies", body=policy)
    await client.request("POST", f"{group}/validatingadmissionpolicybindings", body=binding)
    try:
        async with asyncio.timeout(30):  # policies take effect a little later
            for number in range(10_000):
                try:
                    await client.create(SECRETS, ns, named(f"s{number}"))
                except errors.ApiError as error:
                    caught = error
                    break
                await asyncio.sleep(0.05)
        assert isinstance(caught, errors.AdmissionDenied), repr(caught)
        assert "no secrets here" in caught.message
    finally:
        await client.request("DELETE", f"{group}/validatingadmissionpolicybindings/{name}")
        await client.request("DELETE", f"{group}/validatingadmissionpolicies/{name}")


async def test_a_service_account_has_its_rights_and_no_more(
    cluster: Cluster, client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    await client.create(SERVICEACCOUNTS, ns, named("poor"))
    connection = await load_connection(cluster.kubeconfig_for_service_account(ns, "poor"))
    async with KubeClient(connection) as poor:
        with pytest.raises(errors.Forbidden, match="secrets"):
            await poor.create(SECRETS, ns, named("s"))


async def test_a_wrong_token_is_unauthorized(client: KubeClient) -> None:
    endpoint = client.connection.endpoint
    wrong = Endpoint(
        host=endpoint.host, ssl=_without_certificate(endpoint), authorization="Bearer x"
    )
    async with KubeClient(Connection(wrong)) as stranger:
        with pytest.raises(errors.Unauthorized):
            await stranger.get(NAMESPACES, None, "default")


async def test_an_unknown_certificate_authority_is_unreachable_with_the_cause(
    client: KubeClient,
) -> None:
    distrust = Endpoint(host=client.connection.host, ssl=ssl.create_default_context())
    async with KubeClient(Connection(distrust)) as stranger:
        with pytest.raises(errors.Unreachable, match=r"(?i)certificate"):
            await stranger.get(NAMESPACES, None, "default")


# --- kinds ---------------------------------------------------------------------------------------


async def test_kinds_are_found_by_discovery(client: KubeClient) -> None:
    discovery = Discovery(client)
    deployments = await discovery.resolve("Deployment")
    assert deployments == Resource("apps", "v1", "deployments", "Deployment")
    assert await discovery.resolve("Deployment", "apps/v1") == deployments
    nodes = await discovery.resolve("Node")
    assert not nodes.namespaced
    assert await discovery.resolve("NetworkPolicy") == Resource(
        "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"
    )
    with pytest.raises(errors.KindUnavailable, match="Unicorn"):
        await discovery.resolve("Unicorn")
    with pytest.raises(errors.KindUnavailable, match="apps/v9"):
        await discovery.resolve("Deployment", "apps/v9")
    with pytest.raises(errors.AmbiguousKind, match=r"events\.k8s\.io/v1 or v1"):
        await discovery.resolve("Event")
    assert (await discovery.resolve("Event", "v1")).group == ""


# --- lists and watches ---------------------------------------------------------------------------


async def test_a_metadata_list_comes_in_pages_and_holds_no_data(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    for number in range(7):
        await client.create(SECRETS, ns, named(f"s{number}", stringData={"k": "sentinel"}))
    found = []
    pages = 0
    async for page in client.list_pages(SECRETS, ns, metadata_only=True, limit=3):
        pages += 1
        found += list(page.items)
    assert (pages, len(found)) == (3, 7)
    assert all("data" not in body for body in found)
    assert all(body["metadata"]["managedFields"][0]["manager"] == "copyrator" for body in found)


async def test_a_short_watch_ends_with_a_bookmark(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    """What `Timing.doubt` relies on: a stream shorter than a minute proves itself to be alive.

    There is a bookmark only if some object of the kind has changed meanwhile; see below.
    """
    ns, elsewhere = namespace(), namespace()
    pages = [page async for page in client.list_pages(CONFIGMAPS, ns)]
    started = time.monotonic()
    version = pages[-1].resource_version
    opened = asyncio.Event()

    async def change() -> None:
        await opened.wait()
        await client.create(CONFIGMAPS, elsewhere, named("c"))

    stream = client.watch(CONFIGMAPS, ns, resource_version=version, timeout=8, on_open=opened.set)
    async with asyncio.TaskGroup() as group:
        group.create_task(change())
        events = [event.type async for event in stream]
    assert "BOOKMARK" in events
    assert 6 <= time.monotonic() - started < 60  # without the timeout half an hour at least


async def test_a_short_watch_of_what_does_not_change_ends_by_itself(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    """It mostly has no bookmark then: the regular end is what proves it to be alive."""
    ns = namespace()
    pages = [page async for page in client.list_pages(RESOURCEQUOTAS, ns)]
    version = pages[-1].resource_version
    started = time.monotonic()
    stream = client.watch(RESOURCEQUOTAS, ns, resource_version=version, timeout=3)
    assert {event.type async for event in stream} <= {"BOOKMARK"}
    assert 2 <= time.monotonic() - started < 60


async def test_a_watch_pool_sees_what_others_do(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    pool = InformerFactory(client)
    seen: list[str] = []

    def listener(name: ObjectName, old: Any, new: Any) -> None:
        seen.append(f"{'-' if new is None else '+' if old is None else '~'}{name.name}")

    spec = WatchSpec(SECRETS, namespace=ns, label_selector="copy=yes", metadata_only=True)
    registration = pool.acquire(spec, listener)
    async with asyncio.timeout(20):
        await until(lambda: registration.synced, "all is listed")
    labelled = {"metadata": {"name": "a", "labels": {"copy": "yes"}}}
    await client.create(SECRETS, ns, labelled)
    await client.create(SECRETS, ns, named("unlabelled"))
    await client.patch(SECRETS, ns, "a", {"metadata": {"annotations": {"x": "y"}}})
    await client.patch(SECRETS, ns, "a", {"metadata": {"labels": {"copy": "no"}}})
    await until(lambda: seen == ["+a", "~a", "-a"], "it comes, changes, and leaves the selector")
    assert registration.failure is None
    await pool.close()


async def test_a_thousand_copies_are_known_from_two_requests(
    cluster: Cluster, client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    count = 1000 if LONG else 501  # pages have 500
    names = iter(range(count))

    async def create() -> None:
        for number in names:
            await client.create(SECRETS, ns, named(f"s{number}", stringData={"k": "v" * 2000}))

    await asyncio.gather(*(create() for _ in range(32)))
    await client.create(SERVICEACCOUNTS, ns, named("reader"))
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
    await client.request("POST", f"{rbac}/roles", body=named("reader", rules=rules))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": ns}
    await client.request(
        "POST", f"{rbac}/rolebindings", body=named("reader", roleRef=role, subjects=[subject])
    )
    kubeconfig = cluster.kubeconfig_for_service_account(ns, "reader")
    requests = cluster.requests()
    async with KubeClient(await load_connection(kubeconfig)) as reader:
        reflector: Reflector[str] = Reflector(
            reader,
            WatchSpec(SECRETS, ns, metadata_only=True, decode=lambda body: body["metadata"]["uid"]),
            on_change=lambda *_: None,
            timing=Timing(settled=0.1),
        )
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(30):
            await until(lambda: reflector.synced, "all is listed")
        assert len(reflector.store) == count
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    user = f"system:serviceaccount:{ns}:reader"
    assert requests.count(user=user, verb="list").total() == 2
    assert requests.count(user=user, verb="get").total() == 0


# --- Events --------------------------------------------------------------------------------------


async def test_kubectl_describe_shows_events_with_their_count(
    cluster: Cluster, client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    made = await client.create(CONFIGMAPS, ns, named("c"))
    now = [0.0]
    recorder = EventRecorder(client, clock=lambda: now[0])
    task = asyncio.create_task(recorder.run())
    ref = ObjectRef.of(made, "v1", "ConfigMap")
    for _ in range(4):
        recorder.record(ref, FailureReason.CONFLICT, "somebody else's object is in the way")
        await recorder.flush(10)
        now[0] += 61
    again = EventRecorder(client)  # as after a restart
    other = asyncio.create_task(again.run())
    again.record(ref, FailureReason.CONFLICT, "somebody else's object is in the way")
    await again.flush(10)
    for each in (task, other):
        each.cancel()
    shown = await asyncio.to_thread(cluster.kubectl, "describe", "configmap", "c", "-n", ns)
    line = next(text for text in shown.splitlines() if "in the way" in text)
    assert "Warning" in line
    assert "Conflict" in line
    assert "(x5 over" in line
    assert "copyrator" in line


def _without_certificate(endpoint: Endpoint) -> Any:
    return ssl.create_default_context(cafile=endpoint.ca_file)
