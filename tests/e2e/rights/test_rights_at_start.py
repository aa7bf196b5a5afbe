"""Rights that only a start needs, or an installation with few, are taken away in turn, too."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Team
from tests.e2e.copies.conftest import User, encoded
from tests.e2e.installation import install, rendered, uninstall
from tests.e2e.marks_policy.test_copies import MARK
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.rights import bundle_cases, rule_cases, watch_cases
from tests.e2e.rights.conftest import VALUES, settings
from tests.e2e.rights.roles import Roles, rights_of_chart
from tests.long import LONG

from localcluster import Api, Cluster

NARROW = {"rules.kinds": ["LimitRange"], "bundles.allowedSecrets": ["creds"]}
"""Rules copy no Secrets, and Bundles may name one."""
NOBODY = "127.0.0.1:1"
"""A registry that can't be reached."""
LEASES = tuple(f"{verb} leases.coordination.k8s.io" for verb in ("get", "create", "update"))
PLANS = {
    "deletecollection secrets",
    "create subjectaccessreviews.authorization.k8s.io",
    "create localsubjectaccessreviews.authorization.k8s.io",
}
"""Only plans, and releases in other namespaces, ask for them; the reviews are taken away in
tests/e2e/bundles/features/approval/test_permissions.py and test_release_consent.py."""
HEALTH = {
    f"{verb} {plural}.apps"
    for verb in ("list", "watch")
    for plural in ("deployments", "statefulsets", "daemonsets")
}
"""Only Bundles with spec.health: taken away in tests/e2e/bundles/features/health/test_health.py."""
AT_START = (
    *LEASES,
    "get customresourcedefinitions.apiextensions.k8s.io",
    "get events",
    "patch events",
)


@dataclass
class Place:
    """A namespace with the chart's rights and without an operator."""

    user: User
    name: str
    team: Team
    roles: Roles
    start: Callable[[], AbstractContextManager[OperatorProcess]]
    """An operator, for the length of a block."""

    def rule(self, name: str, **spec: Any) -> None:
        self.user.create("limitranges", self.name, name, spec={"limits": []})
        source = {"kind": "LimitRange", "name": name}
        self.user.rule(
            self.name, name, {"source": source, "targets": {"namespaces": ["nowhere-*"]}, **spec}
        )

    def events(self, reason: str) -> list[dict[str, Any]]:
        items = self.user.api.get(f"/api/v1/namespaces/{self.name}/events")["items"]
        return [event for event in items if event["reason"] == reason]


@contextmanager
def place(cluster: Cluster, api: Api, folder: Path, values: dict[str, Any]) -> Iterator[Place]:
    name = f"op-{secrets.token_hex(3)}"
    chart = rendered(cluster, name, values)
    kubeconfig = install(cluster, name, chart)

    @contextmanager
    def start() -> Iterator[OperatorProcess]:
        log = folder / f"{secrets.token_hex(3)}.log"
        with OperatorProcess(kubeconfig, log, settings=settings(chart)) as operator:
            yield operator
            assert operator.stop() == 0
        assert "Traceback" not in log.read_text()

    team = Team(api, cluster, name, folder)
    yield Place(User(api), name, team, Roles(api, chart, name), start)
    uninstall(cluster, name)


@pytest.fixture
def wide(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Place]:
    with place(cluster, api, tmp_path, VALUES) as made:
        yield made


@pytest.fixture
def narrow(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Place]:
    with place(cluster, api, tmp_path, NARROW) as made:
        yield made


def test_every_right_of_the_chart_is_taken_away_by_some_test(cluster: Cluster):
    def rights(values: dict[str, Any]) -> set[str]:
        return rights_of_chart(rendered(cluster, "x", values))

    tested = {*rule_cases.OF_KINDS, *watch_cases.OF_KINDS, *AT_START, MARK}
    for cases in (rule_cases.OTHERS, watch_cases.OTHERS, bundle_cases.CASES):
        tested |= cases.keys()
    assert rights(VALUES) - PLANS - HEALTH == tested
    assert rights(NARROW) - PLANS - HEALTH <= tested


