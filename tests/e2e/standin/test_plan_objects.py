"""`werf bundle plan` and then `bundle apply`: objects of many kinds."""

import re
from collections.abc import Iterator

import pytest
from tests.e2e.standin.conftest import CONFIG_MAP, Charts, MakeNamespace, Werf, detail

from localcluster import Api

HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: mig
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: ["true"]}]
"""
RANDOM = """
apiVersion: v1
kind: ConfigMap
metadata: {name: random}
data: {value: "{{ randAlphaNum 12 }}"}
"""
ELSEWHERE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: faraway, namespace: NAMESPACE}
data: {a: b}
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.standin.example}
spec:
  group: standin.example
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object}}
"""
ODD_NAME = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: 'say "hi": [x]'}
rules: []
"""


@detail
def test_what_the_chart_has_no_more_is_deleted(werf: Werf, charts: Charts) -> None:
    extra = "  extra: key\n"
    charts.push(cm=CONFIG_MAP + extra, old=CONFIG_MAP.replace("-cm", "-old"))
    werf.apply()
    charts.push()

    plan = werf.plan()

    assert plan.operations == {"delete ::ConfigMap:demo-old", "update ::ConfigMap:demo-cm"}
    assert "delete/1/0/::ConfigMap:demo-old" in plan.nodes
    assert "track-absence/1/0/::ConfigMap:demo-old" in plan.nodes
    assert re.search(
        r"^┌ Delete ConfigMap/demo-old\n(│ - .*\n)+└ Delete", plan.output, re.MULTILINE
    )
    assert "extra" in werf.object("demo-cm")["data"]
    werf.apply()
    assert "extra" not in werf.object("demo-cm")["data"]
    assert "demo-old" not in werf.names()
    assert werf.plan().code == 0


def test_a_hook_is_in_every_plan_and_made_anew_by_every_apply(werf: Werf, charts: Charts) -> None:
    charts.push(hook=HOOK)
    assert werf.plan().operations == {"create ::ConfigMap:demo-cm", "create :batch:Job:mig"}
    werf.apply()

    def job() -> str:
        path = f"/apis/batch/v1/namespaces/{werf.namespace}/jobs/mig"
        return str(werf.api.get(path)["metadata"]["uid"])

    first, plan = job(), werf.plan()

    assert (plan.code, plan.operations) == (2, {"recreate :batch:Job:mig"})
    stage = "noop/1/0/stage/pre-install/weight:0/start"
    assert f'{stage}" -> "recreate/1/0/:batch:Job:mig' in plan.edges
    assert "Recreate Job/mig\n" in plan.output
    werf.apply()
    assert werf.report["completedOperations"] == ["recreate: Job/mig"]
    assert job() != first


@detail
def test_a_random_value_is_in_every_plan(werf: Werf, charts: Charts) -> None:
    charts.push(random=RANDOM)
    werf.apply()

    plans = [werf.plan(), werf.plan()]

    assert [plan.operations for plan in plans] == [{"update ::ConfigMap:random"}] * 2
    assert plans[0].output != plans[1].output


@detail
def test_objects_elsewhere_are_named_with_their_namespace(
    werf: Werf, charts: Charts, namespace: MakeNamespace
) -> None:
    other = namespace("other")
    charts.push(
        far=ELSEWHERE.replace("NAMESPACE", other),
        near=ELSEWHERE.replace("NAMESPACE", werf.namespace).replace("faraway", "near"),
    )

    plan = werf.plan()

    assert f"\n┌ Create ConfigMap/faraway (namespace={other})\n" in plan.output
    assert "\n┌ Create ConfigMap/near\n" in plan.output
    assert plan.operations >= {
        f"create {other}::ConfigMap:faraway",
        "create ::ConfigMap:near",
    }


@pytest.fixture
def without_crd(api: Api) -> Iterator[None]:
    yield
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if any(each["metadata"]["name"] == "things.standin.example" for each in api.get(path)["items"]):
        api.delete(f"{path}/things.standin.example")


@detail
@pytest.mark.usefixtures("without_crd")
def test_crds_and_odd_names(werf: Werf, charts: Charts) -> None:
    charts.push(crd=CRD, odd=ODD_NAME)

    plan = werf.plan()

    crd = "apiextensions.k8s.io:CustomResourceDefinition:things.standin.example"
    assert plan.operations >= {
        f"create :{crd}",
        'create :rbac.authorization.k8s.io:Role:say "hi": [x]',
    }
    assert "Create CustomResourceDefinition/things.standin.example\n│ <hidden v" in plan.output
    werf.apply()
    assert werf.plan().code == 0
