"""Guarded Jobs: their lists are there before them, and go once none of their pods can write."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import (
    ALWAYS,
    PATIENT,
    approve,
    deployed,
    idle,
    waits,
)
from tests.component.bundles.fake_cluster import GUARD, HOME, TEAM, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf, block
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import error

from copyrator.api.keys import BundleKey, ObjectName
from copyrator.bundles.engine.attempt import AttemptMemory
from copyrator.bundles.plans.guard.lists import GuardTiming
from copyrator.bundles.plans.operations import BEGIN
from copyrator.bundles.plans.script import PlanExit
from copyrator.bundles.plans.secrets import StoredPlans

POLICY = GUARD
PAGE = f"{GUARD}.1"
KEPT = 0.3
LISTS = f"/api/v1/namespaces/{HOME}/configmaps"
DENIED = (
    "Error: release install: create resource: server-side apply resource: x is forbidden: "
    f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: "
)


@pytest.fixture
def start(cluster: BundleCluster, run: Run) -> Run:
    """Starts operators with a guard."""
    cluster.namespace(HOME)
    return partial(
        run,
        guard_policy=POLICY,
        lease_namespace=HOME,
        timing=replace(TIMING, features=(GuardTiming(kept=KEPT),), job_handover=0.5),
    )


def config_maps(cluster: BundleCluster) -> dict[str, dict[str, Any]]:
    """The ConfigMaps that are there, by name."""
    return {
        path.removeprefix(f"{LISTS}/"): body
        for path, body in cluster.objects.items()
        if path.startswith(f"{LISTS}/")
    }


def lists(cluster: BundleCluster) -> dict[str, list[str]]:
    """The lines of each list that is there, by the Job's name."""
    return {
        key.removeprefix(f"{TEAM}."): text.split("\n")
        for body in config_maps(cluster).values()
        for key, text in body.get("data", {}).items()
    }


def put_pod(cluster: BundleCluster, job: dict[str, Any], phase: str, **metadata: Any) -> str:
    """A pod of a Job, named as the Job controller names it; returns its path."""
    of = job["metadata"]
    name = f"{of['name']}-x7k2p"
    labels = {**of["labels"], "batch.kubernetes.io/job-name": of["name"]}
    owner = {"kind": "Job", "name": of["name"], "uid": of["uid"], "controller": True}
    metadata |= {"name": name, "namespace": TEAM, "labels": labels, "ownerReferences": [owner]}
    path = path_of("pods", name)
    cluster.write(path, {"metadata": metadata, "spec": {}, "status": {"phase": phase}})
    return path


async def begun(cluster: BundleCluster, bundle: Make, **spec: Any) -> dict[str, Any]:
    """The Job of an approved deploy, which runs."""
    bundle(approval=ALWAYS, **spec)
    approve(cluster, await waits(cluster))
    await eventually(cluster.jobs)
    (job,) = cluster.jobs()
    return job


async def stays(cluster: BundleCluster, name: str) -> None:
    """A list is there for longer than one whose Job has ended, and whatever time that took."""
    deadline = asyncio.get_running_loop().time() + 2 * KEPT
    while asyncio.get_running_loop().time() < deadline:
        assert name in lists(cluster)
        await asyncio.sleep(0.02)


def writes(cluster: BundleCluster) -> list[tuple[str, str]]:
    """All writes to lists and Jobs, in order."""
    return [
        (seen.verb, seen.path.rpartition("/")[2])
        for seen in cluster.seen
        if (LISTS in seen.path and seen.verb in ("create", "patch", "delete"))
        or (seen.verb == "create" and seen.path.endswith("/jobs"))
    ]


