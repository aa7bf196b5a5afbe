"""What Jobs of a Bundle with spec.provider get of its cloud, and for how long."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, approve, deployed, secrets, waits
from tests.component.bundles.cloud import HOST, Cloud, config, login_of
from tests.component.bundles.crashing import Stage, die_after
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import (
    NOT_ALLOWED,
    WAITING,
    BundleCluster,
    path_of,
    succeed,
)
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.keys import BundleKey
from copyrator.api.text import format_time
from copyrator.oci.errors import IdentityRefused, IdentityUnavailable, RateLimited, RegistryError

EXPIRES = "operator.werf.dev/login-expires"


@pytest.fixture
def cloud(registry: FakeRegistry) -> Cloud:
    return Cloud(registry)


@pytest.fixture
def begin(cloud: Cloud, run: Run, bundle: Make) -> Callable[..., Any]:
    """Starts an operator, and makes a Bundle; with ``settings`` of the operator."""

    async def start(settings: dict[str, Any] | None = None, **spec: Any) -> Any:
        operator = await run(prepare=cloud.prepare, **(settings or {}))
        bundle(registry=HOST, insecure=None, provider="aws", **spec)
        return operator

    return start


def rests(operator: Any) -> bool:
    return not (len(operator.queue) or operator.queue.working)


async def after(operator: Any, look: Callable[[], Any]) -> Any:
    """Let time pass until something is true: the operator may set a date only now."""

    def passed() -> Any:
        operator.let_pass(timedelta(seconds=20))
        return look()

    return await eventually(passed)


async def waiting(cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]) -> Any:
    """The operator, and the name of a Job whose pod waits; its login is renewed in time."""
    cluster.ends, cluster.pods = None, WAITING
    cloud.life = timedelta(minutes=30)
    operator = await begin(timeout="2h")
    (name,) = await eventually(lambda: cluster.runs)
    return operator, name


def logins(cluster: BundleCluster) -> set[str]:
    return {name for name in secrets(cluster) if name.endswith("-login")}


async def test_a_deploy_has_a_login_of_its_own_from_before_its_job_until_its_end(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    found: list[Any] = []

    def ends(job: dict[str, Any]) -> tuple[int, str]:
        name = job["metadata"]["name"]
        found.append((login_of(cluster, name), cluster.look("secrets", f"{name}-login"), job))
        return succeed(job)

    cluster.ends = ends
    await begin()
    await deployed(cluster)

    ((login, secret, job),) = found
    assert login == config(cloud.tokens[0])
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Bundle", "shop")
    assert secret["metadata"]["annotations"] == {EXPIRES: format_time(cloud.expires)}
    assert secret["immutable"] is False, "a kubelet reads an immutable one once"
    pod = job["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "docker"]
    assert volume["secret"]["secretName"] == f"{job['metadata']['name']}-login"
    assert "initContainers" not in pod
    assert job["metadata"]["annotations"][EXPIRES] == format_time(cloud.expires)
    await eventually(lambda: not secrets(cluster), "its Secret is deleted")
    assert {one for one, _ in cloud.asked} == {"ServiceAccount team/werf"}


@pytest.mark.needs("approval", "previews")
async def test_plans_their_deploys_and_previews_have_one_each(
    cluster: BundleCluster, begin: Callable[..., Any], werf: Werf, cloud: Cloud
) -> None:
    run, kinds = cluster.ends, []

    def ends(job: dict[str, Any]) -> tuple[int, str] | None:
        kinds.append(job["metadata"]["labels"]["operator.werf.dev/job"])
        assert login_of(cluster, job["metadata"]["name"]) == config(cloud.tokens[-1])
        assert run is not None
        return run(job)

    cluster.ends = ends
    await begin(approval=ALWAYS)
    waiting = await waits(cluster)
    assert not logins(cluster)
    cloud.rotate()  # it isn't part of what was approved
    approve(cluster, waiting)
    await deployed(cluster)
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    await eventually(lambda: not logins(cluster))
    assert kinds == ["plan", "deploy", "plan"]


async def test_an_uninstall_has_none(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    await begin()
    await deployed(cluster)
    cloud.error = IdentityRefused("no")
    found: list[set[str]] = []
    cluster.ends = lambda job: (found.append(logins(cluster)), succeed(job))[1]
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    assert found == [set()]


async def test_while_the_pod_waits_a_new_one_replaces_it_before_it_ends(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    operator, name = await waiting(cluster, cloud, begin)
    operator.let_pass(timedelta(minutes=19))
    await eventually(lambda: rests(operator))
    assert login_of(cluster, name) == config(cloud.tokens[0])
    cloud.rotate()
    await after(operator, lambda: login_of(cluster, name) == config(cloud.tokens[1]))
    (job,) = cluster.jobs()
    assert "given-up" not in str(job["metadata"]["annotations"])
    there = cluster.look("secrets", f"{name}-login") or {}
    assert there["metadata"]["annotations"] == {EXPIRES: format_time(cloud.expires)}

    cluster.end_job(name)
    await deployed(cluster)
    await eventually(lambda: not secrets(cluster), "its Secret is deleted")
    assert len(cluster.jobs()) == 1


async def test_a_job_gets_no_token_of_another_identity_than_it_began_with(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    """It would have its registry's no more, and another's in its place."""
    cluster.ends, cluster.pods = None, WAITING
    cloud.life = timedelta(minutes=30)
    operator = await begin({"allowed_service_accounts": ("werf", "other")}, timeout="2h")
    (name,) = await eventually(lambda: cluster.runs)
    cluster.change("bundles", "shop", spec={"serviceAccountName": "other"})
    key = BundleKey("team", "shop")
    await eventually(lambda: operator.bundles.get(key).spec.service_account == "other")
    cloud.rotate()
    for _ in range(4):
        operator.let_pass(timedelta(minutes=5))
        await eventually(lambda: rests(operator))
    assert login_of(cluster, name) == config(cloud.tokens[0])


async def test_its_secret_is_written_anew_twice_in_half_a_day_at_most(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    """Though the cloud gives another token every time that it is asked for one."""
    cluster.ends, cluster.pods = None, WAITING
    operator = await begin(timeout="24h")
    (name,) = await eventually(lambda: cluster.runs)
    cloud.refuses = True
    first = login_of(cluster, name)
    for _ in range(12 * 6):
        operator.let_pass(timedelta(minutes=10))
        await eventually(lambda: rests(operator))
    await after(operator, lambda: login_of(cluster, name) not in ({}, first))
    written = [one for one in cluster.seen if one.verb == "create" and "/secrets" in one.path]
    assert 1 < len([one for one in written if "-login" in str(one.body)]) <= 4


async def test_while_the_pod_runs_it_is_left_as_it_is(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    cluster.ends = None
    cloud.life = timedelta(minutes=30)
    operator = await begin(timeout="2h")
    (name,) = await eventually(lambda: cluster.runs)
    cloud.rotate()
    for _ in range(4):
        operator.let_pass(timedelta(minutes=10))
        await eventually(lambda: rests(operator))
    assert login_of(cluster, name) == config(cloud.tokens[0])


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_after_a_restart_that_of_a_pod_that_runs_or_a_deleted_bundle_is_left_as_it_is(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any], run: Run, is_deleted: bool
) -> None:
    """That the pod runs may not be known from the Job."""
    cluster.ends, cluster.pods = None, WAITING if is_deleted else {"running": {}}
    cloud.life = timedelta(minutes=30)
    operator = await begin(timeout="2h")
    (name,) = await eventually(lambda: cluster.runs)
    await operator.stop()
    cloud.rotate()
    if is_deleted:
        cluster.drop(path_of("bundles", "shop"))
    cluster.seen.clear()
    operator = await run(prepare=cloud.prepare, ahead=timedelta(minutes=21))

    def is_looked_at() -> bool:
        return any(one.path.endswith("/pods") for one in cluster.seen) and rests(operator)

    await after(operator, is_looked_at)
    assert login_of(cluster, name) == config(cloud.tokens[0])


async def test_that_a_renewal_fails_is_said_once_the_token_has_expired(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    operator, name = await waiting(cluster, cloud, begin)
    cloud.error = IdentityUnavailable("sts.example.com doesn't answer")
    await after(operator, lambda: cluster.reason() == "IdentityUnavailable")
    assert "there is no other: sts.example.com doesn't answer" in cluster.message()
    cloud.error = None
    cloud.rotate()
    await after(operator, lambda: login_of(cluster, name) == config(cloud.tokens[1]))
    await after(operator, lambda: cluster.reason() == "Deploying")


@pytest.mark.parametrize("status", [403, 409, 500])
async def test_a_secret_that_cant_be_written_anew_doesnt_end_the_job(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any], status: int
) -> None:
    """A quota, or somebody's finalizer on it; it is deleted before it is created again."""
    operator, name = await waiting(cluster, cloud, begin)
    cloud.rotate()
    refusals = cluster.refuse("create", "/secrets", status, "exceeded quota: none")
    operator.let_pass(timedelta(minutes=21))
    if status != 500:
        await after(operator, lambda: "its login can't be renewed" in cluster.message())
        assert bool(logins(cluster)) is (status == 409)
    refusals.clear()
    await after(operator, lambda: login_of(cluster, name) == config(cloud.tokens[1]))
    await after(operator, lambda: cluster.reason() == "Deploying")
    assert "given-up" not in str(cluster.jobs()[0]["metadata"]["annotations"])
    assert len(cluster.runs) == 1


