"""Without the chart's permission to watch releases their health is Unknown, until it is granted."""

import time
from collections.abc import Iterator

import pytest
from tests.e2e.bundles.conftest import Operator, Team, operating
from tests.e2e.bundles.test_health import wait_health
from tests.long import long_form

from localcluster import Cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with operating(cluster, log, values={"bundles.health.enabled": False}) as operator:
        yield operator


@long_form(
    "tests/component/bundles/test_health.py::test_what_may_not_be_watched_is_said_and_watched_once_it_is_granted"
)
def test_what_may_not_be_watched_is_said_and_watched_once_it_is_granted(
    operator: Operator, team: Team
):
    digest = team.publish("1.0.0", "good")
    since = team.cluster.audit_offset()
    team.bundle("shop", health="Watch")
    team.wait_deployed("shop", digest)
    text = wait_health(team, "shop", "Unknown", "Forbidden")
    assert f"the operator cannot list deployments.apps in {team.namespace}: set" in text
    assert "bundles.health.enabled" in text
    assert operator.process is not None
    operator.process.wait_ready()
    refused = [
        one for one in team.cluster.audit_events(since)
        if one.user == operator.user and one.denied
    ]  # fmt: skip
    assert refused == [], "it asks whether it may, and doesn't try"

    rule = {
        "apiGroups": ["apps"],
        "resources": ["deployments", "statefulsets", "daemonsets"],
        "verbs": ["list", "watch"],
    }
    roles = f"{RBAC}/namespaces/{team.namespace}"
    team.api.create(f"{roles}/roles", {"metadata": {"name": "health"}, "rules": [rule]})
    _, _, namespace, account = operator.user.split(":")
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "health"}
    binding = {"metadata": {"name": "health"}, "roleRef": ref, "subjects": [subject]}
    team.api.create(f"{roles}/rolebindings", binding)
    granted = time.monotonic()
    wait_health(team, "shop", "True", "Healthy")
    assert time.monotonic() - granted < 60
