"""A Bundle with a plan, on a cluster without an operator, and users with rights of their own."""

import secrets
from dataclasses import replace

import pytest
from tests.e2e.bundles.conftest import make_team
from tests.e2e.cli.conftest import Stage
from tests.e2e.cli.plans.planned import Planned
from tests.e2e.installation import install, uninstall
from tests.e2e.vanishing import vanish


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

    def make(*rules):
        planned.stage.grant(f"user-{word}", *rules, namespace=planned.team.namespace)
        return replace(planned, stage=planned.stage.as_user(f"user-{word}"))

    return make
