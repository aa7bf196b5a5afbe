"""What a Job's pod tells before the Job does: whether the operator's containers have ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.job_records import JOB

from copyrator.api.bundle_status import Rollback
from copyrator.api.names import ANN_VALUES
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import parse_time
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.job_client import GRACE_OF_OTHERS, JobClient, PodReader
from copyrator.bundles.jobs.checks import checked_deploy_command
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.outcome import (
    Blocked,
    JobRecord,
    Mount,
    find_blocked_pod,
    has_started,
    mounts_of,
    name_values,
    read_pod,
    secrets_of,
)
from copyrator.bundles.jobs.pod import LONG_TTL
from copyrator.bundles.jobs.revisions import (
    Revision,
    RolledBack,
    asks_for_rollback,
    judge,
    read_revision,
)
from copyrator.bundles.jobs.script import APPLY_COMMAND
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import NotFound

ENDED = "2026-01-01T00:01:00Z"


def state(name: str, code: int | None, **more: Any) -> dict[str, Any]:
    if code is None:
        return {"name": name, "state": {"running": {}}, **more}
    return {"name": name, "state": {"terminated": {"exitCode": code, "finishedAt": ENDED}}, **more}


def pod(
    *containers: dict[str, Any],
    inits: tuple[dict[str, Any], ...] = (),
    phase: str = "Running",
    **metadata: Any,
) -> dict[str, Any]:
    owners = [{"uid": "other"}, {"uid": "job-1", "controller": True}]
    return {
        "metadata": {
            "namespace": "apps",
            "labels": {"operator.werf.dev/bundle": "shop"},
            "ownerReferences": owners,
            **metadata,
        },
        "status": {
            "phase": phase,
            "containerStatuses": list(containers),
            "initContainerStatuses": list(inits),
        },
    }


PROXY = state("proxy", None)


def deleted(at: str) -> dict[str, Any]:
    """Of a pod with 30 s to end."""
    return {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("body", "has_ended"),
    [
        pytest.param(pod(state("werf", 0), PROXY), True, id="werf succeeded, a sidecar runs"),
        pytest.param(pod(PROXY, state("werf", 1)), True, id="werf failed, a sidecar runs"),
        pytest.param(
            pod(state("werf", 0), PROXY, phase="Pending"), True, id="a sidecar has yet to start"
        ),
        pytest.param(
            pod(state("werf", 0), inits=(PROXY,)), True, id="a native sidecar has yet to end"
        ),
        pytest.param(pod(PROXY, inits=(state("login", 1),)), True, id="the login failed"),
        pytest.param(pod(PROXY, inits=(state("login", 0),)), False, id="the login succeeded"),
        pytest.param(pod(state("werf", None), PROXY), False, id="werf runs"),
        pytest.param(pod(state("werf", None), state("proxy", 1)), False, id="a sidecar failed"),
        pytest.param(
            pod(PROXY, inits=(state("proxy-init", 1),)), False, id="another init container failed"
        ),
        pytest.param(pod(state("werf", 0), phase="Succeeded"), False, id="the Job will tell"),
        pytest.param(pod(state("werf", 1), phase="Failed"), False, id="the Job will tell of it"),
        pytest.param(
            pod(state("werf", 143), PROXY, **deleted("2026-01-01T00:01:29Z")),
            False,
            id="it was ended by the pod's deletion",
        ),
        pytest.param(
            pod(state("werf", 0), PROXY, **deleted("2026-01-01T00:01:31Z")),
            True,
            id="it had ended before the deletion",
        ),
        pytest.param(
            pod(state("werf", 0), PROXY, **deleted("2026-01-01T00:01:29Z")),
            True,
            id="it succeeded all the same",
        ),
        pytest.param({"metadata": {}}, False, id="a pod without anything"),
    ],
)
def test_the_end_of_the_operators_containers_is_seen(body: dict[str, Any], has_ended: bool) -> None:
    assert read_pod(body).ended == (parse_time(ENDED) if has_ended else None)


def test_a_pod_belongs_to_the_job_that_controls_it() -> None:
    found = read_pod(pod())
    assert (found.namespace, found.bundle, found.job_uid) == ("apps", "shop", "job-1")


STAYS = {"spec": {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}}


@pytest.mark.parametrize(
    ("body", "waits_for"),
    [
        pytest.param(pod(inits=(state("vault-agent-init", None),)), "vault-agent-init", id="runs"),
        pytest.param(pod(inits=(state("vault-agent-init", 0),)), None, id="has ended"),
        pytest.param(pod(inits=(state("login", None),)), None, id="the operator's own"),
        pytest.param(
            pod(inits=(state("proxy", None, started=False),)) | STAYS,
            "proxy",
            id="a native sidecar that hasn't started",
        ),
        pytest.param(
            pod(inits=(state("proxy", None, started=True),)) | STAYS,
            None,
            id="a native sidecar that has",
        ),
    ],
)
def test_an_injected_init_container_that_ours_wait_for_is_named(
    body: dict[str, Any], waits_for: str | None
) -> None:
    found = find_blocked_pod([body])
    if waits_for is None:
        assert found is None
    else:
        assert isinstance(found, Blocked)
        assert f"waits for its init container {waits_for}," in found.message


NOW = cast(datetime, parse_time(ENDED))
HELD = replace(JOB, began=NOW - timedelta(seconds=60), ended=NOW, deadline=600)


class Jobs:
    """Records the changes of Jobs, which it refuses to know otherwise."""

    def __init__(self) -> None:
        self.changes: list[dict[str, Any]] = []

    async def patch(self, _kind: Any, _ns: str, _name: str, body: dict[str, Any]) -> None:
        self.changes.append(body["spec"])

    async def read_log(self, *_: Any, **__: Any) -> str:
        raise NotFound


def client_at(now: datetime) -> tuple[JobClient, Jobs]:
    jobs = Jobs()
    return JobClient(cast(Context, SimpleNamespace(client=jobs, clock=lambda: now))), jobs


@pytest.mark.parametrize(
    ("job", "later", "deadline"),
    [
        pytest.param(HELD, 0, 60 + LONG_TTL, id="its own deadline would end it"),
        pytest.param(replace(HELD, deadline=None), 0, 60 + LONG_TTL, id="it has no deadline"),
        pytest.param(replace(HELD, deadline=60 + LONG_TTL), 3600, None, id="kept an hour ago"),
        pytest.param(
            replace(HELD, deadline=60 + LONG_TTL),
            2 * 24 * 3600,
            60 + 2 * 24 * 3600 + LONG_TTL,
            id="kept two days ago",
        ),
        pytest.param(replace(HELD, ended=None, complete=True), 0, None, id="nothing runs on"),
    ],
)
async def test_a_kept_job_ends_by_itself_when_nobody_keeps_it_any_more(
    job: JobRecord, later: int, deadline: int | None
) -> None:
    client, jobs = client_at(NOW + timedelta(seconds=later))
    await client.set_ttl(job, None)
    assert jobs.changes == ([] if deadline is None else [{"activeDeadlineSeconds": deadline}])


async def test_a_clock_that_is_behind_gives_no_deadline_that_the_api_server_refuses() -> None:
    client, jobs = client_at(NOW - timedelta(hours=1))
    await client.set_ttl(HELD, 5)
    assert [one["activeDeadlineSeconds"] for one in jobs.changes] == [GRACE_OF_OTHERS]


async def test_only_messages_of_the_operators_containers_stand_for_a_log() -> None:
    """Vault's agent may name what it has fetched."""
    reader, body = PodReader(cast(KubeClient, Jobs())), pod(state("vault", 1), state("werf", 1))
    vault, werf = (one["state"]["terminated"] for one in body["status"]["containerStatuses"])
    body["metadata"]["name"] = "shop"
    vault["message"] = "token hvs.secret"
    assert await reader.log_end([body]) == ""
    werf["message"] = "Error: no"
    assert await reader.log_end([body]) == "Error: no"


