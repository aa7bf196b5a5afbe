"""A release in another namespace needs that namespace's consent, on a real control plane."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.bundles.conftest import NOWHERE, Team, make_team, stays
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until

from localcluster import Api, Cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TRACKED = "batch.kubernetes.io/job-tracking"


@pytest.fixture
def author(
    operator: Operator, cluster: Cluster, api: Api, namespace: Callable[..., str], tmp_path: Path
) -> Team:
    """Somebody with a namespace of their own, and no rights in others."""
    return make_team(cluster, api, namespace("evil"), tmp_path / "evil")


def let(author: Team, namespace: str, *verbs: str) -> None:
    """Let the author's account do this with Secrets in a namespace, and anything with the rest."""
    name, home = author.namespace, f"{RBAC}/namespaces/{namespace}"
    rules = [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": list(verbs)},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},  # werf 3's dismiss
        {
            "apiGroups": ["", "coordination.k8s.io"],
            "resources": ["configmaps", "events", "pods", "pods/log", "leases"],
            "verbs": ["*"],
        },
    ]
    roles = [one["metadata"]["name"] for one in author.api.get(f"{home}/roles")["items"]]
    if name in roles:
        author.api.patch(f"{home}/roles/{name}", {"rules": rules})
        return
    author.api.create(f"{home}/roles", {"metadata": {"name": name}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    account = {"kind": "ServiceAccount", "name": "werf", "namespace": author.namespace}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [account]}
    author.api.create(f"{home}/rolebindings", binding)


def test_a_release_elsewhere_is_deployed_with_consent_only_and_uninstalled_without(
    author: Team, team: Team
) -> None:
    author.publish("1.0.0", "first")
    author.bundle("shop", project_namespace=team.namespace)
    message = author.wait_reason("shop", "ReleaseNotAccepted")["message"]
    assert f"{author.namespace}/werf may not create Secrets there" in message
    assert f"accept-from={author.namespace}" in message
    assert author.jobs("shop") == []

    let(author, team.namespace, "*")
    team.accept(f"others-*,{author.namespace}")
    author.wait_reason("shop", "Deployed")
    assert (team.release("shop") or {})["text"] == "first"
    assert author.status("shop")["consent"]["by"] == "Annotation"

    let(author, team.namespace, "get", "list", "watch", "update", "patch", "delete")
    team.accept(None)
    author.wait_reason("shop", "ReleaseNotAccepted")
    author.publish("1.0.0", "second")
    stays(6, lambda: len(author.jobs("shop")) == 1, "three polls later nothing was deployed")
    assert (team.release("shop") or {})["text"] == "first"
    author.delete("bundles", "shop")
    author.wait_gone("bundles", "shop")
    assert team.release("shop") is None


def test_an_author_elsewhere_with_a_faked_outcome_keeps_no_namespace_from_its_own_release(
    author: Team, team: Team
) -> None:
    """A pod with a Job's label, owner and finalizer is that Job's: its author says how it went."""
    author.publish("1.0.0", "theirs")
    team.accept(author.namespace)
    author.bundle("shop", project_namespace=team.namespace, job=NOWHERE, retry={"limit": 0})
    fake_success(author, author.first_job())
    author.wait_reason("shop", "Deployed")
    digest = team.publish("1.0.0", "ours")
    team.bundle("shop")
    team.wait_reason("shop", "ReleaseConflict")

    team.accept(None)
    team.wait_deployed("shop", digest)
    message = author.wait_reason("shop", "ReleaseNotAccepted")["message"]
    assert f"Bundle {team.namespace}/shop" in message
    assert (team.release("shop") or {})["text"] == "ours"

    def reasons() -> list[str]:
        return [one["reason"] for one in team.api.get(team.path("events"))["items"]]

    until(lambda: "ReleaseTakenOver" in reasons(), lambda: str(reasons()))

    author.delete("bundles", "shop")
    author.wait_gone("bundles", "shop")
    assert (team.release("shop") or {})["text"] == "ours"
    assert author.jobs("shop", "uninstall") == []


def fake_success(author: Team, name: str) -> None:
    """Make a pod that the Job counts as its own, and let it have succeeded."""
    job = author.get("jobs", name) or {}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "labels": job["spec"]["template"]["metadata"]["labels"],
        "ownerReferences": [owner],
        "finalizers": [TRACKED],
    }
    container = {"name": "werf", "image": "anything"}
    author.create("pods", "faked", metadata=metadata, spec={**NOWHERE, "containers": [container]})
    ended: dict[str, Any] = {"exitCode": 0, "message": json.dumps({"status": "deployed"})}
    status = {
        "phase": "Succeeded",
        "containerStatuses": [
            {
                "name": "werf",
                "image": "anything",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": ended},
            }
        ],
    }
    author.api.patch(f"{author.path('pods', 'faked')}/status", {"status": status})
    until(
        lambda: any(
            one["type"] == "Complete"
            for one in (author.get("jobs", name) or {}).get("status", {}).get("conditions", [])
        ),
        lambda: f"the Job counts the faked pod: {json.dumps(author.get('jobs', name))}",
    )
