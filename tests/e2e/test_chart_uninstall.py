"""What Helm's Job does before an uninstall, under the rights that it has then."""

import json

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.installation import apply, rendered, serves, uninstall
from tests.e2e.operator_process import until
from tests.targets import EVERYWHERE

from copyrator.api.names import FINALIZER_RULE
from copyrator.cli import cli
from demo.chart import CHART, SET_IMAGE

RULE_API = "/apis/flant.com/v1/namespaces/{}/copyrators"


class Release:
    """A release without pods; its account's kubeconfig starts what the Job's container would."""

    def __init__(self, cluster, home, values):
        self.cluster = cluster
        chart = rendered(cluster, home, values | {"replicas": 0})
        only = ("--show-only", "templates/uninstall.yaml")
        printed = cluster.helm(
            "template", "copyrator", str(CHART), *SET_IMAGE, "--namespace", home, *only
        )
        hook = list(yaml.safe_load_all(printed))
        (job,) = [one for one in hook if one["kind"] == "Job"]
        self.arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
        rights = [one for one in hook if one["kind"] != "Job"]
        objects = [*chart.crds, *chart.rights, chart.deployment, *rights]
        apply(cluster.api(), objects)
        until(lambda: serves(cluster.api()), "the API server serves rules and Bundles")
        self.kubeconfig = cluster.kubeconfig_for_service_account(home, chart.service_account)

    def begin_uninstall(self, home: str) -> None:
        """What Helm does before it starts the Job."""
        labels = {"owner": "helm", "name": "copyrator", "status": "uninstalling"}
        metadata = {"name": "sh.helm.release.v1.copyrator.v1", "labels": labels}
        self.cluster.api().create(f"/api/v1/namespaces/{home}/secrets", {"metadata": metadata})

    def run_the_job(self) -> str:
        environment = {"KUBECONFIG": str(self.kubeconfig)}
        done = CliRunner().invoke(cli, self.arguments, env=environment)
        assert done.exit_code == 0, done.output
        return done.stdout

    def rule(self, namespace: str) -> str:
        """A rule with our finalizer and somebody else's; its path."""
        path = RULE_API.format(namespace)
        rule = {
            "apiVersion": "flant.com/v1",
            "kind": "CopyratorRule",
            "metadata": {"name": "held", "finalizers": [FINALIZER_RULE, "example.com/other"]},
            "spec": {"source": {"kind": "Secret", "name": "x"}, "targets": EVERYWHERE},
        }
        self.cluster.api().create(path, rule)
        return f"{path}/held"

    def finalizers(self, path: str) -> list[str]:
        return self.cluster.api().get(path)["metadata"].get("finalizers", [])


@pytest.mark.parametrize("narrow", [False, True], ids=["everywhere", "some namespaces"])
def test_it_lets_go_of_what_the_release_serves_and_of_nothing_else(cluster, namespace, narrow):
    home, served, other = namespace("home"), namespace("served"), namespace("other")
    release = Release(cluster, home, {"watchNamespaces": [served]} if narrow else {})
    paths = [release.rule(served), release.rule(other)]
    try:
        deployments = f"/apis/apps/v1/namespaces/{home}/deployments/copyrator"
        cluster.api().patch(deployments, {"spec": {"replicas": 1}})
        release.begin_uninstall(home)
        said = release.run_the_job()
        assert "stay as they are" in said
        assert cluster.api().get(deployments)["spec"]["replicas"] == 0
        left = [release.finalizers(path) for path in paths]
        expected = [FINALIZER_RULE, "example.com/other"] if narrow else ["example.com/other"]
        assert left == [["example.com/other"], expected], json.dumps(left)
    finally:
        for path in paths:
            cluster.api().remove_finalizers(path)
        uninstall(cluster, home)