MOUNTED = "/run/copyrator/values/001/a.yaml"
COPY = "/tmp/values-0003"


@pytest.mark.parametrize(
    ("marks", "text", "found"),
    [
        ((), f"parse {MOUNTED}: line 2", "parse Secret apps/more, key a.yaml: line 2"),
        ((), "/run/copyrator/values/002/a.yaml", "/run/copyrator/values/002/a.yaml"),
        ((), "/home/build/values.yaml", "/home/build/values.yaml"),
        ("Secret/x ConfigMap/app", COPY, "ConfigMap apps/app, key a.yaml"),
        ("Secret/x ConfigMap/app", "/tmp/values-0004", "/tmp/values-0004"),
        (f"Secret/x {'y' * 9999}", COPY, f"{'y' * 300} apps/, key a.yaml"),
    ],
)
def test_files_of_values_are_named_by_what_they_are_of(marks: str, text: str, found: str) -> None:
    """Also if somebody else made the pod, or edited the Job."""
    volumes = [
        {"name": "values-000", "configMap": {"name": "settings"}},
        {"name": "values-001", "secret": {"secretName": "more"}},
        {"name": "docker", "secret": {"secretName": "creds"}},
    ]
    containers = [{"command": ["sh", "-c", MOUNTED, "/run/salt", COPY, "0" * 64]}]
    body = {"spec": {"volumes": volumes, "containers": containers}}
    job = replace(JOB, namespace="apps", marks=((ANN_VALUES, marks),) if marks else ())
    assert name_values(text, job, [body]) == found


