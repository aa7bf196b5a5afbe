"""What `copyrator doctor` says about the approval policy and the permissions for plans."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from tests.e2e.approval_policy.conftest import Guarded, Person, bundle, policies_of
from tests.e2e.installation import apply

from copyrator.cli import cli

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
Doctor = Callable[..., list[str]]


@pytest.fixture
def doctor(guarded: Guarded) -> Iterator[Doctor]:
    """Runs the command; its lines with a word. The chart's Deployment is there without pods."""
    deployment = copy.deepcopy(guarded.rendered.deployment)
    deployment["spec"]["replicas"] = 0
    apply(guarded.api, [deployment])
    environment = {
        "KUBECONFIG": str(guarded.cluster.admin_kubeconfig),
        "COPYRATOR_OPERATOR_NAMESPACE": guarded.home,
        "COLUMNS": "300",
    }

    def lines(word: str) -> list[str]:
        output = CliRunner().invoke(cli, ["doctor"], env=environment).output
        assert "Traceback" not in output, output
        return [line for line in output.splitlines() if word in line]

    yield lines
    guarded.api.delete(f"/apis/apps/v1/namespaces/{guarded.home}/deployments/copyrator")


@contextmanager
def without(guarded: Guarded, plural: str) -> Iterator[None]:
    """The policy or its binding is deleted for a while."""
    path = f"{ADMISSION}/{plural}/{guarded.policy}"
    guarded.api.delete(path)
    yield
    apply(guarded.api, policies_of(guarded.rendered))


def test_it_names_a_missing_policy_where_a_bundle_asks_for_approval(
    guarded: Guarded, team: str, editor: Person, doctor: Doctor
):
    editor.create(bundle(f"{team}/plain"))
    assert doctor("Approval policy") == [], "nobody asks for approval"
    editor.create(bundle(f"{team}/gated", "OnRisk"))
    (said,) = doctor("Approval policy")
    only = "only users with the verb approve on bundles approve plans"
    assert said == f"ok   Approval policy: with {guarded.policy} {only}"
    everybody = "whoever can edit a Bundle can also approve its plans; the chart installs one"
    with without(guarded, "validatingadmissionpolicybindings"):
        (said,) = doctor("Approval policy")
        unbound = f"{guarded.policy} has no binding that denies"
        assert said == f"?    Approval policy: {unbound}: {everybody} (helm upgrade)"
    with without(guarded, "validatingadmissionpolicies"):
        (said,) = doctor("Approval policy")
        how = "(bundles.approvalPolicy.enabled)"
        assert said == f"?    Approval policy: not installed: {everybody} {how}"


def test_it_says_whether_pods_of_plans_are_restricted_to_what_they_need(
    guarded: Guarded, team: str, editor: Person, doctor: Doctor
):
    def restrict(*types: str) -> None:
        spec = {"podSelector": {"matchLabels": {"operator.werf.dev/job": "plan"}}}
        policy: dict[str, Any] = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
        policy["spec"] = {**spec, "policyTypes": types}
        for namespace in guarded.made:  # other tests' Bundles are there, too
            metadata = {"name": "plans", "namespace": namespace}
            apply(guarded.api, [{**policy, "metadata": metadata}])

    editor.create(bundle(f"{team}/gated", "OnRisk"))
    for _ in range(2):
        (said,) = doctor("Network of plans")
        assert said.startswith("?    Network of plans: before an approval the pods of plans may")
        assert f"{team}/gated" in said
        restrict("Ingress")
    restrict("Egress")
    (said,) = doctor("Network of plans")
    assert said.endswith(
        "no network plug-in that enforces them was recognised: check that yours does"
    )
    labels = {"app": "cilium"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    plugin = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "cilium", "namespace": team},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    apply(guarded.api, [plugin])
    (said,) = doctor("Network of plans")
    assert said.startswith("ok   Network of plans: ")
    assert said.endswith("; the network plug-in cilium enforces them")


def test_it_says_whether_the_api_server_enforces_plans(
    guarded: Guarded, team: str, editor: Person, doctor: Doctor
):
    editor.create(bundle(f"{team}/gated", "OnRisk"))
    policy = f"copyrator.{guarded.home}.guard.operator.werf.dev"
    assert doctor("Enforced plans") == [
        f"ok   Enforced plans: {policy} refuses what isn't approved"
    ]
    path = f"{ADMISSION}/validatingadmissionpolicybindings/{policy}"
    binding = guarded.api.get(path)
    guarded.api.patch(path, {"spec": {"validationActions": ["Audit"]}})
    (said,) = doctor("Enforced plans")
    assert f"ValidatingAdmissionPolicyBinding {policy} isn't the chart's" in said
    assert said.endswith("plans aren't enforced, so OnRisk asks for each; see docs/approval.md")
    guarded.api.patch(path, {"spec": {"validationActions": binding["spec"]["validationActions"]}})
