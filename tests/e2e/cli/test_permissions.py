"""What commands say of permissions: the operator's, and those of who asks.

`doctor` is asked last while the operator's rights are away: whichever of its watches has to be
opened anew just then is refused.
"""

import json

import pytest
from tests.e2e.cli.conftest import plainly, rbac, rule
from tests.e2e.installation import RULES
from tests.e2e.operator_process import until

pytestmark = pytest.mark.refused("*")

NEEDED = "Forbidden: needs rules.bindClusterRoles=[admin] (chart)"


@pytest.fixture
def spaces(namespace, word):
    """Four namespaces of a team."""
    return sorted(namespace(f"{word}-team") for _ in range(4))


@pytest.fixture
def denied(stage, word, spaces):
    """A rule whose RoleBindings name a ClusterRole that the operator may not bind."""
    template = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "devs"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"
        },
        "subjects": [],
    }  # fmt: skip
    stage.apply(rule(stage.home, word, template=template, targets={"namespaces": [f"{word}-*"]}))
    path = f"{RULES.format(stage.home)}/{word}"
    until(
        lambda: (
            stage.api.get(path).get("status", {}).get("copies", {}).get("failed") == len(spaces)
        ),
        "all four have failed",
    )
    yield spaces[0]
    stage.delete_rule(word)


@pytest.fixture
def without_impersonation(stage, word):
    """Somebody who may do all but act as another user."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "bind", "escalate"]
    stage.grant(
        f"user-{word}",
        {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    )
    yield stage.as_user(f"user-{word}")
    stage.revoke(f"user-{word}")


def test_an_administrator_hears_what_the_operator_may_not(stage, word, denied):
    said = stage.types(f"why {denied}/devs --kind RoleBinding")
    assert f"The rule {stage.home}/{word} requires it, but the write fails: {NEEDED}" in said
    assert "check that the operator is running" not in said
    said = plainly(stage.types(f"plan rule {stage.home}/{word}", code=2))
    assert f"blocked 4 namespaces ({word}-" in said
    assert f"…) devs {NEEDED}" in said
    assert said.count("blocked") == 2, "one row, and the sum"
    own = f"--as system:serviceaccount:{stage.home}:copyrator"
    said = plainly(stage.types(f"plan rule {stage.home}/{word} {own}", code=2))
    assert f"…) devs {NEEDED}" in said, "an administrator may name the operator"


@pytest.fixture
def without_deployment(stage):
    """The operator runs outside the cluster: there is only its Lease."""
    path = f"/apis/apps/v1/namespaces/{stage.home}/deployments"
    there = stage.api.get(f"{path}/copyrator")
    stage.api.delete(f"{path}/copyrator")
    until(lambda: not stage.api.get(path)["items"], "the Deployment is gone")
    yield stage
    metadata = {name: there["metadata"][name] for name in ("name", "labels")}
    stage.api.create(path, {"metadata": metadata, "spec": there["spec"]})


@pytest.mark.parametrize("unknown", ["without_impersonation", "without_deployment"])
def test_who_cant_try_as_the_operator_hears_what_it_said(word, denied, stage, unknown, request):
    asking = request.getfixturevalue(unknown)
    said = asking.types(f"why {denied}/devs --kind RoleBinding")
    assert "a dry run of the write succeeds (tried as you; the operator reported: " + NEEDED in said
    said = asking.types(f"plan rule {stage.home}/{word}", code=2)
    assert said.count("(tried as you; the operator reported: " + NEEDED) == 4
    assert "Tried as you, not as the operator" in said


def test_without_a_deployment_the_status_says_which_rules_are_refused(
    word, namespace, without_deployment
):
    stage, tenant = without_deployment, namespace("tenant")
    stage.apply(rule(tenant, word, source={"kind": "ConfigMap", "name": word}))
    stage.wait_reason(RULES.format(tenant), word, "NotTrusted")
    said = stage.types(f"plan rule {tenant}/{word}", code=1)
    assert f"Error: rule {tenant}/{word} wouldn't be served: NotTrusted: " in said
    assert "NotTrusted" in stage.types(f"why {tenant}/other --kind configmap")


def test_without_a_deployment_a_plan_of_files_says_that_settings_arent_known(
    word, namespace, without_deployment, tmp_path
):
    stage, team = without_deployment, namespace("team")
    file = tmp_path / "rule.yaml"
    template = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": word}}
    body = rule(stage.home, word, template=template, targets={"namespaces": [team]})
    file.write_text(json.dumps(body))
    said = " ".join(stage.types(f"plan -f {file}", code=2).split())
    assert f"create {team} {word}" in said
    assert "its settings aren't known" in said


def test_without_a_deployment_a_users_own_permissions_are_no_fault(without_deployment):
    stage = without_deployment
    said = stage.types("doctor --as nobody-in-particular", code=None)
    assert "BAD Rights" not in said
    assert "?    Permissions: the operator's account isn't known without a Deployment" in said


@pytest.mark.refused("*")
def test_doctor_goes_on_past_what_it_may_not_read(stage, word):
    said = stage.as_user(f"somebody-{word}").types("doctor", code=None)
    assert "ok   API server: v1." in said
    assert "?    Lease: you have no permission to check it: " in said
    for what in ("Rules", "Bundles"):
        assert f"?    {what}: you have no permission to check them: " in said


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


@pytest.mark.refused("*")
def test_doctor_names_a_right_that_is_missing_until_it_is_back(stage):
    user, role = f"system:serviceaccount:{stage.home}:copyrator", f"{stage.home}:copyrator"
    granted = f"ok   Permissions: all required permissions are granted to {user}"
    assert granted in stage.types("doctor", code=None)
    bindings = rbac("clusterrolebindings")
    binding = stage.api.get(f"{bindings}/{role}")
    stage.api.delete(f"{bindings}/{role}")
    try:
        missed = f"{user} cannot "
        until(lambda: missed in stage.types("doctor", code=None), "the permission is missed")
        said = stage.types("doctor", code=1)
        assert f"FAIL Permissions: {missed}list copyrators.flant.com in all namespaces" in said
    finally:
        fresh = {key: binding["metadata"][key] for key in ("name", "labels")}
        stage.api.create(bindings, {**binding, "metadata": fresh})
    until(lambda: granted in stage.types("doctor", code=None), "the right is back")