async def test_once_the_pod_runs_that_a_renewal_failed_is_no_fault(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any]
) -> None:
    """It has mounted the former one."""
    operator, _ = await waiting(cluster, cloud, begin)
    cloud.rotate()
    cluster.refuse("create", "/secrets", 409)
    operator.let_pass(timedelta(minutes=21))
    await after(operator, lambda: "its login can't be renewed" in cluster.message())
    cluster.put_pod(cluster.jobs()[0], {"running": {}})
    await after(operator, lambda: cluster.reason() == "Deploying")


@pytest.mark.parametrize("number", [1, 2, 3, 4])
async def test_a_death_at_any_write_of_a_renewal_leaves_a_job_that_is_deployed(
    stage: Stage, cloud: Cloud, number: int
) -> None:
    """The Job's mark, a create that is refused, a delete, a create."""
    cluster = stage.cluster
    cluster.ends, cluster.pods = None, WAITING
    cloud.life = timedelta(minutes=30)
    stage.start = partial(stage.start, prepare=cloud.prepare)
    operator = await stage.run()
    stage.bundle(registry=HOST, insecure=None, provider="aws", timeout="2h")
    (name,) = await eventually(lambda: cluster.runs)
    await operator.stop()
    cloud.rotate()
    stage.ahead = timedelta(minutes=21)
    await die_after(cluster, stage.run, number)
    await stage.run()

    await eventually(lambda: login_of(cluster, name) == config(cloud.tokens[1]))
    assert "given-up" not in str(cluster.jobs()[0]["metadata"]["annotations"])
    cluster.end_job(name)
    await deployed(cluster)
    await eventually(lambda: not secrets(cluster), "its Secret is deleted")
    assert len(cluster.runs) == 1


