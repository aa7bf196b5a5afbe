"""The life of deploys: what is deployed again and what isn't, failures, requests, conflicts."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import annotate, idle
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import error
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.bundles.engine.job_client import BUNDLE_PODS


async def deployed(cluster: BundleCluster, times: int = 1, name: str = "shop") -> None:
    await eventually(
        lambda: cluster.reason(name) == "Deployed" and len(cluster.runs) == times,
        f"{times} deploys; {cluster.runs} {cluster.message(name)}",
    )


async def quiet(operator: Operator, cluster: BundleCluster, times: int) -> None:
    """Nothing more is deployed."""
    await idle(operator)
    assert len(cluster.runs) == times


async def test_only_edits_of_content_deploy(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
    cluster.put_object("secrets", "more", data={"b.yaml": "YjogMQ=="})
    bundle(values="values", valuesFrom=[{"kind": "Secret", "name": "more"}])
    operator = await run()
    await deployed(cluster)

    cluster.change("configmaps", "values", metadata={"labels": {"seen": "yes"}})
    await quiet(operator, cluster, 1)
    cluster.change("configmaps", "values", data={"a.yaml": "a: 2"})
    await deployed(cluster, 2)
    cluster.change("secrets", "more", data={"b.yaml": "YjogMg=="})
    await deployed(cluster, 3)

    env = {v["name"]: v.get("value") for v in _main(cluster.jobs()[0])["env"]}
    assert env["WERF_VALUES_OPERATOR_000"].endswith("/000/a.yaml")
    assert env["WERF_VALUES_OPERATOR_001"].endswith("/001/b.yaml")
    assert "YjogMQ" not in str(cluster.look("bundles", "shop"))


def _main(job: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return container


async def test_werf_is_the_first_image_that_is_allowed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle()
    allowed = ("mirror.example.com/werf", "registry.werf.io/werf/werf")
    await run(allowed_images=allowed, werf_tag="2.75.3")
    await deployed(cluster)
    assert _main(cluster.jobs()[0])["image"] == "mirror.example.com/werf:2.75.3"


async def test_an_optional_source_may_be_missing_and_counts_when_it_appears(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(valuesFrom=[{"kind": "ConfigMap", "name": "late", "optional": True}])
    await run()
    await deployed(cluster)

    cluster.put_object("configmaps", "late", data={"a.yaml": "a: 1"})

    await deployed(cluster, 2)


async def test_the_job_of_an_attempt_that_another_process_recorded_may_come_a_little_later(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    reached = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/jobs"):
            reached.set()
            await asyncio.sleep(1.0)
        return await cluster.serve(request)

    cluster.always("create", slow)
    await run()
    bundle()
    await reached.wait()
    operator = await run()

    await deployed(cluster)
    await quiet(operator, cluster, 1)
    assert [entry["outcome"] for entry in cluster.status()["history"]] == ["Succeeded"]


async def test_a_job_that_the_api_refuses_is_said_and_tried_again(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    quota = "exceeded quota: compute"
    cluster.script("create", error(403, "Forbidden", quota), error(403, "Forbidden", quota))
    bundle(retry={"backoff": "1s"})
    await run()

    await eventually(lambda: cluster.reason() == "JobUnschedulable")
    assert "exceeded quota" in cluster.message()
    await eventually(lambda: cluster.reason() == "Deployed")


async def test_a_changed_project_namespace_is_refused_until_it_is_set_back(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle()
    operator = await run()
    await deployed(cluster)

    cluster.change("bundles", "shop", spec={"project_namespace": "elsewhere"})
    await eventually(lambda: cluster.reason() == "NamespaceChanged")
    await quiet(operator, cluster, 1)

    cluster.change("bundles", "shop", spec={"project_namespace": None})
    await deployed(cluster, 1)


async def test_a_deploy_is_on_record_where_it_went_though_the_spec_was_edited_meanwhile(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    cluster.grant("first")
    bundle(project_namespace="first")
    operator = await run()
    await eventually(lambda: cluster.runs)

    cluster.change("bundles", "shop", spec={"project_namespace": "second"})
    cluster.end_job(cluster.runs[0])

    await eventually(lambda: cluster.reason() == "NamespaceChanged")
    assert cluster.status()["deployed"]["namespace"] == "first"
    await quiet(operator, cluster, 1)


async def test_a_deploy_is_on_record_though_the_spec_is_broken_by_now(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    bundle()
    await run()
    await eventually(lambda: cluster.runs)

    cluster.change("bundles", "shop", spec={"registry": "https://broken"})
    await eventually(lambda: cluster.reason() == "InvalidSpec")
    assert cluster.status()["attempted"]["outcome"] == "Running"
    cluster.end_job(cluster.runs[0])

    await eventually(lambda: "deploy" in cluster.status())
    await eventually(lambda: cluster.reason() == "InvalidSpec")
    cluster.change("bundles", "shop", spec={"registry": registry.host})
    await deployed(cluster)


@pytest.mark.parametrize("spec", [{"valuesFrom": None}, {"registry": "https://broken"}])
async def test_a_failure_quotes_no_secret_that_its_job_had_and_the_edited_spec_has_not(
    cluster: BundleCluster, run: Run, bundle: Make, spec: dict[str, Any]
) -> None:
    cluster.put_object("secrets", "values", data={"a.yaml": "cGFzc3dvcmQ6IGh1bnRlci10d28="})
    cluster.ends = None
    bundle(valuesFrom=[{"kind": "Secret", "name": "values"}])
    await run()
    await eventually(lambda: cluster.runs)

    cluster.change("bundles", "shop", spec=spec)
    said = "Error: render chart: hunter-two is no number"
    cluster.logs[f"{cluster.runs[0]}-pod"] = said
    cluster.end_job(cluster.runs[0], 1, said)

    await eventually(lambda: cluster.status().get("history"))
    assert "is no number" in cluster.status()["lastError"]["logTail"]
    assert "hunter-two" not in str(cluster.look("bundles", "shop"))


POD = 'Pod "bad" is invalid: spec.containers[0].name: Required value'
TWO = (
    'Error: release install: failed release "shop" (namespace: "team"): 2 errors occurred:\n'
    f"  * execute release install plan: execute operation: {POD}\n"
    "  * execute rollback plan: no\n"
)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (fail({})[1], f"create: Pod/bad failed: {POD}; execute rollback plan: no"),
        (TWO, f"Error: {POD}; execute rollback plan: no"),
        (TWO[-90:], f"Error: {POD}; execute rollback plan: no"),
    ],
    ids=["report", "termination message", "its end"],
)
async def test_everywhere_the_first_cause_is_the_message(
    cluster: BundleCluster, run: Run, bundle: Make, report: str, message: str
) -> None:
    cluster.ends = None
    told = Told()
    bundle(retry={"limit": 0})
    await run(recorder=told)
    await eventually(lambda: cluster.runs)

    cluster.logs[f"{cluster.runs[0]}-pod"] = f"Version: v2.75.3\n{TWO}"
    cluster.end_job(cluster.runs[0], 1, report)

    await eventually(lambda: cluster.reason() == "Quarantined")
    status = cluster.status()
    assert status["attempted"]["message"] == message
    assert status["lastError"]["message"] == message
    assert f": {message}. It isn't retried" in cluster.message()
    await eventually(
        lambda: any(message in text for texts in told.said.values() for text in texts), str(told)
    )


async def test_of_more_errors_than_are_read_of_a_log_the_first_is_first(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    bundle(retry={"limit": 0})
    await run()
    await eventually(lambda: cluster.runs)

    causes = "".join(f"  * cause {n}: {'x ' * 1000}\n" for n in range(1, 21))
    cluster.logs[f"{cluster.runs[0]}-pod"] = f"{'y' * 80}\nError: 20 errors occurred:\n{causes}"
    cluster.end_job(cluster.runs[0], 1, fail({})[1])

    await eventually(lambda: cluster.status().get("history"))
    message = cluster.status()["lastError"]["message"]
    assert message.startswith("create: Pod/bad failed: cause 1: x x ")
    assert re.search(r"x…; and \d+ more errors$", message)


async def test_no_part_of_a_secret_is_left_where_a_long_value_is_cut(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    secret = "hunter-two-" * 20
    values = base64.b64encode(f"password: {secret}".encode()).decode()
    cluster.put_object("secrets", "values", data={"a.yaml": values})
    cluster.ends = None
    bundle(valuesFrom=[{"kind": "Secret", "name": "values"}], retry={"limit": 0})
    await run()
    await eventually(lambda: cluster.runs)

    said = f"{TWO.replace('Required value', f'Invalid value: {chr(34)}{secret}{chr(34)}: no')}"
    cluster.logs[f"{cluster.runs[0]}-pod"] = said
    cluster.end_job(cluster.runs[0], 1, said)

    await eventually(lambda: cluster.status().get("history"))
    message = cluster.status()["lastError"]["message"]
    assert 'spec.containers[0].name: Invalid value: "<redacted>": no; execute' in message
    assert "hunter" not in str(cluster.look("bundles", "shop"))


@pytest.mark.parametrize("owner", ["", "another", "the Job"])
async def test_a_pod_with_a_jobs_label_is_none_of_the_job(
    cluster: BundleCluster, run: Run, bundle: Make, owner: str
) -> None:
    """Who can create pods can give one the label and finalizer of a Job's, and the owner reference,
    too. The last can't be told from a real one (docs/trust.md, What an approval doesn't cover).
    """
    cluster.ends = None
    bundle(retry={"limit": 0})
    await run()
    (job,) = await eventually(cluster.jobs)
    uid = job["metadata"]["uid"]
    owners = {"": [], "another": [{"uid": "x", "controller": True}], "the Job": [{"uid": uid}]}
    pod: dict[str, Any] = {
        "metadata": {
            "namespace": "team",
            "labels": {"batch.kubernetes.io/controller-uid": uid},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": owners[owner],
        },
        "spec": job["spec"]["template"]["spec"],
        "status": {
            "containerStatuses": [
                {"name": "werf", "state": {"terminated": {"exitCode": 1, "message": "forged"}}}
            ]
        },
    }
    for number in range(BUNDLE_PODS):  # with the Job's own there are more than are read
        name = f"zz-newest-pod-{number}"
        metadata = {**pod["metadata"], "name": name}
        cluster.write(path_of("pods", name), {**pod, "metadata": metadata})
    cluster.end_job(job["metadata"]["name"], 1, "it failed")

    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Failed")

    said = str(cluster.status()["attempted"])
    assert ("forged" in said, "it failed" in said) == (owner == "the Job", owner != "the Job")


@pytest.mark.parametrize("health", ["Off", "Watch"])
async def test_conditions_of_others_stay_as_they_are_in_each_write(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, health: str
) -> None:
    argo = {"type": "Synced", "status": "True", "weight": 1.5, "parts": [{"a": None}]}
    flux = {"type": "Healthier", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"}
    refused = [{"status": "True"}, {"type": "Synced", "status": "False"}]
    bundle(version="1.*", health=health)
    cluster.change("bundles", "shop", status={"conditions": [flux, *refused, argo]})
    await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    registry.put("app", "1.1.0", "two")
    annotate(cluster, requestedAt="1")
    await eventually(lambda: cluster.status()["deployed"].get("version") == "1.1.0")

    assert len(cluster.statuses["shop"]) > 3
    for status in cluster.statuses["shop"]:
        known = [one for one in status["conditions"] if one.get("reason") in (None, "R")]
        assert known == [flux, argo], "without what the API server refuses"


async def test_a_condition_that_does_not_apply_any_more_is_removed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    ended = [{"type": "UpdatePending", "status": "True"}, {"type": "Synced", "status": "True"}]
    bundle()
    cluster.change("bundles", "shop", status={"conditions": ended})
    await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    kinds = [one["type"] for one in cluster.status()["conditions"]]
    assert kinds == ["Ready", "Reconciling", "Stalled", "Synced"]