async def test_the_list_is_there_before_the_job_and_goes_after_it(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    operator = await start()
    bundle(approval=ALWAYS)
    approve(cluster, await waits(cluster))
    status = await deployed(cluster)
    await eventually(lambda: not config_maps(cluster), "the list goes")
    await idle(operator)

    assert status["attempted"]["guarded"] is True
    # The plan's Job has none.
    assert writes(cluster) == [
        ("create", "jobs"),
        ("create", "configmaps"),
        ("create", "jobs"),
        ("delete", PAGE),
    ]


async def test_the_list_has_the_account_and_what_was_approved(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    werf.holds_deploys = True
    await start()

    job = await begun(cluster, bundle, project_namespace=TEAM)

    ((key, (account, namespace, *lines)),) = lists(cluster).items()
    assert key == job["metadata"]["name"] == cluster.status()["attempted"]["job"]
    assert account == f"system:serviceaccount:{TEAM}:werf"
    assert namespace == TEAM
    assert {"CU//ConfigMap//app", "CU//Secret//sh.helm.release.v1.shop.v1"} <= set(lines)
    script = job["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert script.count("require_guard\n") == 2
    assert f"guard={POLICY}\n" in script


async def test_a_guard_costs_two_requests_of_an_attempt(
    cluster: BundleCluster, werf: Werf, run: Run, start: Run, bundle: Make
) -> None:
    counts = []
    for name, begin in (("plain", partial(run, guard_policy=None)), ("guarded", start)):
        operator = await begin(timing=replace(TIMING, features=(GuardTiming(kept=KEPT),)))
        bundle(name, approval=ALWAYS)
        found = await waits(cluster, name=name)
        await idle(operator)
        before = len(cluster.seen)
        approve(cluster, found, name=name)
        await deployed(cluster, name)
        await eventually(lambda: not lists(cluster), "the list goes")
        await idle(operator)
        # The pods of a Job that ends at once are read once or twice. The Job is read where its
        # watch is late.
        seen = (one for one in cluster.seen[before:] if one.verb != "watch")
        asked = (f"{one.verb} {_kind(one.path)}" for one in seen if not one.path.endswith("/pods"))
        counts.append(sorted(one for one in asked if one != "get jobs"))
        await operator.stop()

    plain, guarded = counts
    for one in plain:
        guarded.remove(one)
    assert guarded == ["create configmaps", "delete configmaps"]


def _kind(path: str) -> str:
    parts = path.split("/")
    return next((one for one in parts[::-1] if one.endswith("s") and "-" not in one), path)


@pytest.mark.parametrize("phase", ["Pending", "Unknown"])  # Running: below
async def test_it_stays_while_a_pod_has_not_ended(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, phase: str
) -> None:
    werf.holds_deploys = True
    operator = await start()
    job = await begun(cluster, bundle)
    # Also one that is Terminating, which may write until it is gone.
    pod = put_pod(cluster, job, phase, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])
    name = job["metadata"]["name"]
    # The watch of Jobs may be faster, and the time that a list is kept is short here.
    seen = operator.controller._plans.lists._jobs._open_pods
    await eventually(lambda: ObjectName(TEAM, name) in seen, "the pod is seen")

    werf.finish(job)
    await deployed(cluster)
    await stays(cluster, name)
    cluster.drop(path_of("jobs", name))
    await stays(cluster, name)

    cluster.write(pod, {**cluster.objects[pod], "status": {"phase": "Failed"}})
    await eventually(lambda: not lists(cluster), "the list goes")


async def test_it_stays_while_the_job_has_not_ended(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    werf.holds_deploys = True
    operator = await start()
    job = await begun(cluster, bundle)
    name = job["metadata"]["name"]

    await stays(cluster, name)
    await operator.stop()
    await start()
    await stays(cluster, name)

    cluster.drop(path_of("jobs", name))
    await eventually(lambda: name not in lists(cluster), "the list goes")


@pytest.mark.parametrize("what", ["jobs", "pods"])
async def test_what_the_watches_do_not_tell_is_asked_for(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, what: str
) -> None:
    """They may be silent for a minute, and a Job is created meanwhile, which runs."""
    werf.holds_deploys = True
    await start()
    job = await begun(cluster, bundle)
    name = job["metadata"]["name"]
    paths = {"jobs": path_of("jobs", name), "pods": put_pod(cluster, job, "Running")}
    there = cluster.objects[paths[what]]
    for path in paths.values():
        cluster.drop(path)
    cluster.objects[paths[what]] = there  # no watch is told

    await stays(cluster, name)

    del cluster.objects[paths[what]]
    await eventually(lambda: name not in lists(cluster), "the list goes")


async def test_lists_whose_time_has_come_together_go_together(
    cluster: BundleCluster, werf: Werf, start: Run
) -> None:
    """As after a restart."""
    left = {f"{TEAM}.gone{number}": "x\n\n" for number in range(40)}
    labels = {"operator.werf.dev/guard": "lists"}
    metadata = {"name": "left", "namespace": HOME, "labels": labels}
    cluster.write(f"{LISTS}/left", {"metadata": metadata, "data": left})
    began, kept = asyncio.get_running_loop().time(), 1.0

    await start(timing=replace(TIMING, features=(GuardTiming(kept=kept),)))

    await eventually(lambda: not config_maps(cluster), "they go")
    assert asyncio.get_running_loop().time() - began < len(left) * kept / 2


async def test_where_pods_cannot_be_watched_they_are_asked_for(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    cluster.by_name_only.add(("pods", ""))
    werf.holds_deploys = True
    await start()
    job = await begun(cluster, bundle)
    pod = put_pod(cluster, job, "Running")
    name = job["metadata"]["name"]

    werf.finish(job)
    await stays(cluster, name)
    cluster.drop(pod)

    await eventually(lambda: not lists(cluster), "the list goes")


async def test_what_others_left_is_tidied_at_the_start(
    cluster: BundleCluster, werf: Werf, start: Run
) -> None:
    gone = {f"{TEAM}.gone": f"system:serviceaccount:{TEAM}:werf\n\n", "junk": "x"}
    for name, data in (("gone", gone), ("empty", {})):
        labels = {"operator.werf.dev/guard": "lists"}
        metadata = {"name": name, "namespace": HOME, "labels": labels}
        cluster.write(f"{LISTS}/{name}", {"metadata": metadata, "data": data})
    other = {"metadata": {"name": "other", "namespace": HOME}}
    cluster.write(f"{LISTS}/other", other)

    await start()

    await eventually(lambda: set(config_maps(cluster)) == {"other"}, "both go")


async def test_who_hides_the_plan_for_a_moment_evades_no_list(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    """As whoever may write Secrets there: it could be made anew before the pod starts."""
    bundle(approval=ALWAYS)
    operator = await start()
    found = await waits(cluster, enforced=True)
    operator.controller._context.memories.forget(BundleKey(TEAM, "shop"), StoredPlans)
    cluster.drop(path_of("secrets", f"{found['job']}-operations"))

    approve(cluster, found)

    await eventually(lambda: cluster.status().get("attempted"), "the attempt")
    await eventually(lambda: cluster.status()["attempted"].get("outcome") != "Running", "its end")
    attempted = cluster.status()["attempted"]
    assert (attempted["reason"], attempted["guarded"]) == ("PlanChanged", True)
    assert cluster.jobs() == []


@pytest.mark.parametrize("is_same", [True, False])
async def test_a_list_that_is_there_already_is_what_is_approved_now(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, is_same: bool
) -> None:
    """The process died between the list and the Job."""
    werf.holds_deploys = True
    patient = replace(TIMING, features=(GuardTiming(kept=60.0),), job_handover=0.5)
    operator = await start(timing=patient)
    cluster.dies_at = None
    job = await begun(cluster, bundle)
    name = job["metadata"]["name"]
    made, page = lists(cluster)[name], config_maps(cluster)[PAGE]
    await operator.stop()
    cluster.drop(path_of("jobs", name))
    cluster.drop(path_of("pods", f"{name}-pod"))
    if not is_same:
        cluster.write(f"{LISTS}/{PAGE}", {**page, "data": {f"{TEAM}.{name}": "x"}})
    before = len(writes(cluster))
    attempted = {**cluster.status()["attempted"]}
    cluster.objects[path_of("bundles", "shop")]["status"]["attempted"] = attempted

    operator = await start(timing=patient)
    memories = operator.controller._context.memories
    memories.of(BundleKey(TEAM, "shop"), AttemptMemory).creating = attempted["attempt"]
    await eventually(lambda: len(cluster.jobs()) == 1, "its Job is made")

    assert lists(cluster) == {name: made}
    assert writes(cluster)[before:] == [("patch", PAGE), ("create", "jobs")]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("not approved: CREATE//Secret/team/evil", "ExceedsApproval"),
        ("not approved as the deploying account: CREATE//ConfigMap/team/app", "ExceedsApproval"),
        ("not approved: DELETE//ConfigMap/team/app", "PlanChanged"),
        ("not approved: UPDATE//Secret/team/sh.helm.release.v1.shop.v7", "PlanChanged"),
    ],
)
async def test_a_refusal_is_the_attempts_reason(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, key: str, reason: str
) -> None:
    def refuse(job: dict[str, Any]) -> tuple[int, str]:
        pod = f"{job['metadata']['name']}-pod"
        cluster.logs[pod] += f"{DENIED}{key}\n"
        return 1, '{"status": "failed", "revision": 1, "failedOperations": ["create: x"]}'

    werf.ends = refuse
    recorder = Told()
    await start(recorder=recorder)
    bundle(approval=ALWAYS, project_namespace=TEAM, retry={"limit": 3, "backoff": "1h"})
    approve(cluster, await waits(cluster))
    await eventually(lambda: "reason" in cluster.status().get("attempted", {}))

    attempted = cluster.status()["attempted"]
    assert attempted["reason"] == reason
    verb, _, rest = key.partition(": ")[2].partition("/")
    kind, name = rest.split("/")[1], rest.rpartition("/")[2]
    assert f"refused the {verb} of {kind} {name} in {TEAM}" in attempted["message"]
    if reason == "ExceedsApproval":
        await eventually(lambda: cluster.reason() == "Quarantined", "at once")
        assert "nextRetryAt" not in attempted

        await eventually(lambda: "Quarantined" in recorder.said, "an Event")
        said = recorder.said["Quarantined"][-1]
        assert f"failed: the API server refused the {verb} of {kind} {name}" in said
    else:
        assert attempted["outcome"] == "Interrupted"
        assert "nextRetryAt" in attempted


@pytest.mark.parametrize(
    ("code", "reason"),
    [(PlanExit.NOT_GUARDED, "GuardNotActive"), (PlanExit.FAILED, "PlanFailed")],
)
async def test_a_guard_that_is_not_in_force_is_no_fault_of_the_digest(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, code: int, reason: str
) -> None:
    werf.ends = lambda job: (code, "Error: GuardNotActive: nothing was written: x")
    await start()
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "1h"})
    approve(cluster, await waits(cluster))

    await eventually(lambda: cluster.reason() == reason, reason)

    attempted = cluster.status()["attempted"]
    assert (attempted["outcome"], attempted["reason"]) == ("Interrupted", reason)
    assert attempted["failures"] == 0


async def test_a_list_that_cannot_be_written_begins_no_job(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    cluster.refuse("create", LISTS, 403, "no right")
    await start()
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "1h"})
    approve(cluster, await waits(cluster))

    await eventually(lambda: cluster.reason() == "GuardNotActive")

    assert "no right" in cluster.message()
    assert cluster.jobs() == []


