"""A Bundle with a plan, on a cluster without an operator, and users with rights of their own."""

import secrets
from dataclasses import replace

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.cli.conftest import Stage
from tests.e2e.cli.plans.planned import Planned
from tests.e2e.installation import install, uninstall
from tests.e2e.vanishing import vanish

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"


@pytest.fixture(scope="module")
def desk(cluster):
    """A cluster with our CRDs and no operator."""
    home = f"home-{secrets.token_hex(3)}"
    install(cluster, home)
    yield Stage(cluster, cluster.api(), home, home, None, cluster.environment()["KUBECONFIG"])
    uninstall(cluster, home)


@pytest.fixture(scope="module")
def shared(desk, module_namespace, tmp_path_factory):
    """A Bundle with a plan, for tests that only look."""
    team = make_team(desk.cluster, desk.api, module_namespace, tmp_path_factory.mktemp("charts"))
    planned = Planned(desk, team)
    planned.make()
    return planned


@pytest.fixture(scope="module")
def module_namespace(desk):
    name = f"plans-{secrets.token_hex(3)}"
    desk.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    vanish(desk.cluster, [name])


@pytest.fixture
def planned(shared):
    """The same, with its plan waiting again."""
    path = shared.team.path("bundles", "shop")
    shared.team.api.patch(
        path, {"metadata": {"annotations": None}, "spec": {"approval": {"mode": "Always"}}}
    )
    shared.write_status(None, waits=True, history=None, attempted=None, lastHandledPlan=None)
    shared.write_status(shared.plan(), waits=True)
    return shared


@pytest.fixture
def user(planned, word):
    """Makes a user with rules of the Bundle's namespace."""
    made = []

    def make(*rules):
        base = RBAC.format(planned.team.namespace)
        planned.team.api.create(f"{base}/roles", {"metadata": {"name": word}, "rules": rules})
        made.append(f"{base}/roles/{word}")
        body = {
            "metadata": {"name": word},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": word},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-{word}"}
            ],
        }
        planned.team.api.create(f"{base}/rolebindings", body)
        made.append(f"{base}/rolebindings/{word}")
        config = planned.stage.cluster.kubeconfig_for_user(f"user-{word}", [])
        return replace(planned, stage=replace(planned.stage, admin=config))

    yield make
    for path in made:
        planned.team.api.delete(path)
