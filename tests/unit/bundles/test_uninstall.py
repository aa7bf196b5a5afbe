"""What the status says of an uninstall that failed, by what werf 2 and 3 print, and the Job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.job_records import JOB

from copyrator.api.bundle_status import MissingPermission
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.uninstall import ending_of_uninstall
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.rights import ServiceAccount

WERF = ServiceAccount("team", "werf")
FAILED = replace(JOB, kind=JobKind.UNINSTALL, complete=False, failed="BackoffLimitExceeded")
DEADLINE = replace(FAILED, failed="DeadlineExceeded")
EVICTED = replace(FAILED, failed="PodFailurePolicy")
USER = 'User "system:serviceaccount:team:werf" cannot'
CORE = 'in API group "" in the namespace "app"'
SECRETS = f'secrets is forbidden: {USER} list resource "secrets" {CORE}'
NAMESPACE = f'namespaces "app" is forbidden: {USER} get resource "namespaces" {CORE}'
LOCK = f'configmaps "werf-synchronization" is forbidden: {USER} update resource "configmaps" {CORE}'
APPS = 'in API group "apps" in the namespace "app"'
OBJECT = f'deployments.apps "d" is forbidden: {USER} delete resource "deployments" {APPS}'
OF_3 = "Error: release uninstall:"
FAILED_3 = 'uninstall failed for release "shop" (namespace: "app")'
PLAN_3 = "execute release delete plan: wait for operations completion: execute operation"
POLL_3 = 'track resource absence: poll resource "app/ConfigMap/cm"'
HELD = (
    ". An object of the release may have a finalizer that nothing removes, or the service account "
    "may not list and watch its kind"
)
BY_DEADLINE = "it was ended by its deadline, 15m for each uninstall"


def lacks(verb: str, resource: str, namespace: str = "app") -> tuple[MissingPermission, ...]:
    return (MissingPermission(verbs=(verb,), resource=resource, namespace=namespace),)


def cannot(text: str) -> str:
    return f"the service account team/werf cannot {text} in app"


def pod(code: int, log: str, **terminated: Any) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "message": log[-2048:], **terminated}}
    return {
        "metadata": {"name": "p"},
        "status": {"containerStatuses": [{"name": "werf", "state": state}]},
    }


@pytest.mark.parametrize(
    ("log", "message", "missing"),
    [
        # werf 2.75.3, as it printed them
        (
            f"Error: uninstall: Release not loaded: shop: query: failed to query: {SECRETS}\n",
            cannot("list secrets"),
            lacks("list", "secrets"),
        ),
        (
            f"Error: uninstallation completed with 1 error(s): {OBJECT}\n",
            cannot("delete deployments.apps"),
            lacks("delete", "deployments.apps"),
        ),
        (
            "Error: failed to delete release: shop\n",
            (
                "Error: failed to delete release: shop: the service account may lack the "
                "permission to delete objects of the release"
            ),
            (),
        ),
        (
            "┌ Waiting for\nError: uninstallation completed with 1 error(s): timed out waiting\n",
            "Error: uninstallation completed with 1 error(s): timed out waiting",
            (),
        ),
        # werf 3.2.0, as it printed them
        (
            (
                f"{OF_3} check release namespace existence: get release namespace: get resource "
                f'"Namespace/app": {NAMESPACE}\n'
            ),
            cannot("get namespaces"),
            lacks("get", "namespaces"),
        ),
        (
            (
                "ERROR: unable to acquire lock release/shop\n\nRetrying in 8 seconds (9/10) ...\n"
                f"{OF_3} lock release: acquire release lock: acquire lock: unable to put store "
                f"value by key lockgate.io/6af41e57: cannot update /v1, Resource=configmaps by "
                f"name werf-synchronization: {LOCK}\n"
            ),
            cannot("update configmaps"),
            lacks("update", "configmaps"),
        ),
        (
            (
                f"{OF_3} lock release: acquire release lock: unable to prepare kubernetes "
                "cm/werf-synchronization in ns/app: get resource: get resource "
                '"ConfigMap/werf-synchronization" from client cache: '
                f"{LOCK.replace('cannot update', 'cannot get')}\n"
            ),
            cannot("get configmaps"),
            lacks("get", "configmaps"),
        ),
        (
            (
                f'{OF_3} build release history: query releases for release "shop": query releases: '
                f"query: failed to query with labels: {SECRETS}\n"
            ),
            cannot("list secrets"),
            lacks("list", "secrets"),
        ),
        (
            (
                f"{OF_3} {FAILED_3}: {PLAN_3}: delete release: uninstall release "
                f'"shop" (revision: 1): delete release: get: failed to get "sh.helm": '
                f"{SECRETS.replace('cannot list', 'cannot get')}\n"
            ),
            cannot("get secrets"),
            lacks("get", "secrets"),
        ),
        (
            f"{OF_3} {FAILED_3}: execute release delete plan: delete resource: {OBJECT}\n",
            cannot("delete deployments.apps"),
            lacks("delete", "deployments.apps"),
        ),
        (
            f"{OF_3} context timed out: action timed out after 10m0s\n",
            f"{OF_3} context timed out: action timed out after 10m0s{HELD}",
            (),
        ),
        *(
            (f"{OF_3} {FAILED_3}: {text}\n", f"{OF_3} {FAILED_3}: {text}{HELD}", ())
            for text in (
                f"{PLAN_3}: {POLL_3}: timed out waiting for the condition",
                f"{PLAN_3}: {POLL_3}: context deadline exceeded",
            )
        ),
        (  # of the API server's answer
            f"{OF_3} lock release: context deadline exceeded\n",
            f"{OF_3} lock release: context deadline exceeded",
            (),
        ),
        # the script
        (
            "Error: unknown version of werf, dev: use a released one in spec.werf.image\n",
            "Error: unknown version of werf, dev: use a released one in spec.werf.image",
            (),
        ),
        # another account's words give nothing
        (
            f"Error: uninstall: {SECRETS.replace('team:werf', 'team:other')}\n",
            f"Error: uninstall: {SECRETS.replace('team:werf', 'team:other')}",
            (),
        ),
    ],
)
def test_the_status_says_what_werf_said(
    log: str, message: str, missing: tuple[MissingPermission, ...]
) -> None:
    ending = ending_of_uninstall(FAILED, [pod(1, log)], log, WERF)

    assert (ending.message, ending.missing) == (message, missing)


@pytest.mark.parametrize(
    ("job", "pods", "log", "message"),
    [
        # A deadline deletes the pods; where one is still there, its container was killed, or
        # werf 3 ended by itself.
        (DEADLINE, [], "", BY_DEADLINE + HELD),
        (DEADLINE, [pod(143, "waits\n")], "waits\n", BY_DEADLINE + HELD),
        (DEADLINE, [pod(137, "waits\n")], "waits\n", BY_DEADLINE + HELD),
        (
            DEADLINE,
            [pod(1, f"{OF_3} context canceled\n")],
            f"{OF_3} context canceled\n",
            BY_DEADLINE + HELD,
        ),
        # SIGTERM by others.
        (FAILED, [pod(143, "waits\n")], "waits\n", "the container was killed (signal 15)"),
        (
            FAILED,
            [pod(137, "waits\n", reason="OOMKilled")],
            "waits\n",
            "the container was killed (OOMKilled)",
        ),
        (
            replace(EVICTED, message="Pod team/p has condition DisruptionTarget"),
            [],
            "",
            "the Job ended without a result of werf: Pod team/p has condition DisruptionTarget",
        ),
    ],
)
def test_the_status_says_what_ended_the_job(
    job: Any, pods: list[dict[str, Any]], log: str, message: str
) -> None:
    ending = ending_of_uninstall(job, pods, log, WERF)

    assert (ending.message, ending.missing) == (message, ())


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            "Error: uninstall: decode: json: cannot unmarshal !!str `hunter2` into int\n",
            "Error: uninstall: decode: json: cannot unmarshal !!str <see the pod's log>",
        ),
        (
            'Error: release uninstall: executing "a" at <fail>: error calling fail: hunter2\n',
            "error calling fail: <see the pod's log>",
        ),
    ],
)
def test_what_a_template_or_a_value_gave_is_left_out(log: str, message: str) -> None:
    ending = ending_of_uninstall(FAILED, [pod(1, log)], log, WERF)

    assert ending.message.endswith(message)
    assert "hunter2" not in ending.message


def test_a_deadline_that_passed_before_the_pod_started_is_no_finalizers_fault() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}}
    container = {"name": "werf", "image": "werf:nope", "state": waiting}
    found = {"metadata": {"name": "p"}, "status": {"containerStatuses": [container]}}

    ending = ending_of_uninstall(DEADLINE, [found], "", WERF)

    assert ending.reason is BundleReason.IMAGE_PULL_FAILED
    assert "finalizer" not in ending.message