# --- Why a pod doesn't start, as far as it can be seen


def waiting(reason: str) -> dict[str, Any]:
    waits_for = {"waiting": {"reason": reason, "message": "because"}}
    return {"status": {"containerStatuses": [{"name": "werf", "image": "i", "state": waits_for}]}}


def waits_for(**waits: str) -> dict[str, Any]:
    return {"name": "werf", "image": "werf:2", "state": {"waiting": waits}}


def unscheduled(**why: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", **why}]}


UNSCHEDULABLE, UNPULLED = BundleReason.JOB_UNSCHEDULABLE, BundleReason.IMAGE_PULL_FAILED


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            unscheduled(message="0/3 nodes", reason="Unschedulable"),
            Blocked(UNSCHEDULABLE, "the pod can't be scheduled: 0/3 nodes"),
        ),
        (
            unscheduled(reason="SchedulingGated"),
            Blocked(UNSCHEDULABLE, "the pod can't be scheduled: SchedulingGated"),
        ),
        (unscheduled(), Blocked(UNSCHEDULABLE, "the pod can't be scheduled: no node is suitable")),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, None),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, None),
        *(
            (
                {"containerStatuses": [waits_for(reason=reason, message="not found")]},
                Blocked(UNPULLED, "the image werf:2 can't be pulled: not found"),
            )
            for reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")
        ),
        (
            {"initContainerStatuses": [waits_for(reason="ErrImagePull")]},
            Blocked(UNPULLED, "the image werf:2 can't be pulled: ErrImagePull"),
        ),
        *(
            (
                {"containerStatuses": [{}, waits_for(reason=reason, message="no Secret v")]},
                Blocked(UNSCHEDULABLE, "a container can't start: no Secret v"),
            )
            for reason in (
                "CreateContainerConfigError",
                "CreateContainerError",
                "RunContainerError",
            )
        ),
        (
            {"containerStatuses": [waits_for(reason="CreateContainerError")]},
            Blocked(UNSCHEDULABLE, "a container can't start: CreateContainerError"),
        ),
        ({"containerStatuses": [waits_for()]}, None),
    ],
)
def test_says_it_in_a_sentence(status: dict[str, Any], expected: Blocked | None) -> None:
    assert find_blocked_pod([{"status": {}}, {"status": status}]) == expected
    assert find_blocked_pod([{"status": status}, {}]) is None  # the newest counts
    assert find_blocked_pod([]) is None


RUNNING = {"containerStatuses": [{"name": "werf", "state": {"running": {}}}]}
OVER = {"containerStatuses": [{"name": "werf", "state": {"terminated": {"exitCode": 1}}}]}


@pytest.mark.parametrize(
    ("pods", "started"),
    [
        ([], False),
        ([{"status": {}}], False),
        ([waiting("ContainerCreating")], False),
        ([{"status": RUNNING}], True),
        ([{"status": OVER}], True),
        ([{"status": RUNNING}, waiting("ContainerCreating")], False),  # the newest counts
    ],
)
def test_a_pod_has_started_when_a_container_has(pods: list[dict[str, Any]], started: bool) -> None:
    assert has_started(pods) is started


