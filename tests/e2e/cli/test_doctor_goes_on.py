"""`doctor` says what it may not read, and looks behind the Deployment."""

from dataclasses import replace

import pytest
from tests.e2e.operator_process import until


@pytest.mark.refused("*")
def test_doctor_goes_on_past_what_it_may_not_read(stage, word):
    somebody = replace(stage, admin=stage.cluster.kubeconfig_for_user(f"somebody-{word}", []))
    said = somebody.types("doctor", code=None)
    assert "ok   API server: v1." in said
    assert "?    Lease: you have no permission to check it: " in said
    for what in ("Rules", "Bundles"):
        assert f"?    {what}: you have no permission to check them: " in said
    assert "?    Registries: you have no permission" in said


def test_doctor_says_that_the_deployment_is_scaled_to_0(stage):
    said = stage.types("doctor", code=None)
    assert f"?    Pods: the Deployment {stage.home}/" in said
    assert "is scaled to 0" in said


def test_doctor_says_why_no_pod_runs(stage, word, namespace):
    there, labels = namespace("idle"), {"app.kubernetes.io/name": "copyrator", "test": word}
    container = {"name": "copyrator", "image": "registry.invalid/copyrator:1"}
    stage.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "idle", "namespace": there, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "nodeSelector": {"no": "such-node"}},
                },
            },
        }
    )
    until(
        lambda: "Unschedulable" in stage.types(f"doctor -n {there}", code=1),
        lambda: stage.types(f"doctor -n {there}", code=None),
    )
    said = stage.types(f"doctor -n {there}", code=1)
    assert "FAIL Pods: 0 of 1 ready: idle-" in said
    assert f"see: kubectl -n {there} describe pods -l " in said
