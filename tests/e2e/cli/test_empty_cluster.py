"""Where nothing is installed yet, every command says what is missing and what to do."""

import pytest
from tests.e2e.cli.conftest import ROOT, Stage

from localcluster import Cluster


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A command line on a cluster of its own, with nothing in it."""
    directory = tmp_path_factory.mktemp("empty") / "cluster"
    with Cluster.start(directory, process_node=False, registry=False) as own:
        yield Stage(own, own.api(), "copyrator", "default", None, own.admin_kubeconfig)


def test_doctor_misses_crds_deployment_and_lease(empty):
    said = empty.types("doctor", code=1)
    assert "ok   API server: v1." in said
    for crd in ("copyrators.flant.com", "bundles.operator.werf.dev"):
        assert f"FAIL CRDs: the CRD {crd} is missing: install the chart, or " in said
    assert "?    Deployment: not found" in said
    assert "FAIL Lease: the Lease" in said


@pytest.mark.parametrize(
    "command",
    [
        "get rules -A",
        "get bundles",
        "get copies",
        "describe rule a",
        "why default/a",
        "history bundle a",
    ],
)
def test_every_command_says_that_the_crd_is_missing(empty, command):
    said = empty.types(command, code=1)
    assert said == (
        "Error: the API server doesn't serve this kind; check that Copyrator's CRDs are "
        "installed: copyrator doctor\n"
    )


def test_what_needs_no_cluster_works(empty):
    rule = ROOT / "examples" / "rules" / "secret.yaml"
    assert empty.types(f"validate -f {rule}")
