"""`werf bundle plan`: what it says, and that `bundle apply` does that."""

import re
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import CHANGES_PLANNED, Charts, Werf, detail

RECORDED = Path(__file__).parents[3] / "docs" / "facts" / "werf-plan-graph.dot"
"""Of the real werf: a first install of four objects."""
SHOP = {
    "cm": """
apiVersion: v1
kind: ConfigMap
metadata: {name: shop-cm}
data: {greeting: "{{ .Values.greeting }}"}
""",
    "secret": """
apiVersion: v1
kind: Secret
metadata: {name: shop-secret}
stringData: {password: "{{ .Values.greeting }}-hunter2"}
""",
    "service": """
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: 80}]}
""",
    "deployment": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers: [{name: main, image: x, env: [{name: MODE, value: "{{ .Values.greeting }}"}]}]
""",
}


@pytest.fixture
def shop(werf: Werf, charts: Charts) -> Werf:
    """The release of the recorded graph."""
    charts.push(**SHOP)
    werf.env["WERF_RELEASE"] = "shop"
    return werf


def lines(text: str) -> list[str]:
    """A graph's lines; the order of nodes and edges is another each time."""
    return sorted(line for line in text.splitlines() if line)


def test_a_first_plan_is_the_recorded_one_and_writes_nothing(shop: Werf) -> None:
    plan = shop.plan()

    assert (plan.code, plan.last) == (2, CHANGES_PLANNED[shop.version])
    recorded = RECORDED.read_text()
    assert lines(plan.graph) == lines(recorded.replace("app:shop:", f"{shop.namespace}:shop:"))
    assert plan.graph.count("\n\n") == recorded.count("\n\n")
    assert re.match(r'strict digraph \{\n\n\trankdir="LR";\n\n\n\t"', plan.graph)
    assert plan.graph.endswith("];\n\n}\n")
    for change in ("ConfigMap/shop-cm", "Secret/shop-secret", "Service/shop", "Deployment/shop"):
        assert f"\n┌ Create {change}\n" in plan.output
    name = f'release "shop" (namespace: "{shop.namespace}")'
    assert f"Planned changes summary for {name}:\n- create: 4 resources\n" in plan.output
    assert not shop.report_file.exists()
    assert shop.names() == {"kube-root-ca.crt"}
    assert shop.names("secrets") == shop.names("services") == set()


@detail
def test_with_nothing_to_do_the_graph_has_the_releases_only(shop: Werf) -> None:
    shop.apply()

    plan = shop.plan()

    assert (plan.code, plan.operations) == (0, set()), plan.output
    name = f'release "shop" (namespace: "{shop.namespace}")'
    assert plan.last == f"No changes planned for {name}"
    release = f"{shop.namespace}:shop"
    assert {node for node in plan.nodes if not node.startswith("noop")} == {
        f"create-release/1/0/{release}:2",
        f"update-release/1/0/{release}:1",
        f"update-release/1/0/{release}:2",
    }


def test_contents_are_printed_but_those_of_secrets(shop: Werf, charts: Charts) -> None:
    shop.apply()
    charts.push("1.1.0", greeting="bye", **SHOP)

    plan = shop.plan("1.1.0")

    assert plan.code == 2
    assert plan.operations == {
        "update ::ConfigMap:shop-cm",
        "update ::Secret:shop-secret",
        "update :apps:Deployment:shop",
    }
    hidden = {
        "2": r"┌ Update Secret/shop-secret\n│ <hidden sensitive changes>\n└",
        "3": r"┌ Update Secret/shop-secret\n(│ .*\n)*│ -   password: <hidden 20 sensitive bytes, ",
    }[shop.version[0]]
    assert re.search(hidden, plan.output), plan.output
    assert "hunter2" not in plan.output
    assert "aHVudGVy" not in plan.output
    assert re.search(
        r"^┌ Update ConfigMap/shop-cm\n(│ .*\n)*│ - +greeting: hello", plan.output, re.MULTILINE
    )
    assert re.search(r"^│ \+ +value: bye$", plan.output, re.MULTILINE), (
        "a variable of a pod template"
    )
    assert "- update: 3 resources\n" in plan.output
    assert "greeting" not in plan.graph


@detail
def test_what_others_edited_or_deleted_is_seen_and_what_they_added_is_not(shop: Werf) -> None:
    shop.apply()
    base = f"/api/v1/namespaces/{shop.namespace}"
    shop.api.patch(f"{base}/configmaps/shop-cm", {"data": {"added": "by somebody"}})
    assert shop.plan().code == 0

    shop.api.patch(f"{base}/configmaps/shop-cm", {"data": {"greeting": "edited"}})
    shop.api.patch(f"{base}/secrets/shop-secret", {"data": {"password": "ZWRpdGVk"}})
    shop.api.delete(f"{base}/services/shop")
    plan = shop.plan()

    assert plan.operations == {
        "update ::ConfigMap:shop-cm",
        "update ::Secret:shop-secret",
        "create ::Service:shop",
    }
    changed = re.findall(r"^│ [+-] .*", plan.output, re.MULTILINE)
    assert changed
    assert not any("by somebody" in line for line in changed)
    shop.apply()
    assert shop.report["completedOperations"] == [
        "create: Service/shop",
        "update: ConfigMap/shop-cm",
        "update: Secret/shop-secret",
    ]
    data = shop.object("shop-cm")["data"]
    assert data == {"greeting": "hello", "added": "by somebody"}
    assert shop.plan().code == 0


@detail
def test_a_digest_in_the_tag_pins_what_is_planned_and_applied(werf: Werf, charts: Charts) -> None:
    first = charts.push(greeting="first")
    charts.push(greeting="second")

    plan = werf.plan(f"1.0.0@{first}")

    assert re.search(rf"^digest: +{first.removeprefix('sha256:')}$", plan.output, re.MULTILINE)
    assert re.search(r"\+ +greeting: first$", plan.output, re.MULTILINE)
    werf.apply(f"1.0.0@{first}")
    assert werf.object("demo-cm")["data"]["greeting"] == "first"


@detail
def test_what_apply_adds_is_in_the_plan(werf: Werf, charts: Charts) -> None:
    charts.push()
    more = {"WERF_ADD_LABEL_0": "part-of=shop", "WERF_ADD_ANNOTATION_0": "note=hello"}
    values = werf.directory / "values.yaml"
    values.write_text("greeting: from a file\n")

    plan = werf.plan(WERF_VALUES_0=str(values), **more)

    for text in ("part-of: shop", "note: hello", "greeting: from a file"):
        assert re.search(rf"^│ \+ +{text}$", plan.output, re.MULTILINE), plan.output
    werf.apply(WERF_VALUES_0=str(values), **more)
    assert werf.plan(WERF_VALUES_0=str(values), **more).code == 0
    assert werf.plan().code == 2
