"""`werf bundle plan`: what it asks the API server for, with which rights, and what it writes."""

from collections.abc import Callable

import pytest
from bench.plans import MOST, RELEASES, measure
from tests.e2e import rbac
from tests.e2e.standin.conftest import CONFIG_MAP, Charts, Werf
from tests.long import LONG

from localcluster import Api, Cluster
from localcluster.audit import AuditEvent

USER = "system:serviceaccount:{}:planner"
As = Callable[..., str]


@pytest.fixture
def planner(werf: Werf, cluster: Cluster, api: Api) -> As:
    """Makes a service account with rights on resources; its kubeconfig."""

    def make(**rights: list[str]) -> str:
        rules = [rbac.rule(" ".join(verbs), resource) for resource, verbs in rights.items()]
        accounts = f"/api/v1/namespaces/{werf.namespace}/serviceaccounts"
        api.create(accounts, {"metadata": {"name": "planner"}})
        subject = rbac.account(werf.namespace, "planner")
        rbac.grant(api, subject, *rules, namespace=werf.namespace)
        return str(cluster.kubeconfig_for_service_account(werf.namespace, "planner"))

    return make


def pushed(charts: Charts) -> None:
    """A chart with three objects."""
    others = {name: CONFIG_MAP.replace("-cm", f"-{name}") for name in ("one", "two")}
    charts.push(**others)


def is_dry(event: AuditEvent) -> bool:
    return "dryRun=All" in event.uri


def test_a_plan_reads_each_object_and_applies_it_dry(
    werf: Werf, charts: Charts, planner: As, cluster: Cluster
) -> None:
    pushed(charts)
    werf.apply()
    config = planner(configmaps=["get", "patch"], secrets=["list"])
    requests = cluster.requests()

    plan = werf.plan(WERF_KUBE_CONFIG=config)

    assert plan.code == 0, plan.output
    user = USER.format(werf.namespace)
    asked = [event for event in requests.all(user=user) if event.resource]
    assert sorted((event.verb, event.resource, event.name) for event in asked) == [
        *(("get", "configmaps", f"demo-{name}") for name in ("cm", "one", "two")),
        ("list", "secrets", ""),
        *(("patch", "configmaps", f"demo-{name}") for name in ("cm", "one", "two")),
    ]
    writes = requests.writes(user=user)
    assert all(is_dry(event) and "fieldManager=helm" in event.uri for event in writes)
    discovery = [event.uri for event in requests.all(user=user) if not event.resource]
    found = {uri.partition("?")[0] for uri in discovery}
    assert found & {"/api/v1", "/api"}, "each group's kinds, or as 3.2.0 all in one answer"


OBJECTS = 500 if LONG else 50


def test_no_job_makes_more_than_three_times_the_requests_of_werfs_command_alone(
    cluster: Cluster, namespace: Callable[..., str]
) -> None:
    found = measure(cluster, [namespace(f"budget-{one}") for one in range(RELEASES)], OBJECTS)

    ratios = {name: figure for name, figure in found.items() if name.endswith("_ratio")}
    assert found["plan_alone"] >= OBJECTS
    assert all(1.0 <= ratio <= MOST for ratio in ratios.values()), found
