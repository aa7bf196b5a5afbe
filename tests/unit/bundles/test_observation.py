"""Werf's verdict and the infrastructure's doing are told apart."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.job_records import job, pod

from copyrator.api.bundle_status import MissingPermission, Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.outcome import (
    Ending,
    JobRecord,
    add_cause,
    add_missing_permissions,
    checked_ending,
    ending_of,
    excuse_lost_access,
    exit_code,
    read_job,
)
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.rights import ServiceAccount

BROKEN = BundleReason.DEPLOY_FAILED
LOST = BundleReason.JOB_LOST
ABSENT = "pull bundle: r/app:9.9.9: not found"
PROBE = "wait for Pod/x: dial tcp 10.0.0.1: i/o timeout"
"""A failure of the chart that mentions a network."""


def report(status: str, **more: Any) -> str:
    return json.dumps({"status": status, "revision": 4, **more})


def waiting(reason: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason}}
    return {"status": {"containerStatuses": [{"name": "werf", "image": "werf:2", "state": state}]}}


UNREACHABLE = BundleReason.REGISTRY_UNREACHABLE
REFUSED = BundleReason.AUTHENTICATION_FAILED
DISRUPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Eviction"}]}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (pod(1, "Error: pull bundle: dial tcp 10.0.0.1:443: i/o timeout"), UNREACHABLE),
        (pod(1, "Error: pull bundle: unexpected status code 503 Service Unavailable"), UNREACHABLE),
        (pod(1, "Error: pull bundle: 429 Too Many Requests"), UNREACHABLE),
        (pod(1, "Error: pull bundle: GET r: UNAUTHORIZED: authentication required"), REFUSED),
        (pod(1, "Error: Kubernetes cluster unreachable: Get https://10.0.0.1"), LOST),
        (pod(login=1, message="Error: login: unauthorized"), REFUSED),
        (pod(login=1, message="Error: dial tcp: no such host"), UNREACHABLE),
        (pod(137, "", terminated={"reason": "OOMKilled"}), LOST),
        (pod(143, ""), LOST),
        (pod(1, report("failed"), **DISRUPTED), LOST),
        (pod(reason="Evicted", message="The node was low on resource: memory."), LOST),
    ],
)
def test_the_infrastructures_doing_never_counts(found: dict[str, Any], reason: str) -> None:
    ending = ending_of(job(), [found])

    assert (ending.outcome, ending.reason) == (Outcome.INTERRUPTED, reason)


SERVER = "https://other.example.com:6443"
ELSEWHERE = replace(job(), server=SERVER)
"""Of a release in the cluster of a kubeconfig."""
OUT_OF_REACH = BundleReason.CLUSTER_UNREACHABLE


@pytest.mark.parametrize(
    "words",
    [
        f'Kubernetes cluster unreachable: Get "{SERVER}/version": dial tcp 10.0.0.1: refused',
        f'Get "{SERVER}/api": net/http: TLS handshake timeout',
        f'chart render: Get "{SERVER}/apis": tls: failed to verify certificate: x509: no',
        f'release install: failed release "shop" (namespace: "a"): Post "{SERVER}/api": EOF',
        "build release history: the server has asked for the client to provide credentials",
        "lock release: get lock configmap: Unauthorized",
        "etcdserver: request timed out",
    ],
)
def test_another_clusters_server_that_gives_no_access_never_counts(words: str) -> None:
    ending = ending_of(ELSEWHERE, [pod(1, f"Error: {words}")])

    assert (ending.outcome, ending.reason) == (Outcome.INTERRUPTED, OUT_OF_REACH)
    for code in (10, 11):
        planned = checked_ending(ending_of(ELSEWHERE, [pod(code, f"Error: {words}")]))
        assert planned.reason is OUT_OF_REACH, "of the script's exit code"


@pytest.mark.parametrize(
    "words",
    [
        PROBE,
        'Get "https://elsewhere.example.com/": EOF',
        'secrets is forbidden: User "team" cannot list resource "secrets"',
        f"the chart says {SERVER}",
        f'Get "{SERVER}0/version": EOF',
        "po/shop container/shop: ErrImagePull: unexpected status: 401 Unauthorized",
    ],
)
def test_other_errors_of_a_release_in_another_cluster_are_werfs_verdict(words: str) -> None:
    assert ending_of(ELSEWHERE, [pod(1, f"Error: {words}")]).outcome is Outcome.FAILED


def test_a_pull_is_of_the_registry_wherever_the_release_goes() -> None:
    ending = ending_of(ELSEWHERE, [pod(1, "Error: pull bundle: GET r: UNAUTHORIZED: Unauthorized")])

    assert ending.reason is REFUSED


def test_a_report_of_a_failure_by_a_lost_server_is_excused_by_the_log() -> None:
    ending = ending_of(ELSEWHERE, [pod(1, report("failed"))])
    log = f'Error: create resource: Post "{SERVER}/api": http2: client connection lost\n'

    found = excuse_lost_access(ending, log, SERVER)

    assert (found.outcome, found.reason) == (Outcome.INTERRUPTED, OUT_OF_REACH)
    assert found.message == ending.message
    assert excuse_lost_access(ending, log, "") == ending
    assert excuse_lost_access(ending, "Error: chart says no\n", SERVER) == ending


def test_no_account_of_another_cluster_is_said_to_lack_permissions() -> None:
    log = (
        'Error: configmaps is forbidden: User "system:serviceaccount:team:werf" cannot create '
        'resource "configmaps" in API group "" in the namespace "app"'
    )
    ending = ending_of(ELSEWHERE, [pod(1, log)])

    assert add_missing_permissions(ending, log, None) == ending
    assert add_missing_permissions(ending, log, ServiceAccount("team", "werf")).missing


DONE = BundleReason.DEPLOYED
NO_VERDICT = "the Job ended without a result of werf: "
BACKOFF = f"{NO_VERDICT}Job has reached the specified backoff limit"
NO_REPORT = "werf ended with exit code {} and no report"
FAILED_RELEASE = "werf reports that the release failed"
CUT = {"status": {"containerStatuses": [{"name": "werf", "state": {"terminated": 5}}]}}
GIVEN_UP = replace(job(), given_up=True)
LATE = job(failed="DeadlineExceeded")
NOT_OURS = {"name": "m", "state": {"terminated": {"exitCode": 3}}}
UNPULLED = "the image werf:2 can't be pulled: ImagePullBackOff; the Job was deleted"


def ends(
    reason: BundleReason, message: str, revision: int | None = None, code: int | None = None
) -> Ending:
    outcomes = {DONE: Outcome.SUCCEEDED, BROKEN: Outcome.FAILED}
    return Ending(outcomes.get(reason, Outcome.INTERRUPTED), reason, message, revision, code)


def disrupted(status: str = "True", **message: str) -> dict[str, Any]:
    return pod(conditions=[{"type": "DisruptionTarget", "status": status, **message}])


TIMED_OUT = ends(BundleReason.TIMED_OUT, "the Job exceeded the Bundle's timeout and was terminated")
UNSTARTED = ends(LOST, "the Job couldn't start and was deleted because the spec was edited")


@pytest.mark.parametrize(
    ("of", "pods", "expected"),
    [
        (job(complete=True), [], ends(DONE, "succeeded; its pod no longer exists")),
        (job(), [pod(0)], ends(DONE, "done", None, 0)),
        (job(complete=True), [pod(2)], ends(DONE, "done", None, 2)),
        (job(), [pod(0, report("deployed"))], ends(DONE, "revision 4, nothing to change", 4, 0)),
        (
            job(),
            [pod(1, report("deployed"))],
            ends(DONE, "revision 4, nothing to change (with non-critical errors)", 4, 1),
        ),
        (
            job(complete=True),
            [pod(1, report("failed")), pod(0, report("skipped"))],
            ends(DONE, "revision 3, nothing to change", 3, 0),
        ),
        (job(), [pod(1, report("failed", failedOperations=["a"]))], ends(BROKEN, "a failed", 4, 1)),
        (job(), [pod(1, "x\nError: bad")], ends(BROKEN, "Error: bad", None, 1)),
        (job(), [pod(1, f"Error: {ABSENT}")], ends(BROKEN, f"Error: {ABSENT}", None, 1)),
        (job(), [pod(1, f"Error: {PROBE}")], ends(BROKEN, f"Error: {PROBE}", None, 1)),
        (job(), [pod(1, "x", reason="Other")], ends(BROKEN, "x", None, 1)),
        (job(), [pod(7)], ends(BROKEN, NO_REPORT.format(7), None, 7)),
        (job(), [pod(127)], ends(BROKEN, NO_REPORT.format(127), None, 127)),
        (job(), [pod(128)], ends(LOST, "the container was killed (signal 0)", None, 128)),
        (job(), [pod(143)], ends(LOST, "the container was killed (signal 15)", None, 143)),
        (
            job(),
            [pod(137, terminated={"reason": "Error"})],
            ends(LOST, "the container was killed (Error)", None, 137),
        ),
        (
            job(),
            [pod(1, terminated={"reason": "OOMKilled"})],
            ends(LOST, "the container was killed (OOMKilled)", None, 1),
        ),
        (
            job(),
            [pod(1, "pulling: i/o timeout")],
            ends(UNREACHABLE, "pulling: i/o timeout", None, 1),
        ),
        (job(), [pod(1, "get manifest: denied")], ends(REFUSED, "get manifest: denied", None, 1)),
        (job(), [pod(1, "etcdserver: no leader")], ends(LOST, "etcdserver: no leader", None, 1)),
        (LATE, [pod(143)], TIMED_OUT),
        (LATE, [], TIMED_OUT),
        (LATE, [pod(1, report("failed"))], ends(BROKEN, FAILED_RELEASE, 4, 1)),
        (GIVEN_UP, [pod(1, report("failed"))], ends(BROKEN, FAILED_RELEASE, 4, 1)),
        (GIVEN_UP, [], UNSTARTED),
        (GIVEN_UP, [pod(137)], UNSTARTED),
        (replace(LATE, given_up=True), [], UNSTARTED),
        (replace(LATE, given_up=True), [pod(0)], ends(DONE, "done", None, 0)),
        (
            replace(GIVEN_UP, unsealed=True),
            [],
            ends(
                BundleReason.PLAN_CHANGED,
                "the Job couldn't start and was ended, as a Secret that was made for it had been "
                "deleted",
            ),
        ),
        (
            job(),
            [pod(1, report("failed"), **DISRUPTED)],
            ends(LOST, "the pod was terminated: Eviction"),
        ),
        (job(), [pod(1, reason="NodeLost")], ends(LOST, "the pod was terminated: NodeLost")),
        (job(), [disrupted()], ends(LOST, f"{NO_VERDICT}disrupted")),
        (job(), [disrupted(message="drain")], ends(LOST, f"{NO_VERDICT}drain")),
        (job(), [disrupted("False")], ends(LOST, BACKOFF)),
        (
            job(),
            [{"status": {"reason": "Evicted", "message": "low on memory"}}],
            ends(LOST, f"{NO_VERDICT}low on memory"),
        ),
        (replace(job(), message=""), [CUT], ends(LOST, f"{NO_VERDICT}BackoffLimitExceeded")),
        (
            replace(job(), message="", failed=None),
            [],
            ends(LOST, f"{NO_VERDICT}its pod no longer exists"),
        ),
        (
            job(),
            [pod(login=1, message="x\nError: unauthorized")],
            ends(REFUSED, "werf cr login failed: Error: unauthorized"),
        ),
        (job(), [pod(login=0)], ends(LOST, BACKOFF)),
        (
            job(),
            [{"status": {"initContainerStatuses": [NOT_OURS]}}],
            ends(
                LOST,
                f"{NO_VERDICT}the container m, which isn't the operator's, ended with exit code 3",
            ),
        ),
        (job(), [waiting("ImagePullBackOff")], ends(BundleReason.IMAGE_PULL_FAILED, UNPULLED)),
        (LATE, [waiting("ImagePullBackOff")], ends(BundleReason.IMAGE_PULL_FAILED, UNPULLED)),
    ],
)
def test_an_ending_has_its_reason_its_sentence_its_revision_and_its_code(
    of: JobRecord, pods: list[dict[str, Any]], expected: Ending
) -> None:
    assert ending_of(of, pods) == expected


@pytest.mark.parametrize(
    ("pods", "code"),
    [
        ([], None),
        ([{}], None),
        ([{"status": None}], None),
        ([pod(login=1)], None),
        ([waiting("ImagePullBackOff")], None),
        ([CUT], None),
        ([pod(terminated={"exitCode": "7"}, code=7)], None),
        ([pod(0)], 0),
        ([pod(11)], 11),
        ([pod(10), pod(137), pod(11)], 11),
    ],
)
def test_the_exit_code_is_that_of_werfs_container_in_the_newest_pod(
    pods: list[dict[str, Any]], code: int | None
) -> None:
    assert exit_code(pods) == code


@pytest.mark.parametrize(
    ("code", "reason"), [(10, BundleReason.PLAN_CHANGED), (11, BundleReason.PLAN_FAILED)]
)
def test_the_script_of_a_planned_deploy_may_end_it_before_werf(
    code: int, reason: BundleReason
) -> None:
    ending = Ending(Outcome.FAILED, BROKEN, "operations differ", 4, code)

    assert checked_ending(ending) == Ending(
        Outcome.INTERRUPTED, reason, "operations differ", 4, code
    )


def test_dependencies_that_the_chart_lacks_count_against_the_digest() -> None:
    ending = Ending(Outcome.FAILED, BROKEN, "no", None, 12)

    reason = BundleReason.DEPENDENCIES_NOT_VENDORED
    assert checked_ending(ending) == Ending(Outcome.FAILED, reason, "no", None, 12)


FAILED = Ending(Outcome.FAILED, BROKEN, "create: Pod/bad failed")


@pytest.mark.parametrize(
    ("ending", "log", "message"),
    [
        (FAILED, "x\nError: no such thing", "create: Pod/bad failed: no such thing"),
        (FAILED, "x\nno word of an error", FAILED.message),
        (FAILED, "", FAILED.message),
        (FAILED, "Error: Pod/bad failed", FAILED.message),  # nothing new
        (FAILED, "Error: " + "y" * 999, f"{FAILED.message}: {'y' * 399}…"),
        (replace(FAILED, outcome=Outcome.INTERRUPTED), "Error: killed", FAILED.message),
    ],
)
def test_a_failure_says_what_and_why(ending: Ending, log: str, message: str) -> None:
    assert add_cause(ending, log).message == message


def body(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": "j",
            "uid": "u",
            "labels": {"operator.werf.dev/bundle": "shop", "operator.werf.dev/job": "deploy"},
            "annotations": {
                "operator.werf.dev/bundle-uid": "b",
                "operator.werf.dev/attempt": "3",
            },
        },
        "spec": {"ttlSecondsAfterFinished": 5},
    } | changes


DENIED = (
    'secrets is forbidden: User "system:serviceaccount:team:werf" cannot list resource "secrets" '
    'in API group "" in the namespace "app"'
)
LACKS = "the service account team/werf cannot list secrets in app"
WERF = ServiceAccount("team", "werf")


@pytest.mark.parametrize(
    ("ending", "log", "message"),
    [
        (FAILED, f"Error: failed: {DENIED}\n", f"create: Pod/bad failed: {LACKS}"),
        (FAILED, f"Error: {'x' * 3000}: {DENIED}\n", f"create: Pod/bad failed: {LACKS}"),
        (replace(FAILED, message=f"get history: {DENIED}"), "", LACKS),
        (
            replace(FAILED, outcome=Outcome.INTERRUPTED, reason=BundleReason.PLAN_FAILED),
            f"Error: {DENIED}",
            f"create: Pod/bad failed: {LACKS}",
        ),
    ],
)
def test_a_failure_for_want_of_a_permission_says_it_as_a_plan_does(
    ending: Ending, log: str, message: str
) -> None:
    found = add_missing_permissions(ending, log, WERF)
    entry = MissingPermission(verbs=("list",), resource="secrets", namespace="app")
    assert (found.message, found.missing) == (message, (entry,))
    assert replace(found, message="", missing=()) == replace(ending, message="")


@pytest.mark.parametrize(
    ("ending", "log", "account"),
    [
        (FAILED, "Error: render: no such value", WERF),
        (FAILED, f"Error: {DENIED}", ServiceAccount("team", "other")),
        (FAILED, f"{DENIED}\nError: no such value", WERF),  # the chart's own output
        (FAILED, f"Error: {'x' * 5000}: {DENIED}", WERF),
        (replace(FAILED, reason=BundleReason.JOB_LOST), f"Error: {DENIED}", WERF),
        (replace(FAILED, reason=BundleReason.DEPLOYED), f"Error: {DENIED}", WERF),
    ],
)
def test_other_endings_stay_as_they_are(ending: Ending, log: str, account: ServiceAccount) -> None:
    assert add_missing_permissions(ending, log, account) == ending


WHOLE = {
    "namespace": "team",
    "name": "j",
    "uid": "u",
    "resourceVersion": "77",
    "creationTimestamp": "2026-01-01T12:00:00Z",
    "deletionTimestamp": "2026-01-01T13:00:00Z",
    "labels": {"operator.werf.dev/bundle": "shop", "operator.werf.dev/job": "uninstall"},
    "annotations": {
        "operator.werf.dev/bundle-uid": "b",
        "operator.werf.dev/attempt": "3",
        "operator.werf.dev/generation": "9",
        "operator.werf.dev/given-up": "",
    },
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECORD = JobRecord(
    namespace="team",
    name="j",
    uid="u",
    bundle="shop",
    bundle_uid="b",
    kind=JobKind.UNINSTALL,
    attempt=3,
    created=NOON,
    finished=None,
    ttl=5,
    deleting=True,
    given_up=True,
    generation=9,
    resource_version="77",
)


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        ({}, {}),
        (
            {
                "conditions": [
                    {
                        "type": "Complete",
                        "status": "True",
                        "lastTransitionTime": "2026-01-01T12:30:00Z",
                    }
                ]
            },
            {"complete": True, "finished": NOON + timedelta(minutes=30)},
        ),
        (
            {
                "completionTime": "2026-01-01T12:20:00Z",
                "conditions": [
                    {
                        "type": "Complete",
                        "status": "True",
                        "lastTransitionTime": "2026-01-01T12:30:00Z",
                    }
                ],
            },
            {"complete": True, "finished": NOON + timedelta(minutes=20)},
        ),
        (
            {"conditions": [{"type": "Failed", "status": "True", "message": "m" * 600}]},
            {"failed": "Failed", "message": "m" * 512},
        ),
    ],
)
def test_a_job_is_read_whole(status: dict[str, Any], changes: dict[str, Any]) -> None:
    found = read_job(body(metadata=WHOLE, status=status))

    assert found == replace(RECORD, **changes)
    assert found.done is bool(changes)


@pytest.mark.parametrize(("why", "unsealed"), [("PlanChanged", True), ("JobLost", False)])
def test_a_job_that_was_given_up_says_whether_a_secret_was_deleted(
    why: str, unsealed: bool
) -> None:
    annotations = {"operator.werf.dev/given-up": why}
    found = read_job(body(metadata=WHOLE | {"annotations": annotations}))

    assert found is not None
    assert (found.given_up, found.unsealed) == (True, unsealed)


def test_a_job_that_says_nothing_else_is_read_too() -> None:
    labels = {"operator.werf.dev/job": "deploy"}

    assert read_job({"metadata": {"labels": labels}}) == JobRecord(
        namespace="",
        name="",
        uid="",
        bundle="",
        bundle_uid="",
        kind=JobKind.DEPLOY,
        attempt=0,
        created=None,
        finished=None,
    )
    assert read_job({}) is None


@pytest.mark.parametrize("text", ["", "-1", "x", "1.5", "\u0663"])
def test_an_attempt_that_is_no_number_is_none(text: str) -> None:
    metadata = WHOLE | {
        "annotations": {
            "operator.werf.dev/attempt": text,
            "operator.werf.dev/generation": text,
        }
    }
    found = read_job(body(metadata=metadata))

    assert found is not None
    assert (found.attempt, found.generation, found.given_up) == (0, 0, False)


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [{"type": "SuccessCriteriaMet", "status": "True"}],
        [{"type": "Failed", "status": "False"}],
    ],
)
def test_a_job_is_done_only_when_it_says_so(conditions: list[dict[str, str]]) -> None:
    record = read_job(body(status={"conditions": conditions}))

    assert record is not None
    assert not record.done


@pytest.mark.parametrize("labels", [{}, {"operator.werf.dev/job": "evil"}])
def test_other_jobs_are_not_ours(labels: dict[str, str]) -> None:
    assert read_job(body(metadata={"name": "j", "labels": labels})) is None