async def test_what_a_process_leaves_is_deleted_by_the_next_one_however_late(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any], run: Run
) -> None:
    refusals = cluster.refuse("delete", "/secrets", 500)
    operator = await begin()
    await deployed(cluster)
    await operator.stop()
    refusals.clear()
    assert logins(cluster)
    await run(prepare=cloud.prepare, ahead=timedelta(days=3))
    await eventually(lambda: not logins(cluster))


@pytest.mark.parametrize(
    "is_plan", [False, pytest.param(True, marks=pytest.mark.needs("approval"))]
)
@pytest.mark.parametrize(
    "error",
    [IdentityRefused("the role isn't assumable"), RateLimited("sts throttles", 90.0)],
    ids=["refused", "throttled"],
)
async def test_without_a_login_there_is_no_attempt_but_a_state_with_its_reason(
    cluster: BundleCluster,
    registry: FakeRegistry,
    cloud: Cloud,
    begin: Callable[..., Any],
    error: RegistryError,
    is_plan: bool,
    werf: Werf,
) -> None:
    """The registry is asked with a header from before."""
    spec = {"approval": ALWAYS} if is_plan else {}
    operator = await begin(**spec)
    if is_plan:
        approve(cluster, await waits(cluster))
    await deployed(cluster)
    before = cluster.status()
    cloud.error = error
    registry.put("app", "1.0.0", "two")
    annotate(cluster, requestedAt="now")
    await eventually(lambda: cluster.reason() == error.reason, cluster.message())
    assert cluster.message().startswith(error.message)
    jobs = len(cluster.runs)
    asked = len(cloud.asked)
    await after(operator, lambda: len(cloud.asked) > asked and rests(operator))
    status = cluster.status()
    assert len(cluster.runs) == jobs
    assert (status["attempted"], status["history"]) == (before["attempted"], before["history"])
    cloud.error = None
    if is_plan:
        await after(operator, lambda: cluster.reason() == "AwaitingApproval")
        approve(cluster, await waits(cluster))
    await after(operator, lambda: cluster.reason() == "Deployed" and len(cluster.runs) > jobs)


