"""What the deploying half does with each of its rights, one case for each."""

from tests.e2e.operator_process import until
from tests.e2e.rights.rule_cases import Steps
from tests.e2e.rights.stage import Case, Stage

STUCK = {"job": {"nodeSelector": {"no-such": "node"}}}
FAILS = "2.0.0"
"""A tag whose chart can't be rendered: werf fails within a second."""


def holding(stage: Stage) -> Steps:
    name = stage.word()
    yield None
    yield stage.bundle(stage.bare, name)
    stage.bare.wait_reason(name, "ServiceAccountMissing")


def telling(stage: Stage) -> Steps:
    name = stage.word()
    yield None
    stage.bundle(stage.bare, name)
    yield None
    stage.bare.wait_reason(name, "ServiceAccountMissing")


def reading(stage: Stage) -> Steps:
    """A Bundle of the original operator's is read whole: its marks have to be taken off."""
    name = stage.word()
    yield None
    leftover = {"annotations": {"kopf.zalando.org/last-handled-configuration": "{}"}}
    yield stage.bundle(stage.bare, name, metadata=leftover)
    stage.bare.wait_reason(name, "ServiceAccountMissing")


def making_a_job(stage: Stage) -> Steps:
    name = stage.word()
    yield None
    yield stage.bundle(stage.team, name, **STUCK)
    until(lambda: stage.team.jobs(name), "a Job")


def missing_a_job(stage: Stage) -> Steps:
    """A Job that the watch doesn't show is asked for before it counts as lost."""
    name = stage.word()
    says = stage.bundle(stage.team, name, **STUCK)
    (job,) = until(lambda: stage.team.jobs(name), "a Job")
    yield None
    stage.team.delete("jobs", job["metadata"]["name"], propagationPolicy="Background")
    yield says
    until(lambda: stage.team.jobs(name), "another Job")


def letting_a_job_go(stage: Stage) -> Steps:
    name = stage.word()
    yield None
    stage.bundle(stage.team, name, version=FAILS)
    stage.wait_failed(stage.team, name)
    yield None

    def ttl() -> int:
        return int(stage.team.jobs(name)[0]["spec"]["ttlSecondsAfterFinished"])

    until(lambda: ttl() < 3600, "the Job's TTL is cut")


def seeing_pods(stage: Stage) -> Steps:
    name = stage.word()
    yield None
    yield stage.bundle(stage.team, name, version=FAILS)
    stage.wait_failed(stage.team, name)


def reading_logs(stage: Stage) -> Steps:
    name = stage.word()
    yield None
    stage.bundle(stage.team, name, version=FAILS)
    stage.wait_failed(stage.team, name)
    yield None
    error = stage.team.status(name)["lastError"]
    assert "app.yaml" in error["message"] + error.get("logTail", ""), "the termination message"


def leaving(stage: Stage) -> Steps:
    """Before a release is uninstalled its namespace is looked at: it may be going, too."""
    name = stage.word()
    says = stage.bundle(stage.bare, name)
    stage.bare.wait_reason(name, "ServiceAccountMissing")
    path = stage.bare.path("bundles", name)
    deployed = {"status": {"deploy": {"digest": f"sha256:{'0' * 64}", "version": "1.0.0"}}}
    stage.user.api.patch(f"{path}/status", deployed)
    yield None
    stage.user.api.delete(path)
    yield says
    until(lambda: "Uninstalling" in says(), says)


CASES: dict[str, Case] = {
    "patch bundles.operator.werf.dev": holding,
    "patch bundles.operator.werf.dev/status": telling,
    "get bundles.operator.werf.dev": reading,
    "get serviceaccounts": holding,
    "create jobs.batch": making_a_job,
    "get jobs.batch": missing_a_job,
    "patch jobs.batch": letting_a_job_go,
    "list pods": seeing_pods,
    "get pods/log": reading_logs,
    "get namespaces": leaving,
}