def test_knows_what_a_pod_cannot_start_without() -> None:
    volumes = [
        {"name": "home", "emptyDir": {}},
        {"name": "values-000", "configMap": {"name": "a"}},
        {"name": "ca", "secret": {"secretName": "b"}},
        {"name": "token", "projected": {"sources": []}},
    ]

    found = mounts_of([{"spec": {}}, {"spec": {"volumes": volumes}}])

    assert mounts_of([]) == mounts_of([{}]) == []
    assert found == [Mount("values-000", "a", secret=False), Mount("ca", "b", secret=True)]


def test_knows_every_secret_that_a_pod_was_given() -> None:
    password = {"secretKeyRef": {"name": "creds", "key": "password"}}
    token = {"secretKeyRef": {"name": "token", "key": "token"}}
    pod = {
        "volumes": [
            {"name": "values-000", "configMap": {"name": "plain"}},
            {"name": "values-001", "secret": {"secretName": "values"}},
        ],
        "initContainers": [{"env": [{"name": "WERF_PASSWORD", "valueFrom": password}]}],
        "containers": [
            {"env": [{"name": "HOME", "value": "/"}, {"name": "T", "valueFrom": token}]}
        ],
    }

    assert secrets_of([{"spec": pod}]) == ["creds", "token", "values"]
    assert secrets_of([{}, {"spec": {}}, {"spec": pod}]) == ["creds", "token", "values"]
    assert secrets_of([{"spec": pod}, {"spec": {}}]) == []  # the newest counts
    assert secrets_of([]) == []


# --- What became of a release after a failed deploy, as a table


FIRST = Revision(1, "superseded")
SECOND = Revision(2, "failed")


@pytest.mark.parametrize(
    ("revisions", "failed", "found"),
    [
        ([FIRST, SECOND, Revision(3, "deployed")], 2, RolledBack(Rollback.SUCCEEDED, 3)),
        ([Revision(3, "deployed"), SECOND], 2, RolledBack(Rollback.SUCCEEDED, 3)),
        ([Revision(1, "deployed"), SECOND], 2, RolledBack(Rollback.FAILED)),
        ([FIRST, SECOND, Revision(3, "failed")], 2, RolledBack(Rollback.FAILED)),
        ([FIRST, SECOND, Revision(3, "pending-rollback")], 2, RolledBack(Rollback.FAILED)),
        ([Revision(2, "deployed")], 2, RolledBack(Rollback.FAILED)),
        ([], 2, RolledBack(Rollback.UNKNOWN)),
        ([FIRST], None, RolledBack(Rollback.UNKNOWN)),
    ],
)
def test_the_newest_revision_tells(
    revisions: list[Revision], failed: int | None, found: RolledBack
) -> None:
    assert judge(revisions, failed) == found


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"version": "7", "status": "deployed"}, Revision(7, "deployed")),
        ({"version": "7"}, Revision(7, "")),
        ({"version": "9" * 5000, "status": "deployed"}, None),
        ({"version": "-1"}, None),
        ({"version": "0"}, None),
        ({"version": "1", "status": "failed"}, Revision(1, "failed")),
        ({"version": "999999999"}, Revision(999999999, "")),
        ({"version": "1000000000"}, None),
        ({"version": "\u0663"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_revision_is_read_from_helms_labels(
    labels: dict[str, str] | None, found: Revision | None
) -> None:
    assert read_revision({"name": "sh.helm.release.v1.shop.v7", "labels": labels}) == found


def applying(*command: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "werf", "command": list(command)}]}}


def test_the_pod_says_whether_a_rollback_was_asked_for() -> None:
    assert not asks_for_rollback([])
    both: tuple[tuple[str, ...], ...] = ((), (AUTO_ROLLBACK,))
    for plain, with_it in (
        [applying("werf", "bundle", "apply", *flags) for flags in both],
        [applying(*APPLY_COMMAND, *flags) for flags in both],
        [applying(*checked_deploy_command((), flags)) for flags in both],
    ):
        assert not asks_for_rollback([with_it, plain])
        assert asks_for_rollback([plain, with_it])
        assert asks_for_rollback([with_it, plain, plain, with_it])
    other = {"spec": {"containers": [{"name": "side", "command": ["--auto-rollback"]}]}}
    assert not asks_for_rollback([other])
    assert not asks_for_rollback([{}])
    assert not asks_for_rollback([{"spec": {"containers": [{"name": "werf"}]}}])