@pytest.mark.parametrize(
    "part",
    [
        "attempted",
        pytest.param("plan", marks=pytest.mark.needs("approval")),
        pytest.param("preview", marks=pytest.mark.needs("previews")),
        pytest.param("drift", marks=pytest.mark.needs("drift")),
    ],
)
async def test_a_login_that_is_gone_when_the_job_is_made_counts_against_nothing(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any], werf: Werf, part: str
) -> None:
    """It was there when the attempt, or the plan, was recorded. Of a plan it is tried twice."""
    release = Release(cluster, werf)

    def is_recorded() -> bool:
        found = cluster.status().get(part, {})
        return bool("Running" in (found.get("outcome"), found.get("check", {}).get("outcome")))

    def reported() -> list[dict[str, Any]]:
        found = [one.get(part, {}) for one in cluster.statuses["shop"]]
        return [one for one in found if one.get("reason") == "IdentityRefused"]

    cloud.is_refused, cloud.refusals = is_recorded, 2 if part == "plan" else 1
    spec = {"plan": {"approval": ALWAYS}, "drift": {"drift": DETECT}}.get(part, {})
    operator = await begin(retry={"limit": 0}, **spec)
    if part == "preview":
        await deployed(cluster)
        annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    found = (await eventually(reported))[0]
    assert found["message"].endswith("the role isn't assumable")
    assert not found.get("failures")
    if part == "plan":
        await after(operator, lambda: cluster.reason() == "AwaitingApproval")
    elif part == "drift":
        operator.let_pass(timedelta(hours=2))
        await release.in_sync()
    elif part == "attempted":
        await after(operator, lambda: cluster.reason() == "Deployed")
        assert len(cluster.runs) == 1


async def test_a_cloud_that_takes_its_time_holds_no_reconcile(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any], registry: FakeRegistry
) -> None:
    operator = await begin()
    await deployed(cluster)
    cloud.gate = asyncio.Event()
    registry.put("app", "1.0.0", "two")
    annotate(cluster, requestedAt="now")
    asked = len(cloud.asked)
    await eventually(lambda: len(cloud.asked) > asked and not operator.queue.working)
    assert len(cluster.runs) == 1
    cloud.gate.set()
    await eventually(lambda: len(cluster.runs) == 2)
    await deployed(cluster)


def forms(token: str) -> tuple[str, ...]:
    pair = base64.b64encode(f"AWS:{token}".encode()).decode()
    encoded = base64.b64encode(token.encode()).decode()
    secret = base64.b64encode(json.dumps(config(token)).encode()).decode()
    return token, pair, encoded, quote(token, safe=""), quote(token), secret


@pytest.mark.parametrize(
    ("secret", "renewed", "restarted"),
    [
        ("readable", False, True),
        ("readable", True, True),
        ("refused", False, True),
        ("readable", True, False),
        ("refused", True, False),
        ("refused", False, False),
        ("replaced", False, False),
    ],
)
async def test_no_token_reaches_the_status_whatever_the_operator_may_read_or_know(
    cluster: BundleCluster,
    cloud: Cloud,
    begin: Callable[..., Any],
    run: Run,
    secret: str,
    renewed: bool,
    restarted: bool,
) -> None:
    operator, name = await waiting(cluster, cloud, partial(begin, retry={"limit": 0}))
    ahead = timedelta()
    if renewed:
        cloud.rotate()
        ahead = timedelta(minutes=21)
        operator.let_pass(ahead)
        await after(operator, lambda: login_of(cluster, name) == config(cloud.tokens[1]))
    if secret == "refused":
        cluster.refuse("get", f"{name}-login", 403, NOT_ALLOWED)
    elif secret == "replaced":
        auth = json.dumps({"auths": {HOST: {"auth": "bWFsbG9yeTp4"}}}).encode()
        data = {".dockerconfigjson": base64.b64encode(auth).decode()}
        cluster.put_object("secrets", f"{name}-login", data=data)
    if restarted:
        cluster.put_pod(cluster.jobs()[0], {"running": {}})
        cluster.change("jobs", name, status={"ready": 1})
        await operator.stop()
        operator = await run(prepare=cloud.prepare, ahead=ahead)
    texts = " ".join(form for token in cloud.tokens for form in forms(token))
    cluster.end_job(name, 1, f"Error: release install: it says {texts} here")

    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Failed")
    message = cluster.status()["attempted"]["message"]
    known = not restarted or (secret == "readable" and not renewed)
    assert ("<redacted>" in message) is known
    assert message.startswith("<withheld") is not known
    shown = str([one for path, one in cluster.objects.items() if "/secrets/" not in path])
    for token in cloud.tokens:
        assert not [form for form in forms(token) if form in shown.replace(texts, "")]
    await eventually(lambda: not logins(cluster))