@pytest.mark.refused("get customresourcedefinitions")
def test_crds_that_may_not_be_read_are_judged_by_discovery(wide: Place):
    right = "get customresourcedefinitions.apiextensions.k8s.io"
    with wide.roles.without(right), wide.start() as operator:
        operator.wait_says(right)
        wide.rule("works")
        wide.user.wait_ready(wide.name, "works")


@pytest.mark.refused("list copyrators", "list bundles")
@pytest.mark.parametrize("half", ["rules", "bundles"])
def test_a_half_that_may_not_be_listed_at_the_start_holds_the_other_one_up_no_more(
    wide: Place, half: str
):
    wide.rule("works")
    wide.team.bundle("works", registry=NOBODY)

    def works(name: str) -> None:
        if name == "rules":
            wide.user.wait_ready(wide.name, "works")
        else:
            wide.team.wait_reason("works", "RegistryUnreachable")

    resource = {"rules": "copyrators.flant.com", "bundles": "bundles.operator.werf.dev"}[half]
    other = {"rules": "bundles", "bundles": "rules"}[half]
    with ExitStack() as running:
        with wide.roles.without(f"list {resource}"):
            operator = running.enter_context(wide.start())
            operator.wait_says(f"list {resource}")
            works(other)
        works(half)
        operator.wait_ready()


@pytest.mark.refused("* leases")
@pytest.mark.parametrize("right", LEASES if LONG else LEASES[-1:])
def test_without_its_lease_it_works_no_longer_than_the_last_one_lasts(wide: Place, right: str):
    with ExitStack() as running:
        with wide.roles.without(right):
            operator = running.enter_context(wide.start())
            operator.wait_says(right)
            if right == LEASES[-1]:  # the first one it could make
                until(lambda: "Leadership suspended" in operator.log, operator.log)
            wide.rule("waits")
            assert not wide.user.condition(wide.name, "waits")
        wide.user.wait_ready(wide.name, "waits")
        operator.wait_ready()


@pytest.mark.skipif(not LONG, reason="COPYRATOR_LONG=1 takes these rights away, too")
@pytest.mark.refused("get events", "patch events")
@pytest.mark.parametrize("right", ["get events", "patch events"])
def test_events_of_an_earlier_run_are_counted_up(wide: Place, right: str):
    wide.rule("told")
    with wide.start():
        wide.user.wait_ready(wide.name, "told")
        wide.user.patch("copyrators", wide.name, "told", spec={"suspend": True})
        until(lambda: wide.events("Suspended"), "an Event")
        wide.user.patch("copyrators", wide.name, "told", spec={"suspend": False})
        wide.user.wait_ready(wide.name, "told")
    with wide.start() as operator:
        operator.wait_ready()
        with wide.roles.without(right):
            wide.user.patch("copyrators", wide.name, "told", spec={"suspend": True})
            operator.wait_says(right)
            wide.user.wait_reason(wide.name, "told", "Suspended")
        operator.wait_ready()


@pytest.mark.skipif(not LONG, reason="COPYRATOR_LONG=1 takes these rights away, too")
@pytest.mark.refused("get secrets", "create secrets")
@pytest.mark.parametrize("right", ["get secrets", "create secrets"])
def test_without_its_hash_key_nothing_starts(narrow: Place, right: str):
    with ExitStack() as running:
        with narrow.roles.without(right):
            operator = running.enter_context(narrow.start())
            operator.wait_says(right)
            operator.wait_says("copyrator-hash-key")
        operator.wait_ready()


@pytest.mark.refused("* secrets")
@pytest.mark.parametrize("verb", ["get", *(("list", "watch") if LONG else ())])
def test_a_secret_that_bundles_may_name_is_read_by_name(narrow: Place, verb: str):
    right = f"{verb} secrets"
    narrow.user.create("secrets", narrow.name, "creds", data=encoded(username="a", password="b"))
    with narrow.start() as operator:
        operator.wait_ready()
        with narrow.roles.without(right):
            narrow.team.bundle("private", registry=NOBODY, auth="creds")
            operator.wait_says(right)
            if verb == "get":
                narrow.team.wait_reason("private", "Forbidden", says="secrets")
        narrow.team.wait_reason("private", "RegistryUnreachable")
        operator.wait_ready()
        narrow.team.bundle("other", registry=NOBODY, auth="unlisted")
        narrow.team.wait_reason("other", "InvalidSpec", says="allowedSecrets")