async def test_attempts_at_once_have_a_list_each_and_leave_nothing(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    """Also those that end together."""
    werf.holds_deploys = True
    await start()
    for name in ("one", "two", "three"):
        bundle(name, approval=ALWAYS)
        approve(cluster, await waits(cluster, name=name), name=name)
    await eventually(lambda: len(cluster.jobs()) == 3)
    first, *others = cluster.jobs()
    left = {one["metadata"]["name"] for one in others}
    assert set(lists(cluster)) == left | {first["metadata"]["name"]}

    werf.finish(first)

    await eventually(lambda: set(lists(cluster)) == left, "one goes")
    await stays(cluster, others[0]["metadata"]["name"])
    assert set(config_maps(cluster)) == {PAGE}
    for job in others:
        werf.finish(job)
    await eventually(lambda: not config_maps(cluster), "all go")


@pytest.mark.parametrize(
    ("size", "is_deleted"), [(1_048_500, False), (1, True)], ids=["full", "deleted"]
)
async def test_where_the_others_take_no_more_a_list_has_a_config_map_of_its_own(
    cluster: BundleCluster,
    werf: Werf,
    start: Run,
    bundle: Make,
    size: int,
    is_deleted: bool,
) -> None:
    """The API server limits what all values have together; one that is deleted goes with them."""
    labels = {"operator.werf.dev/guard": "lists"}
    metadata = {"name": PAGE, "namespace": HOME, "labels": labels, "finalizers": ["a/b"]}
    full = {f"{TEAM}.gone": "x" * size}
    cluster.write(f"{LISTS}/{PAGE}", {"metadata": metadata, "data": full})
    if is_deleted:
        cluster.drop(f"{LISTS}/{PAGE}")
    werf.holds_deploys = True
    await start(timing=replace(TIMING, features=(GuardTiming(kept=60.0),)))

    job = await begun(cluster, bundle)

    assert f"{TEAM}.{job['metadata']['name']}" in config_maps(cluster)[f"{GUARD}.2"]["data"]
    assert config_maps(cluster)[PAGE]["data"] == full


@pytest.mark.promise
async def test_what_a_crash_left_allows_nothing_where_the_new_list_does_not_fit_in_its_place(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    """A Job is held to each list that has its name: an old one beside it would allow more."""
    werf.holds_deploys = True
    patient = replace(TIMING, features=(GuardTiming(kept=60.0),), job_handover=0.5)
    operator = await start(timing=patient)
    cluster.dies_at = None
    job = await begun(cluster, bundle)
    name = job["metadata"]["name"]
    key, made, page = f"{TEAM}.{name}", lists(cluster)[name], config_maps(cluster)[PAGE]
    await operator.stop()
    cluster.drop(path_of("jobs", name))
    cluster.drop(path_of("pods", f"{name}-pod"))
    full = {key: "x", f"{TEAM}.gone": "x" * 1_048_500}
    cluster.write(f"{LISTS}/{PAGE}", {**page, "data": full})
    attempted = {**cluster.status()["attempted"]}
    cluster.objects[path_of("bundles", "shop")]["status"]["attempted"] = attempted

    async def refuse_if_full(request: web.Request) -> web.StreamResponse:
        """As the API server does where a ConfigMap would be too large."""
        change = await request.json()
        if request.path.endswith(PAGE) and (change.get("data") or {}).get(key):
            return await error(422, "Invalid")(request)
        return await cluster.serve(request)

    cluster.always("patch", refuse_if_full)
    operator = await start(timing=patient)
    memories = operator.controller._context.memories
    memories.of(BundleKey(TEAM, "shop"), AttemptMemory).creating = attempted["attempt"]
    await eventually(lambda: len(cluster.jobs()) == 1, "its Job is made")

    assert key not in config_maps(cluster)[PAGE]["data"]
    assert config_maps(cluster)[f"{GUARD}.2"]["data"][key].split("\n") == made


@pytest.mark.promise
async def test_a_list_that_is_added_while_the_last_one_goes_is_not_deleted_with_it(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    """Without its list a Job may write nothing: its deploy would fail."""
    seen: list[dict[str, Any]] = []

    async def add_another(request: web.Request) -> web.StreamResponse:
        if request.path.endswith(PAGE) and not seen:
            page = config_maps(cluster)[PAGE]
            added = {**page, "data": {**page["data"], f"{TEAM}.other": "x\n\n"}}
            seen.append(cluster.write(f"{LISTS}/{PAGE}", added))
        return await cluster.serve(request)

    cluster.always("delete", add_another)
    await start()
    bundle(approval=ALWAYS)
    approve(cluster, await waits(cluster))
    await deployed(cluster)
    await eventually(lambda: not config_maps(cluster), "the other goes in its turn")

    assert seen
    assert writes(cluster)[-3:] == [("delete", PAGE), ("patch", PAGE), ("delete", PAGE)]


LARGE = [f"create ::ConfigMap:{hashlib.sha256(str(i).encode()).hexdigest()}" for i in range(600)]


@pytest.mark.parametrize("todo", [LARGE[:1], LARGE], ids=["small", "large"])
@pytest.mark.parametrize("restarts", [True, False], ids=["restarted", "same process"])
async def test_a_plan_whose_secret_may_not_be_read_is_deployed(
    cluster: BundleCluster,
    werf: Werf,
    start: Run,
    bundle: Make,
    todo: list[str],
    restarts: bool,
) -> None:
    """``bundles.allowedSecrets``. Of plans the operator remembers small ones, until it restarts."""
    werf.todo = lambda _: sorted(todo)
    for ending in ("operations", "inputs", "release-objects-0", "release-objects-1"):
        cluster.refuse("get", f"-{ending}", 403, "secrets is forbidden")
    operator = await start()
    bundle(approval=ALWAYS)
    found = await waits(cluster, enforced=True)
    if restarts:
        await operator.stop()
        await start()

    approve(cluster, found)

    status = await deployed(cluster)
    assert (status["attempted"]["attempt"], status["attempted"]["guarded"]) == (1, True)
    assert len(cluster.jobs("plan")) == 1


async def test_a_plan_that_can_be_read_nowhere_is_made_anew(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    cluster.refuse("get", "-operations", 403, "secrets is forbidden")
    operator = await start()
    bundle(approval=ALWAYS, retry=PATIENT)
    found = await waits(cluster, enforced=True)
    operator.controller._context.memories.forget(BundleKey(TEAM, "shop"), StoredPlans)
    cluster.logs[f"{found['job']}-pod"] += "and more\n"

    approve(cluster, found)

    status = await deployed(cluster)
    assert (status["attempted"]["attempt"], status["plan"]["number"]) == (2, 2)
    assert "PlanChanged" in str(cluster.statuses["shop"])


@pytest.mark.promise
async def test_a_log_that_shows_another_plan_than_was_approved_is_not_deployed(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    """Whoever can answer for a kubelet: the log is read where the plan's Secret may not be."""
    werf.todo = lambda _: ["create ::ConfigMap:app"]
    cluster.refuse("get", "-operations", 403, "secrets is forbidden")
    operator = await start()
    bundle(approval=ALWAYS, retry=PATIENT)
    found = await waits(cluster, enforced=True)
    operator.controller._context.memories.forget(BundleKey(TEAM, "shop"), StoredPlans)
    log = f"{found['job']}-pod"
    said = re.search(rf"{BEGIN} (\S+) 1 0 0 \S+ (\S+) \S+\nrevision ([0-9]+)\n", cluster.logs[log])
    assert said is not None
    other = block(said[1], int(said[3]), ["create ::ConfigMap:ape"], said[2])
    assert len(other) < len(cluster.logs[log]), "a plan as it is printed"
    cluster.logs[log] = other

    approve(cluster, found)

    await eventually(lambda: cluster.status().get("attempted"), "the attempt")
    await eventually(lambda: cluster.status()["attempted"].get("outcome") != "Running", "its end")
    assert cluster.statuses["shop"][-1]["attempted"]["reason"] == "PlanChanged"
    assert "ConfigMap//ape" not in str(cluster.seen)


def rolls_back(job: dict[str, Any]) -> bool:
    """Whether werf is told to."""
    return "--auto-rollback" in str(job["spec"]["template"]["spec"]["containers"])


async def edited(cluster: BundleCluster, number: int, **spec: Any) -> dict[str, Any]:
    """The plan of an edited Bundle, deployed; with its Job."""
    cluster.change("bundles", "shop", spec=spec)
    found = await waits(cluster, enforced=True, number=number)
    jobs = len(cluster.jobs())
    approve(cluster, found)
    await eventually(lambda: len(cluster.jobs()) > jobs, "its Job")
    await eventually(lambda: cluster.reason() == "Deployed", "deployed")
    return {**found, "rolls back": rolls_back(cluster.jobs()[-1])}


async def test_autorollback_is_withheld_where_the_deployed_versions_hooks_are_not_known(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    await start()
    bundle(autoRollback=True)
    await deployed(cluster)
    assert rolls_back(cluster.jobs()[0])

    found = await edited(cluster, 1, approval=ALWAYS, env={"WERF_ENV": "b"})

    why = "the hooks for a rollback to 1.0.0 aren't known, as it was deployed without a plan"
    assert (found["rollbackWithheld"], found["rolls back"]) == (why, False)
    found = await edited(cluster, 2, env={"WERF_ENV": "c"})
    assert (found.get("rollbackWithheld"), found["rolls back"]) == (None, True)


async def test_autorollback_is_withheld_where_the_deployed_plan_may_not_be_read(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    operator = await start()
    bundle(approval=ALWAYS, autoRollback=True)
    approve(cluster, await waits(cluster))
    await deployed(cluster)
    await operator.stop()
    cluster.refuse("get", "-operations", 403, "secrets is forbidden")
    await start()

    found = await edited(cluster, 2, env={"WERF_ENV": "b"})

    assert "as its plan can't be read: secrets is forbidden" in found["rollbackWithheld"]
    assert not found["rolls back"]
