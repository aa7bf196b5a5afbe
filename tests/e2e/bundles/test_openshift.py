"""Jobs where the API server serves OpenShift's SCCs, which give a namespace's pods their ids."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import Operator, Team, operating
from tests.e2e.operator_process import until

from localcluster import Cluster

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCC = "securitycontextconstraints"
CRD = {
    "metadata": {"name": f"{SCC}.security.openshift.io"},
    "spec": {
        "group": "security.openshift.io",
        "names": {"kind": "SecurityContextConstraints", "plural": SCC},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture
def openshift(cluster: Cluster, tmp_path: Path) -> Iterator[Operator]:
    api = cluster.api()
    api.create(CRDS, CRD)
    try:
        until(
            lambda: any(
                one["name"] == "security.openshift.io" for one in api.get("/apis")["groups"]
            ),
            "the group is served",
        )
        with operating(cluster, tmp_path / "operator.log") as operator:
            yield operator
    finally:
        api.delete(f"{CRDS}/{CRD['metadata']['name']}")


def test_jobs_name_no_ids_unless_the_bundle_does(openshift: Operator, team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    since = len(requests(openshift))
    team.bundle("shop")
    team.bundle("stall", job={"securityContext": {"fsGroup": 1000650000}})
    for name in ("shop", "stall"):
        team.wait_deployed(name, digest)
    contexts = [
        team.jobs(name)[0]["spec"]["template"]["spec"]["securityContext"]
        for name in ("shop", "stall")
    ]
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert contexts == [restricted, {**restricted, "fsGroup": 1000650000}]
    team.delete("bundles", "shop")
    team.wait_gone("bundles", "shop")
    (job,) = team.jobs("shop", "uninstall")
    assert job["spec"]["template"]["spec"]["securityContext"] == restricted
    assert len(requests(openshift)) == since, "nothing is asked for each Job"


def requests(operator: Operator) -> list[str]:
    """The operator's requests for the list of API groups."""
    return [
        event.uri
        for event in operator.cluster.audit_events(0)
        if event.user == operator.user and event.uri.partition("?")[0] == "/apis"
    ]
