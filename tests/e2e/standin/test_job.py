"""As a Job of the operator runs it."""

import json
from typing import Any

from tests.e2e import rbac
from tests.e2e.standin.conftest import Charts, Werf

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.jobs.job import DeployOrder, build_deploy_job
from localcluster import Api
from localcluster.waiting import eventually

RULES = [
    rbac.rule("get list watch create update patch delete", "configmaps"),
    rbac.rule("get list create update delete", "secrets"),
    rbac.rule("list watch", "events"),
]


def deployed(werf: Werf, charts: Charts, api: Api) -> dict[str, Any]:
    """How the container of a Job ended that deploys with the measured rights."""
    digest = charts.push()
    base = f"/api/v1/namespaces/{werf.namespace}"
    api.create(f"{base}/serviceaccounts", {"metadata": {"name": "werf"}})
    subject = rbac.account(werf.namespace, "werf")
    rbac.grant(api, subject, *RULES, namespace=werf.namespace)
    spec = BundleSpec(
        namespace=werf.namespace,
        name="demo",
        registry=charts.registry,
        repo=charts.repo,
        version="1.0.0",
        project_namespace=werf.namespace,
        insecure=True,
    )
    job = build_deploy_job(
        DeployOrder(spec=spec, uid="", version="1.0.0", digest=digest, generation=1, attempt=1)
    )
    del job["metadata"]["ownerReferences"]  # there is no Bundle
    api.create(f"/apis/batch/v1/namespaces/{werf.namespace}/jobs", job)

    def ended() -> Any:
        pods = api.get(f"{base}/pods")["items"]
        statuses = [status for pod in pods for status in pod["status"].get("containerStatuses", [])]
        return statuses and statuses[0]["state"].get("terminated")

    return dict(eventually(ended, "the Job's end"))


def test_the_measured_rights_are_enough_and_the_report_is_the_jobs_message(
    werf: Werf, charts: Charts, api: Api
) -> None:
    end = deployed(werf, charts, api)

    assert end["exitCode"] == 0, end
    assert json.loads(end["message"])["status"] == "deployed"
    assert "demo-cm" in werf.names()
