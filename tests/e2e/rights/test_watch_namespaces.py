"""An operator of some namespaces: Roles in these, no ClusterRole, and nothing asked elsewhere."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.bundles.features.freeze.test_freeze import Terminal, waits
from tests.e2e.copies.conftest import User, encoded
from tests.e2e.installation import apply, install
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.rights.conftest import settings
from tests.e2e.vanishing import vanish

from demo.chart import render
from localcluster import Api, Cluster, Requests


@dataclass
class Scoped:
    """The operator, its namespaces (home, one, two) and one that is none of its business."""

    cluster: Cluster
    user: User
    operator: OperatorProcess
    account: str
    home: str
    one: str
    two: str
    outside: str
    requests: Requests


@pytest.fixture(scope="module")
def scoped(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scoped]:
    log = tmp_path_factory.mktemp("scoped") / "operator.log"
    places = [f"{role}-{secrets.token_hex(3)}" for role in ("home", "one", "two", "outside")]
    for name in places:
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    home, one, two, _ = places
    often = {"bundles.timerInterval": 3, "bundles.timerIdle": 1}
    values = {"watchNamespaces": [home, one, two], **often}
    rendered = render(cluster.helm, namespace=home, values=values)
    rendered.deployment["spec"]["replicas"] = 0
    assert "ClusterRole" not in {role["kind"] for role in rendered.rights}
    user = User(api)
    account = f"system:serviceaccount:{home}:{rendered.service_account}"
    kubeconfig = install(cluster, home, rendered)
    apply(api, [rendered.deployment])
    requests = cluster.requests()
    with OperatorProcess(kubeconfig, log, settings=settings(rendered)) as operator:
        operator.wait_ready()
        yield Scoped(cluster, user, operator, account, *places, requests)
        assert operator.stop() == 0
    assert "Traceback" not in log.read_text()
    vanish(cluster, places)


def test_it_copies_between_its_namespaces(scoped: Scoped):
    scoped.user.create("secrets", scoped.one, "creds", data=encoded(key="value"))
    source = {"kind": "Secret", "namespace": scoped.one, "name": "creds"}
    scoped.user.rule(scoped.home, "creds", {"source": source})
    scoped.user.wait_ready(scoped.home, "creds")
    for target in (scoped.home, scoped.two):
        assert scoped.user.data("secrets", target, "creds") == encoded(key="value")
    scoped.user.patch("secrets", scoped.one, "creds", data=encoded(key="new"))
    scoped.user.wait_data("secrets", scoped.two, "creds", encoded(key="new"))
    scoped.user.delete("secrets", scoped.two, "creds")
    scoped.user.wait_data("secrets", scoped.two, "creds", encoded(key="new"))
    assert scoped.user.get("secrets", scoped.outside, "creds") is None


def test_a_label_that_a_namespace_gets_counts(scoped: Scoped):
    scoped.user.create("configmaps", scoped.one, "labelled", data={"key": "value"})
    spec = {
        "source": {"kind": "ConfigMap", "namespace": scoped.one, "name": "labelled"},
        "targets": {"selector": {"matchLabels": {"tier": "gold"}}},
    }
    scoped.user.rule(scoped.home, "labelled", spec)
    scoped.user.wait_ready(scoped.home, "labelled")
    labels = {"metadata": {"labels": {"tier": "gold"}}}
    scoped.user.api.patch(f"/api/v1/namespaces/{scoped.two}", labels)
    scoped.user.wait_data("configmaps", scoped.two, "labelled", {"key": "value"})


def test_a_source_elsewhere_is_refused_without_a_look(scoped: Scoped):
    scoped.user.create("secrets", scoped.outside, "theirs", data=encoded(key="value"))
    source = {"kind": "Secret", "namespace": scoped.outside, "name": "theirs"}
    scoped.user.rule(scoped.home, "theirs", {"source": source})
    condition = scoped.user.wait_reason(scoped.home, "theirs", "InvalidSpec")
    assert scoped.outside in condition["message"]
    assert "--watch-namespaces" in condition["message"]
    assert scoped.user.get("secrets", scoped.two, "theirs") is None


def test_it_deploys_and_uninstalls_in_its_namespaces(scoped: Scoped, tmp_path):
    team = make_team(scoped.cluster, scoped.user.api, scoped.one, tmp_path)
    others = Team(scoped.user.api, scoped.cluster, scoped.outside, tmp_path)
    digest = team.publish("1.0.0", "first")
    others.bundle("app", repo=team.repo)
    team.bundle("app")
    team.wait_deployed("app", digest)
    assert team.release("app")
    untouched = others.get("bundles", "app") or {}
    assert "status" not in untouched
    assert "finalizers" not in untouched["metadata"]
    team.delete("bundles", "app")
    team.wait_gone("configmaps", "app-app")


def test_freezes_are_obeyed_with_roles_alone(scoped: Scoped, tmp_path):
    """It reads those of the namespaces that it serves, and watches no others."""
    team = make_team(scoped.cluster, scoped.user.api, scoped.two, tmp_path)
    terminal = Terminal(scoped.cluster, scoped.home)
    digest = team.publish("1.0.0", "first")
    terminal.types(f"freeze -n {scoped.two}", reason="inventory")
    until(lambda: f"namespace {scoped.two} is frozen" in scoped.operator.log, "it is noticed")
    team.bundle("shop")
    assert "inventory" in waits(team)["message"]
    assert "inventory" in terminal.types(f"why shop --kind bundle -n {scoped.two}")
    terminal.types("freeze --all", reason="incident")
    terminal.types(f"thaw -n {scoped.two}")
    until(lambda: "all namespaces are frozen" in waits(team)["message"], "the other freeze")
    said = terminal.types("freeze -n default", code=1, reason="not ours")
    assert "serves only the namespaces" in said
    assert scoped.two in said
    assert team.jobs("shop") == []
    terminal.types("thaw --all")
    team.wait_deployed("shop", digest)


def test_nothing_is_asked_outside_nor_cluster_wide_nor_in_vain(scoped: Scoped):
    scoped.operator.wait_ready()
    ours = {scoped.home, scoped.one, scoped.two}
    events = scoped.requests.all(user=scoped.account)
    assert {event.namespace for event in events if event.namespace} == ours
    clusterwide = [event for event in events if not event.namespace]
    assert {event.resource for event in clusterwide} == {""}, "discovery, which is open to all"
    assert [event for event in events if event.denied] == []


@pytest.mark.refused("*")
def test_a_namespace_that_is_gone_is_named_and_holds_up_nobody(scoped: Scoped):
    scoped.user.api.delete(f"/api/v1/namespaces/{scoped.two}")
    scoped.operator.wait_says(f"get namespaces in {scoped.two}")
    scoped.user.patch("secrets", scoped.one, "creds", data=encoded(key="later"))
    scoped.user.wait_data("secrets", scoped.home, "creds", encoded(key="later"))
    scoped.user.wait_ready(scoped.home, "creds")
