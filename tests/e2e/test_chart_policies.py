"""What the chart renders of the policies about approvals and about marks."""

import json
from typing import Any

import pytest
from tests.e2e.approval_policy.conftest import DECISION_ANNOTATIONS
from tests.e2e.approval_policy.conftest import policies_of as approval
from tests.e2e.installation import rendered
from tests.e2e.marks_policy.conftest import policies_of as marks

from copyrator.api import names
from copyrator.bundles.plans.fields import ApprovalMode
from copyrator.copies.targets.marks import OUR_KEYS
from demo.chart import CHART, SET_IMAGE

BOTH = pytest.mark.parametrize(
    ("of", "switch", "on_error"),
    [
        (approval, "bundles.approvalPolicy.enabled", "Fail"),
        (marks, "rules.admissionPolicy", "Ignore"),  # nothing of a cluster fails with it
    ],
    ids=["approval", "marks"],
)


@BOTH
def test_it_is_there_by_default_and_can_be_switched_off_where_it_is_served(
    cluster, of, switch, on_error
):
    policy, binding = of(rendered(cluster, "x", policy=True))
    assert policy["spec"]["failurePolicy"] == on_error
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert of(rendered(cluster, "x", {switch: False}, policy=True)) == []
    assert of(rendered(cluster, "x")) == []


@BOTH
def test_in_some_namespaces_it_guards_these_only(cluster, of, switch, on_error):
    """The operator of another installation, with an account of its own, serves the others."""
    (_, binding) = of(rendered(cluster, "x", policy=True))
    assert "matchResources" not in binding["spec"]
    (_, binding) = of(rendered(cluster, "x", {"watchNamespaces": ["one", "two"]}, policy=True))
    (chosen,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert (chosen["operator"], chosen["values"]) == ("In", ["one", "two"])


def test_it_knows_the_operators_annotations_modes_and_marks(cluster):
    chart = rendered(cluster, "x", policy=True)
    expressions = {
        one["name"]: one["expression"] for one in approval(chart)[0]["spec"]["variables"]
    }
    assert all(repr(key) in expressions["decisions"] for key in DECISION_ANNOTATIONS)
    modes = ", ".join(f"'{mode}': {rank}" for rank, mode in enumerate(ApprovalMode))
    assert expressions["modes"] == f"{{{modes}}}"
    spec = marks(chart)[0]["spec"]
    keys = next(one["expression"] for one in spec["variables"] if one["name"] == "keys")
    assert all(repr(key) in keys for key in OUR_KEYS - {names.LABEL_MANAGED_BY})
    assert f"'{names.LABEL_MANAGED_BY}'" in json.dumps(spec)
    assert f"f.manager == '{names.FIELD_MANAGER}'" in json.dumps(spec)


@pytest.mark.parametrize(
    ("values", "account"),
    [
        ({}, "copyrator"),
        ({"fullnameOverride": "second"}, "second"),
        ({"serviceAccount.name": "mine", "serviceAccount.create": False}, "mine"),
    ],
    ids=str,
)
def test_it_lets_the_status_be_written_by_this_installations_account(cluster, values, account):
    (policy, _) = approval(rendered(cluster, "x", values, policy=True))
    (condition,) = policy["spec"]["matchConditions"]
    assert f"== 'system:serviceaccount:x:{account}'" in condition["expression"]


def test_the_names_of_two_installations_policies_differ(cluster):
    charts = [
        rendered(cluster, home, values, policy=True)
        for home in ("x", "y")
        for values in ({}, {"fullnameOverride": "second"})
    ]
    assert len({marks(chart)[0]["metadata"]["name"] for chart in charts}) == len(charts)


def test_marks_are_of_the_kinds_of_rules_and_never_of_our_own(cluster):
    def kinds(*of_rules: str) -> list[dict[str, Any]]:
        return marks(rendered(cluster, "x", {"rules.kinds": of_rules}, policy=True))

    ours = ("CopyratorRule.flant.com", "Bundle.operator.werf.dev")
    (policy, _) = kinds("Secret", "Ingress.networking.k8s.io/v1", *ours)
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    assert [(one["apiGroups"], one["resources"]) for one in rules] == [
        ([""], ["secrets", "secrets/status"]),
        (["networking.k8s.io"], ["ingresses", "ingresses/status"]),
    ]
    assert kinds(*ours) == []


def test_the_notes_say_where_the_api_server_cant_have_it(cluster, api):
    required = ("--set-json", 'bundles.requireApproval={"*":"Always"}')
    others = ("--set", "crds.enabled=false")  # other tests' CRDs aren't this release's
    options = ("--dry-run=client", "--namespace", "x", *required, *others)
    said = cluster.helm("install", "copyrator", str(CHART), *SET_IMAGE, *options)
    notes = said.partition("NOTES:")[2]
    why = "because this API server doesn't serve ValidatingAdmissionPolicy v1"
    assert (why in notes) is (int(api.get("/version")["minor"]) < 30)
    assert 'need the annotation "operator.werf.dev/registry"' in notes