@pytest.mark.needs("approval")
async def test_a_plans_fault_has_no_token(
    cluster: BundleCluster, cloud: Cloud, begin: Callable[..., Any], werf: Werf
) -> None:
    text = " ".join(forms(cloud.tokens[0]))
    cluster.refuse("get", "-login", 403, NOT_ALLOWED)
    werf.says = lambda job, nonce: (1, f"Error: release plan install: it says {text} here\n")
    await begin(approval=ALWAYS, retry={"limit": 0})
    await eventually(lambda: cluster.status().get("plan", {}).get("outcome") == "Failed")
    message = cluster.status()["plan"]["message"]
    assert "it says <redacted> <redacted> <redacted>" in message


REFUSED = (
    f"Error: pull bundle: failed to get manifest: GET https://{HOST}/v2/app/manifests/1.0.0: "
    "unexpected status code 401 Unauthorized"
)


REMEDY = (
    "401 Unauthorized; give ServiceAccount team/werf ecr:BatchGetImage and "
    "ecr:GetDownloadUrlForLayer on the repository"
)
"""As a poll needs no layer, the registry may refuse nothing before a Job."""


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("late", [False, True])
async def test_that_a_token_expired_in_mid_job_isnt_the_versions_fault(
    cluster: BundleCluster,
    cloud: Cloud,
    begin: Callable[..., Any],
    run: Run,
    late: bool,
    restarted: bool,
) -> None:
    cluster.ends = None
    cloud.life = timedelta(seconds=-1) if late else timedelta(minutes=30)
    operator = await begin(retry={"limit": 0})
    (name,) = await eventually(lambda: cluster.runs)
    if restarted:
        await operator.stop()
        await run(prepare=cloud.prepare)
    report = '{"status": "failed", "revision": 1, "failedOperations": ["create: Pod/bad"]}'
    cluster.logs[f"{name}-pod"] = f"{REFUSED}\n"
    cluster.end_job(name, 1, report if late else REFUSED)
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Interrupted")
    attempted = cluster.status()["attempted"]
    assert attempted["reason"] == ("TokenExpired" if late else "AuthenticationFailed")
    expiry = f"the token in the Job's Secret had expired at {format_time(cloud.expires)}"
    assert (expiry in attempted["message"]) is late
    assert (REMEDY in attempted["message"]) is not late or restarted
    assert attempted["failures"] == 0


@pytest.mark.needs("approval")
@pytest.mark.parametrize(
    ("life", "text"),
    [(-1, "the next Job gets a new one"), (60, REMEDY)],
    ids=["expired", "refused"],
)
async def test_a_plan_whose_pull_is_refused_says_why_and_is_made_again(
    cluster: BundleCluster,
    cloud: Cloud,
    begin: Callable[..., Any],
    werf: Werf,
    life: int,
    text: str,
) -> None:
    """Where the token had expired also without retries."""
    cloud.life = timedelta(seconds=life)
    werf.says = lambda job, nonce: (1, f"{REFUSED}\n")
    await begin(approval=ALWAYS, retry={"limit": int(life > 0)})
    await eventually(lambda: cluster.status().get("plan", {}).get("outcome") == "Failed")
    plan = cluster.status()["plan"]
    assert text in plan["message"]
    assert (plan["reason"] == "TokenExpired") is (life < 0)
    assert plan["nextRetryAt"]


async def test_without_the_permission_nothing_is_deployed_and_the_status_says_what_helps(
    cluster: BundleCluster, begin: Callable[..., Any]
) -> None:
    refusals = cluster.refuse("create", "/secrets", 403, NOT_ALLOWED)
    await begin()
    await eventually(lambda: cluster.reason() == "Forbidden", cluster.message())
    assert cluster.message() == (
        f"a Job gets the credential of {HOST} alone, and the operator may not write a Secret with "
        f"that: {NOT_ALLOWED}. Set bundles.plans.enabled of the chart, or use spec.auth in place "
        "of spec.provider"
    )
    assert not cluster.runs
    refusals.clear()
    await deployed(cluster)


async def test_a_quota_without_secrets_is_named(
    cluster: BundleCluster, begin: Callable[..., Any]
) -> None:
    text = 'secrets "shop" is forbidden: exceeded quota: none, requested: count/secrets=1'
    refusals = cluster.refuse("create", "/secrets", 403, text)
    await begin(retry={"limit": 0, "backoff": "1s"})
    await eventually(lambda: "exceeded quota: none" in cluster.message(), cluster.message())
    assert "bundles.plans.enabled" not in cluster.message()
    attempted = cluster.status()["attempted"]
    assert (attempted["outcome"], attempted["failures"]) == ("Interrupted", 0)
    assert not cluster.runs
    refusals.clear()
    await deployed(cluster)
