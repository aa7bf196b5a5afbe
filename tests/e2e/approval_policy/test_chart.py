"""What the chart renders for plans and approval; no API server is asked."""

from typing import Any

import pytest
from tests.e2e.approval_policy.conftest import DECISION_ANNOTATIONS, policies_of
from tests.e2e.installation import rendered

from copyrator.bundles.plans.fields import ApprovalMode
from demo.chart import CHART, SET_IMAGE


def policies(cluster, **values: Any) -> list[dict[str, Any]]:
    chosen = {key.replace("__", "."): value for key, value in values.items()}
    return policies_of(rendered(cluster, "x", chosen, policy=True))


def test_it_is_there_by_default_and_denies_what_it_cant_evaluate(cluster):
    policy, binding = policies(cluster)
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert "matchResources" not in binding["spec"]


def test_it_can_be_switched_off_and_is_left_out_where_it_isnt_served(cluster):
    assert policies(cluster, bundles__approvalPolicy__enabled=False) == []
    assert policies_of(rendered(cluster, "x", {})) == []


def test_it_knows_the_operators_annotations_and_modes(cluster):
    (policy, _) = policies(cluster)
    expressions = {one["name"]: one["expression"] for one in policy["spec"]["variables"]}
    assert all(repr(key) in expressions["decisions"] for key in DECISION_ANNOTATIONS)
    modes = ", ".join(f"'{mode}': {rank}" for rank, mode in enumerate(ApprovalMode))
    assert expressions["modes"] == f"{{{modes}}}"


@pytest.mark.parametrize(
    ("values", "account"),
    [
        ({}, "copyrator"),
        ({"fullnameOverride": "second"}, "second"),
        ({"serviceAccount__name": "mine", "serviceAccount__create": False}, "mine"),
    ],
    ids=str,
)
def test_it_lets_the_status_be_written_by_this_installations_account(cluster, values, account):
    (policy, _) = policies(cluster, **values)
    (condition,) = policy["spec"]["matchConditions"]
    assert f"== 'system:serviceaccount:x:{account}'" in condition["expression"]


def test_in_some_namespaces_it_guards_these_only(cluster):
    """The operator of another installation, with an account of its own, serves the others."""
    (_, binding) = policies(cluster, watchNamespaces=["one", "two"])
    (chosen,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert (chosen["operator"], chosen["values"]) == ("In", ["one", "two"])


def test_the_notes_say_where_the_api_server_cant_have_it(cluster, api):
    required = ("--set-json", 'bundles.requireApproval={"*":"Always"}')
    others = ("--set", "crds.enabled=false")  # other tests' CRDs aren't this release's
    options = ("--dry-run=client", "--namespace", "x", *required, *others)
    notes = cluster.helm("install", "copyrator", str(CHART), *SET_IMAGE, *options).partition(
        "NOTES:"
    )[2]
    why = "because this API server doesn't serve ValidatingAdmissionPolicy v1"
    assert (why in notes) is (int(api.get("/version")["minor"]) < 30)
    assert 'need the annotation "operator.werf.dev/registry"' in notes
