"""Values of the chart that bound what rules may do, each from the chart to a refusal.

The operator gets the variables and rights that the rendered chart has.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.bundles.conftest import stays
from tests.e2e.copies.conftest import User, copying
from tests.e2e.installation import installed
from tests.e2e.operator_process import until
from tests.kubeconfigs import kubeconfig_data

from localcluster import Cluster

pytestmark = pytest.mark.promise

LOG = {"COPYRATOR_LOG_FORMAT": "console"}
GROUP = "rbac.authorization.k8s.io"


def test_only_the_named_rule_of_the_named_namespace_is_served(
    cluster: Cluster, user: User, namespace: Callable[..., str], word: str, tmp_path: Path
) -> None:
    """`rules.namespace` and `rules.name`."""
    home, source, target = (namespace(f"{word}-{name}") for name in ("home", "source", "target"))
    values = {"rules.namespace": home, "rules.name": "main"}
    user.create("configmaps", source, "app", data={"a": "b"})
    log = tmp_path / "operator.log"
    with installed(cluster, log, LOG, values=values, as_rendered=True) as operator:
        operator.start()

        def rule(place: str, name: str, copy: str) -> None:
            user.rule(place, name, copying(source, "app", target, transform={"name": copy}))

        rule(home, "other", "of-another-name")
        rule(operator.namespace, "main", "of-another-namespace")
        rule(home, "main", "copied")

        user.wait_data("configmaps", target, "copied", {"a": "b"})
        stays(3, lambda: user.names("configmaps", target) == ["copied"])
        for place, name in ((home, "other"), (operator.namespace, "main")):
            found = user.get("copyrators", place, name) or {}
            assert "finalizers" not in found["metadata"]
            assert "Synced" not in json.dumps(found.get("status", {}))
        user.delete("copyrators", home, "main")
        user.wait_gone("copyrators", home, "main")


@pytest.mark.refused("list deployments", "list statefulsets", "list daemonsets")
def test_only_named_roles_are_bound_and_no_more_clusters_and_consumers_read_than_allowed(
    cluster: Cluster, user: User, namespace: Callable[..., str], word: str, tmp_path: Path
) -> None:
    """`rules.bindClusterRoles`, `rules.maxRemotes` and `rules.consumers`."""
    source, target = namespace(f"{word}-source"), namespace(f"{word}-target")
    targets = [target, namespace(f"{word}-further")]
    values = {
        "rules.kinds": ["ConfigMap", f"RoleBinding.{GROUP}"],
        "rules.bindClusterRoles": ["view"],
        "rules.maxRemotes": 1,
        "rules.consumers": False,
        "bundles.health.enabled": False,  # which would give the same right
    }
    for role in ("view", "edit"):
        ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
        subjects = [{"apiGroup": GROUP, "kind": "User", "name": "ann"}]
        user.create("rolebindings", source, role, roleRef=ref, subjects=subjects)
    log = tmp_path / "operator.log"
    with installed(cluster, log, LOG, values=values, as_rendered=True) as operator:
        operator.start()
        home = operator.namespace

        def said(name: str) -> str:
            return json.dumps((user.get("copyrators", home, name) or {}).get("status"))

        for role in ("view", "edit"):
            user.rule(home, role, copying(source, role, target, kind="RoleBinding"))
        until(lambda: user.get("rolebindings", target, "view"), "what may be bound is copied")
        missing = 'needs rules.bindClusterRoles=[edit] (chart), which grants the verb \\"bind\\"'
        until(lambda: missing in said("edit"), lambda: said("edit"))
        assert user.get("rolebindings", target, "edit") is None

        remotes = ("first", "second")
        for name in remotes:
            user.create("secrets", home, name, data=kubeconfig_data(token=f"token-{name}"))
            spec: dict[str, Any] = copying(source, "app", target)
            spec["source"]["kubeConfig"] = {"secretName": name}
            user.rule(home, name, spec)
        until(lambda: any("--max-remotes" in said(name) for name in remotes), "one is refused")
        until(lambda: all("SourceUnreachable" in said(name) for name in remotes), "both are judged")
        (refused,) = (name for name in remotes if "--max-remotes" in said(name))
        assert "other.example.com" not in said(refused)

        user.create("configmaps", source, "app", data={"text": "old"})
        rollout = {"steps": ["1", "100%"], "health": True}
        user.rule(home, "staged", copying(source, "app", *targets, rollout=rollout))
        for place in targets:
            user.wait_data("configmaps", place, "app", {"text": "old"})
        user.wait_ready(home, "staged")
        user.patch("configmaps", source, "app", data={"text": "new"})
        until(lambda: "set rules.consumers in the chart" in said("staged"), lambda: said("staged"))
        held = [{"text": "old"}] * len(targets)
        stays(3, lambda: [user.data("configmaps", one, "app") for one in targets] == held)
