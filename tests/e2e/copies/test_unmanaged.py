"""Objects that others made, where copies should stand, on a real API server with its defaults."""

import pytest

from copyrator.api import names

RBAC = "rbac.authorization.k8s.io/v1"
EVERY = "{{ namespace.name }}"


def template(api_version, kind, name, **payload):
    metadata = {"name": name, "labels": {"made-by": "template"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **payload}


CASES = {
    "rolebindings": template(
        RBAC,
        "RoleBinding",
        f"kubernetes-{EVERY}",
        roleRef={"kind": "ClusterRole", "name": "edit"},
        subjects=[
            {"kind": "Group", "name": f"kubernetes-{EVERY}"},
            {"kind": "ServiceAccount", "name": "ci", "namespace": "default"},
        ],
    ),
    "networkpolicies": template(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        "fence",
        spec={
            "ingress": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": 443}]}],
            "egress": [],
        },
    ),
    "resourcequotas": template(
        "v1", "ResourceQuota", "quota", spec={"hard": {"pods": 4, "requests.cpu": "2000m"}}
    ),
    "limitranges": template(
        "v1",
        "LimitRange",
        "limits",
        spec={
            "limits": [
                {"type": "Container", "max": {"cpu": 2}, "min": {"memory": "1024Ki"}},
                {"type": "Pod", "max": {"memory": "1024Mi"}},
            ]
        },
    ),
    "roles": template(
        RBAC,
        "Role",
        "reader",
        rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    ),
    "serviceaccounts": template("v1", "ServiceAccount", "ci", imagePullSecrets=[{"name": "pull"}]),
    "secrets": template("v1", "Secret", "creds", stringData={"user": EVERY}),
    "configmaps": template("v1", "ConfigMap", "settings", data={"home": EVERY}),
}
"""One of each kind, with no field that the API server fills in by itself."""


def made(case, namespace):
    """The object as a person applies it."""
    if isinstance(case, dict):
        return {key: made(value, namespace) for key, value in case.items()}
    if isinstance(case, list):
        return [made(item, namespace) for item in case]
    return case.replace(EVERY, namespace) if isinstance(case, str) else case


@pytest.mark.parametrize("plural", CASES)
def test_what_a_person_applied_from_the_rules_own_template_is_right_and_stays_theirs(
    wide, user, namespace, word, plural
):
    target = namespace(f"{word}-t")
    body = made(CASES[plural], target)
    name = body["metadata"]["name"]
    user.api.create(user.path(plural, target), body)
    before = user.get(plural, target, name)
    spec = {"template": CASES[plural], "targets": {"namespaces": [target]}}
    user.rule(wide.namespace, word, spec)
    status = user.wait_ready(wide.namespace, word)
    assert status["copies"]["satisfied"] == status["copies"]["ready"] == 1, status
    assert user.condition(wide.namespace, word)["reason"] == "Satisfied"
    after = user.get(plural, target, name)
    after.pop("status", None), before.pop("status", None)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"] == {"made-by": "template"}
    assert names.FIELD_MANAGER not in {f["manager"] for f in after["metadata"]["managedFields"]}
    # It isn't ours to delete; and when it goes, ours takes its place.
    user.delete(plural, target, name)
    user.wait_reason(wide.namespace, word, "Synced")
    assert user.names(plural, target) == [name]
