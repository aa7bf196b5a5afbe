"""Plans that can't be made: what the status says, what is tried again, and what isn't deployed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    PATIENT,
    annotate,
    approve,
    deployed,
    idle,
    lose,
    plan,
    refresh,
    secrets,
    waited,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import CREATE, Werf, block
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually, polled
from tests.component.oci.fake_registry import FakeRegistry, packed
from tests.long import LONG

from copyrator.bundles.plans.inputs import key_hashes_of
from copyrator.bundles.plans.queue import PlanTiming
from copyrator.bundles.plans.script import PlanExit
from copyrator.workqueue.isolated import Isolated, IsolatedError

pytestmark = [pytest.mark.usefixtures("registry"), pytest.mark.usefixtures("registry", "werf")]


Says = Callable[[str], tuple[int, str]]
OTHER = "f" * 32
ONCE = {"limit": 0}
"""Of ``spec.retry``."""
SAID: dict[str, tuple[Says, str]] = {
    "killed": (lambda _: (137, "the diff\n"), "the container was killed (signal 9)"),
    "prints nothing": (lambda _: (0, ""), "its log doesn't end with a plan"),
    "prints a block after the script's": (
        lambda nonce: (0, block(nonce, 1, [CREATE]) + block(OTHER, 1, [])),
        "its log ends with a plan that has another Job's nonce",
    ),
    "fails in werf": (
        lambda _: (1, "password: hunter2\nError: render: no such value\nsome: diff\n"),
        "Error: render: no such value",
    ),
    "fails in a template": (
        lambda _: (1, "Error: a.yaml:1:2: error calling fail: hunter2\nError: hunter2\n"),
        "Error: a.yaml:1:2: error calling fail: <see the pod's log>",
    ),
    "fails for several causes": (
        lambda _: (
            PlanExit.FAILED,
            "Error: build resource infos: 2 errors occurred:\n  * one\n  * two\nhunter2\n",
        ),
        "Error: one; two",
    ),
}
"""What a log says; for all faults of a block see tests/unit/bundles/plans/test_plan_block.py."""


@pytest.mark.parametrize("what", SAID)
async def test_a_job_without_a_plan_is_a_failed_plan(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, what: str
) -> None:
    says, message = SAID[what]
    werf.says = lambda _, nonce: says(nonce)
    bundle(approval=ALWAYS, retry=ONCE)
    operator = await run()
    found = await waits(cluster, "PlanUnstable")
    assert (found["outcome"], found["reason"]) == ("Failed", "PlanFailed")
    assert message in found["message"]
    assert found["job"] in found["message"]
    assert len(found["message"]) < 700
    assert "id" not in found
    assert "hunter2" not in json.dumps(cluster.status())
    await idle(operator)
    assert (cluster.jobs(), secrets(cluster)) == ([], set())
    assert cluster.message().count("planning failed once") == 1


@pytest.mark.needs("charts")
@pytest.mark.parametrize(
    ("said", "message"),
    [("set replicas", "set replicas"), ("set replicas: 7", "<see the pod's log>")],
)
async def test_a_text_that_stands_in_the_chart_itself_is_in_the_message(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    registry: FakeRegistry,
    said: str,
    message: str,
) -> None:
    template = '{{ required "set replicas" .Values.replicas }}'
    about = "apiVersion: v2\nname: app\nversion: 1.0.0\n"
    registry.put_chart("app", "1.0.0", packed({"Chart.yaml": about, "templates/a.yaml": template}))
    words = "Error: execution error at (app/templates/a.yaml:1:3): "
    werf.says = lambda *_: (1, f"{words}{said}\n")
    bundle(approval=ALWAYS, retry=ONCE)
    await run()
    found = await waits(cluster, "PlanUnstable")
    assert found["message"].endswith(f"{words}{message}")


async def test_a_plan_whose_pod_was_evicted_says_so(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_plans = True
    bundle(approval=ALWAYS, retry=ONCE)
    await run()
    await eventually(lambda: cluster.jobs("plan"))
    name = cluster.runs[0]
    status = {"reason": "Evicted", "message": "The node was low on resource: memory."}
    cluster.change("pods", f"{name}-pod", status={**status, "containerStatuses": []})
    condition = {"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}
    cluster.change("jobs", name, status={"conditions": [condition]})
    found = await waits(cluster, "PlanUnstable")
    assert "low on resource" in found["message"]


async def test_what_blocks_a_plan_is_in_its_message_and_goes_when_it_starts(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
) -> None:
    """Long before the next poll."""
    werf.holds_plans = True
    cluster.pods = {"waiting": {"reason": "ContainerCreating"}}
    bundle(approval=ALWAYS)
    await run(timing=replace(TIMING, job_recheck=0.5))
    await eventually(lambda: cluster.jobs("plan"))
    name = cluster.runs[0]
    text = "0/3 nodes are available: 3 Insufficient cpu."
    condition = {"type": "PodScheduled", "status": "False", "message": text}
    cluster.change("pods", f"{name}-pod", status={"conditions": [condition]})
    await waits(cluster, "Planning")
    await eventually(lambda: text in plan(cluster).get("message", ""), "blocked")
    assert text.rstrip(".") in cluster.message()
    cluster.put_pod(cluster.jobs("plan")[0], {"running": {}})
    await eventually(lambda: "message" not in plan(cluster), "runs")
    werf.finish(cluster.jobs("plan")[0])
    await waits(cluster)


async def test_a_plan_whose_values_were_deleted_before_it_started_is_made_anew(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    werf.holds_plans = True
    cluster.pods = {"waiting": {"reason": "ContainerCreating"}}
    bundle(approval=ALWAYS, values="values", retry=PATIENT)
    await run(timing=replace(TIMING, job_recheck=0.5))
    await eventually(lambda: cluster.jobs("plan"))
    name = cluster.runs[0]
    lose(cluster, "secrets", f"{name}-values-000")
    marks = lambda: cluster.jobs("plan")[0]["metadata"]["annotations"]  # noqa: E731
    await eventually(lambda: "operator.werf.dev/given-up" in marks(), "given up")
    werf.holds_plans = False
    cluster.end_without_pod(name)
    await waits(cluster, number=2)


async def test_a_log_that_can_not_be_read_yet_is_read_later(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.log_faults = [500, 503, 429]
    bundle(approval=ALWAYS)
    await run(timing=replace(TIMING, features=(PlanTiming(log_retry=0.5),)))
    found = await waits(cluster)
    assert found["number"] == 1
    said = {one["plan"].get("message", "") for one in cluster.statuses["shop"] if "plan" in one}
    assert any("its log can't be read: " in text and "tried again until" in text for text in said)


async def test_a_kubelet_that_hangs_holds_up_only_its_own_bundle(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """With more of them than there are workers; there are 4."""
    timing = replace(TIMING, features=(PlanTiming(log_timeout=4.0, log_retry=0.5),))
    names = [f"hangs{number}" for number in range(6)]
    cluster.hanging_logs = "hangs"
    for name in names:
        bundle(name, approval=ALWAYS)
    operator = await run(timing=timing, max_plan_jobs=20)
    await eventually(lambda: len(cluster.hung) == 2, "reads hang, two of a namespace")
    await idle(operator)  # no worker waits for them
    bundle("other")
    await deployed(cluster, "other")
    assert len(cluster.hung) == 2, "it was deployed while they hung"
    text = "its log can't be read: there was no answer within 4 s; it is tried again until"
    await eventually(lambda: any(text in plan(cluster, name).get("message", "") for name in names))
    cluster.hanging_logs = ""
    for name in names:
        await waits(cluster, name=name)


@pytest.mark.parametrize("code", [400, 403, 404])
async def test_a_log_that_may_not_be_read_is_a_failed_plan(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, code: int
) -> None:
    cluster.log_faults = [code]
    bundle(approval=ALWAYS, retry=ONCE)
    await run()
    found = await waits(cluster, "PlanUnstable")
    assert "its log can't be read: no" in found["message"]


async def test_a_log_whose_node_is_gone_is_not_waited_for_for_ever(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
) -> None:
    cluster.log_faults = [500] * 99
    bundle(approval=ALWAYS, retry=ONCE)
    soon = PlanTiming(log_patience=2.0, log_retry=0.5)
    await run(timing=replace(TIMING, features=(soon,)))
    found = await waits(cluster, "PlanUnstable")
    assert "its log can't be read" in found["message"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (403, 'admission webhook "policy.example" denied the request'),
        (422, "spec.template: Invalid value"),
    ],
)
async def test_a_job_that_the_api_server_refuses_is_a_failed_plan_and_is_tried_again(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, code: int, message: str
) -> None:
    refused = cluster.refuse("create", "/jobs", code, message)
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    bundle(approval=ALWAYS, values="values", retry=PATIENT)
    await run()
    found = await waited(cluster, "PlanFailed")
    assert message in found["message"]
    await eventually(lambda: secrets(cluster) == set(), "none is left between two attempts")
    refused.clear()
    await waits(cluster)


CHANGES: dict[str, Callable[[BundleCluster, FakeRegistry], object]] = {
    "spec": lambda cluster, _: cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "b"}}),
    "values": lambda cluster, _: cluster.change("configmaps", "values", data={"v.yaml": "a: 2"}),
    "version": lambda cluster, registry: registry.put("app", "1.1.0", "two"),
    "plan-at": lambda cluster, _: refresh(cluster),
}


@pytest.mark.parametrize("change", CHANGES if LONG else ["values"])
async def test_a_plan_is_tried_so_often_until_something_changes(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    change: str,
) -> None:
    cluster.put_object("configmaps", "values", data={"v.yaml": "a: 1"})
    werf.says = lambda *_: (1, "Error: no\n")
    bundle(approval=ALWAYS, values="values", version="1.*", retry={"limit": 2, "backoff": "1s"})
    operator = await run(timer_interval=1.0)
    found = await waited(cluster, "PlanFailed", failures=2)
    assert found["nextRetryAt"] > found["startedAt"]
    found = await waits(cluster, "PlanUnstable", failures=3)
    assert "planning failed 3 times" in cluster.message()
    assert "nextRetryAt" not in found
    await polled(operator, registry)
    await idle(operator)
    assert len(cluster.jobs("plan")) == 3
    werf.says = lambda *_: None
    CHANGES[change](cluster, registry)
    approve(cluster, await waits(cluster))
    await deployed(cluster)


async def test_deploys_whose_plan_fails_each_time_end_too(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """The plan can be made, and the deploy's own can't: as often as ``spec.retry`` says."""
    bundle(approval=ALWAYS, retry={"limit": 1, "backoff": "1s"})
    operator = await run()
    werf.ends = lambda _: (PlanExit.FAILED, "Error: no\n")
    approve(cluster, await waits(cluster))
    await waits(cluster, "PlanUnstable")
    await idle(operator)
    assert len(werf.applied) == 2
    history = cluster.status()["history"]
    assert [one["reason"] for one in history] == ["PlanFailed", "PlanFailed"]
    assert cluster.status()["attempted"]["failures"] == 0


T = TypeVar("T")


class Short(Isolated):
    """Short of memory for values."""

    async def call(self, function: Callable[..., T], group: str, *args: Any, **kwargs: Any) -> T:
        if function is key_hashes_of:
            raise IsolatedError("it takes more than 1 MB of memory")
        return await super().call(function, group, *args, **kwargs)


VALUES = [{"kind": "ConfigMap", "name": "values"}, {"kind": "Secret", "name": "creds"}]
FIRST = "image: hunter2-one\nreplicas: 1\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def shop(cluster: BundleCluster, bundle: Make) -> BundleCluster:
    cluster.put_object("configmaps", "values", data={"values.yaml": FIRST})
    cluster.put_object("secrets", "creds", data={"creds.yaml": encoded("password: hunter2")})
    bundle(approval=ALWAYS, valuesFrom=VALUES, env={"WERF_SET_A": "a=hunter2", "TZ": "UTC"})
    return cluster


def edit(cluster: BundleCluster) -> None:
    """All at once, so that one plan has all of it."""
    cluster.change("configmaps", "values", data={"values.yaml": FIRST.replace("one", "two")})
    cluster.change("secrets", "creds", data={"creds.yaml": encoded("password: hunter2-new")})
    env = {"WERF_SET_A": "a=hunter2-new", "LANG": "C"}
    cluster.change("bundles", "shop", spec={"env": {**env, "TZ": None}})


CHANGED = [
    "ConfigMap values values.yaml: image",
    "Secret creds creds.yaml",
    "spec.env.LANG (added)",
    "spec.env.TZ (removed)",
    "spec.env.WERF_SET_A",
]


async def changes(cluster: BundleCluster, **wanted: Any) -> None:
    def fits() -> bool:
        return all(plan(cluster).get(key) == one for key, one in wanted.items())

    await eventually(fits, lambda: f"{wanted}; {plan(cluster)}")


async def test_what_changed_since_the_deployed_plan_is_named(shop: BundleCluster, run: Run) -> None:
    await run()
    found = await waits(shop)
    assert "changed" not in found, "at a first install there is nothing to compare with"
    assert "changeUnknown" not in found
    approve(shop, found)
    assert (await deployed(shop))["deployed"]["planJob"] == found["job"]
    assert secrets(shop, inputs=True) == {f"{found['job']}-inputs"}

    edit(shop)
    await changes(shop, changed=CHANGED)
    second = await waits(shop, changed=CHANGED)
    kept = {f"{job}-inputs" for job in (found["job"], second["job"])}
    assert secrets(shop, inputs=True) == kept

    # Another plan is compared with the deployed one, not with the one that it replaces.
    shop.change("configmaps", "values", data={"values.yaml": FIRST})
    third = await waits(shop, changed=CHANGED[1:])
    approve(shop, third)
    await deployed(shop, planJob=third["job"])
    await eventually(lambda: secrets(shop, inputs=True) == {f"{third['job']}-inputs"})
    written = json.dumps([*shop.statuses["shop"], *shop.jobs("plan"), *shop.jobs()])
    records = [shop.objects[path_of("secrets", name)] for name in secrets(shop, inputs=True)]
    texts = [base64.b64decode(one).decode() for body in records for one in body["data"].values()]
    assert "hunter2" not in "".join([written.replace("a=hunter2", ""), *texts])


async def test_a_record_that_is_gone_or_forged_is_said(shop: BundleCluster, run: Run) -> None:
    await run()
    found = await waits(shop)
    approve(shop, found)
    await deployed(shop)
    name = f"{found['job']}-inputs"
    body = shop.objects[path_of("secrets", name)]
    lose(shop, "secrets", name)
    edit(shop)
    known = "what changed isn't known: Secret "
    second = await waits(shop, changeUnknown=f"{known}{name} was deleted")
    assert "changed" not in second

    # Whoever may write Secrets hides no change by what another plan, or they, wrote.
    for data in (shop.objects[path_of("secrets", f"{second['job']}-inputs")]["data"], {}, None):
        forged = {**body["metadata"], "resourceVersion": "1"}
        shop.put_object("secrets", name, metadata=forged, data=data)
        annotate(shop, **{"plan-at": str(data)})
        text = f"{known}{name} isn't what the operator wrote, or its hash key has changed"
        await changes(shop, changeUnknown=text, outcome="Planned")
        await waits(shop)
        lose(shop, "secrets", name)


@pytest.mark.needs("previews")
async def test_a_plan_that_fails_and_one_of_another_version_leave_no_record(
    shop: BundleCluster, run: Run, werf: Werf
) -> None:
    await run()
    annotate(shop, **{"plan-version": "1.0.0", "plan-at": "now"})
    await eventually(lambda: shop.status().get("preview", {}).get("outcome") == "Planned")
    found = await waits(shop)
    await eventually(lambda: secrets(shop, inputs=True) == {f"{found['job']}-inputs"})
    werf.says = lambda *_: (1, "Error: no\n")
    edit(shop)
    await changes(shop, outcome="Failed")
    await eventually(lambda: secrets(shop, inputs=True) == set())


async def test_large_files_are_read_in_a_child_process_and_its_failure_names_the_file(
    shop: BundleCluster, run: Run
) -> None:
    large = FIRST + "more: |\n" + "  text\n" * 2000
    shop.change("configmaps", "values", data={"values.yaml": large})
    operator = await run()
    approve(shop, await waits(shop))
    await deployed(shop)
    shop.change("configmaps", "values", data={"values.yaml": large.replace("one", "two")})
    approve(shop, await waits(shop, changed=["ConfigMap values values.yaml: image"]))
    await deployed(shop)
    await operator.stop()
    await run(isolated=Short)
    shop.change("configmaps", "values", data={"values.yaml": large})
    await waits(shop, changed=["ConfigMap values values.yaml"])
