"""`werf bundle plan`: what it asks the API server for, with which rights, and what it writes."""

import subprocess
from collections.abc import Callable

import pytest
from bench.plans import MOST, RELEASES, measure
from tests.e2e import rbac
from tests.e2e.standin.conftest import CHANGES_PLANNED, CONFIG_MAP, Charts, Werf, detail
from tests.long import LONG

from localcluster import Api, Cluster
from localcluster.audit import AuditEvent

USER = "system:serviceaccount:{}:planner"
As = Callable[..., str]
BUILD = "build resource infos: wait for resource pool: build installable resource info"
READING = {"configmaps": ["get", "list", "watch"], "secrets": ["get", "list"]}


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


@detail
def test_an_account_that_may_only_read_gets_blind_applies(
    werf: Werf, charts: Charts, planner: As
) -> None:
    pushed(charts)
    werf.apply()

    plan = werf.plan(WERF_KUBE_CONFIG=planner(**READING))

    assert (plan.code, plan.last) == (2, CHANGES_PLANNED[werf.version])
    names = ("demo-cm", "demo-one", "demo-two")
    assert plan.operations == {f"apply ::ConfigMap:{name}" for name in names}
    for name in names:
        assert f"Blind apply ConfigMap/{name}\n" in plan.output
    forbidden = (
        f'is forbidden: User "{USER.format(werf.namespace)}" cannot patch resource "configmaps" '
        f'in API group "" in the namespace "{werf.namespace}"'
    )
    assert plan.output.count(forbidden) == 3
    assert "- blind apply: 3 resources\n" in plan.output


@detail
def test_creating_is_planned_without_the_right_to(
    werf: Werf, charts: Charts, planner: As, cluster: Cluster
) -> None:
    charts.push()
    requests = cluster.requests()

    plan = werf.plan(WERF_KUBE_CONFIG=planner(**READING))

    assert (plan.code, plan.operations) == (2, {"create ::ConfigMap:demo-cm"})
    assert requests.writes(user=USER.format(werf.namespace)) == []


@detail
@pytest.mark.parametrize(
    ("rights", "words"),
    [
        ({"secrets": ["list"]}, f'{BUILD}: get resource "ConfigMap/demo-cm": '),
        ({"configmaps": ["get"]}, 'build release history: query releases for release "demo": '),
    ],
)
def test_what_may_not_be_read_ends_the_plan(
    werf: Werf, charts: Charts, planner: As, rights: dict[str, list[str]], words: str
) -> None:
    charts.push()

    plan = werf.plan(WERF_KUBE_CONFIG=planner(**rights))

    assert (plan.code, plan.graph) == (1, "")
    assert plan.last.startswith(f"Error: release plan install: {words}")
    assert " is forbidden: User " in plan.last


@detail
def test_a_plan_takes_over_what_kubectl_edit_wrote(
    werf: Werf, charts: Charts, cluster: Cluster
) -> None:
    charts.push()
    werf.apply()
    edit = [cluster.bin_dir / "kubectl", "edit", "configmap", "demo-cm", "-n", werf.namespace]
    env = {**werf.env, **cluster.environment(), "KUBE_EDITOR": "sed -i s/hello/edited/"}
    subprocess.run(edit, env=env, check=True, capture_output=True)
    requests = cluster.requests()

    plans = [werf.plan(), werf.plan()]

    assert [plan.operations for plan in plans] == [{"update ::ConfigMap:demo-cm"}] * 2
    writes = [
        event for event in requests.writes(namespace=werf.namespace) if event.name == "demo-cm"
    ]
    assert [event.verb for event in writes] == ["patch"] * 3
    assert [is_dry(event) for event in writes] == [False, True, True]
    live = werf.object("demo-cm")
    assert live["data"]["greeting"] == "edited"
    managers = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert managers == ["helm"]
    werf.apply()
    assert werf.object("demo-cm")["data"]["greeting"] == "hello"


@detail
def test_a_namespace_that_is_not_there_stays_away(werf: Werf, charts: Charts, api: Api) -> None:
    charts.push()
    missing = f"{werf.namespace}-new"

    plan = werf.plan(WERF_NAMESPACE=missing)

    assert (plan.code, plan.operations) == (2, {"create ::ConfigMap:demo-cm"})
    assert f"create-release/1/0/{missing}:demo:1" in plan.nodes
    spaces = {each["metadata"]["name"] for each in api.get("/api/v1/namespaces")["items"]}
    assert missing not in spaces


HALF_GOOD = f"""{CONFIG_MAP.replace("-cm", "-half")}---
apiVersion: v1
kind: Service
metadata: {{name: zz-bad}}
spec: {{ports: [{{port: 99999999}}]}}
"""


@detail
def test_after_a_failed_deploy_a_plan_counts_on_and_looks_at_the_cluster(
    werf: Werf, charts: Charts
) -> None:
    charts.push()
    werf.apply()
    charts.push("1.1.0", greeting="bye", half=HALF_GOOD)
    operations = {
        "update ::ConfigMap:demo-cm",
        "create ::ConfigMap:demo-half",
        "create ::Service:zz-bad",
    }
    assert werf.plan("1.1.0").operations == operations
    assert werf.run("bundle", "apply", WERF_TAG="1.1.0")[0] == 1
    assert werf.revisions("demo") == {1: "deployed", 2: "failed"}

    plan = werf.plan("1.1.0")

    made = {"demo-half", "demo-cm"} & werf.names()
    release = f"{werf.namespace}:demo"
    assert f"create-release/1/0/{release}:3" in plan.nodes
    assert f"update-release/1/0/{release}:1" in plan.nodes
    assert made == {"demo-cm", "demo-half"}, "helm makes ConfigMaps before Services"
    assert plan.operations == {"create ::Service:zz-bad"}
    assert "track-readiness/1/0/::ConfigMap:demo-half" in plan.nodes

    back = werf.plan()
    assert back.operations == {"update ::ConfigMap:demo-cm", "delete ::ConfigMap:demo-half"}
    werf.apply()
    assert "demo-half" not in werf.names(), "what a failed deploy made goes, as planned"
    assert werf.plan().code == 0


OBJECTS = 500 if LONG else 50


def test_no_job_makes_more_than_three_times_the_requests_of_werfs_command_alone(
    cluster: Cluster, namespace: Callable[..., str]
) -> None:
    found = measure(cluster, [namespace(f"budget-{one}") for one in range(RELEASES)], OBJECTS)

    ratios = {name: figure for name, figure in found.items() if name.endswith("_ratio")}
    assert found["plan_alone"] >= OBJECTS
    assert all(1.0 <= ratio <= MOST for ratio in ratios.values()), found
