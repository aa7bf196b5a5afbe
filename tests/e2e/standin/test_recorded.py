"""The text of a plan, beside what the real ones printed of the same chart."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import CHANGES_PLANNED, Charts, Werf, each_version

SHOWN = ("SENSITIVE", "INSIGNIFICANT", "VERBOSE", "VERBOSE_CRD")
WHOLE = {f"WERF_SHOW_{name}_DIFFS": "1" for name in SHOWN}
DRAWN = re.compile(r"(?<=pw: )(?!ZXhhbXBsZS)\w{16}$|(?<=hash )(?!816a|aef0)\w{12}", re.MULTILINE)
"""What isn't that of the Secret s, which isn't drawn."""
SUMMARY = re.compile(r"^- [\w ]+: \d+ resources$", re.MULTILINE)
HIDING = """
apiVersion: v1
kind: KIND
metadata: {name: hiding, annotations: {werf.io/sensitiveVALUE}}
data: {seen: aW4gdGhlIG9wZW4=, away: bm9ib2R5}
"""


@pytest.fixture
def shop(werf: Werf, charts: Charts) -> Werf:
    """The recorded release: 1.0.0, and 1.0.1 in which each object is another, or isn't there."""
    chart = charts.directory / "shop"
    chart.mkdir()
    (chart / "extra_annotations.json").write_text(json.dumps(PROJECT))
    # No other test has the same name for it in the cluster.
    own = {**TEMPLATES, "cr": TEMPLATES["cr"].replace("example", werf.namespace)}
    charts.push(name="shop", **own)
    changed = {name: text.replace("one", "two") for name, text in own.items()}
    del changed["gone"]
    charts.push("1.0.1", name="shop", **changed)
    werf.env |= {"WERF_RELEASE": "shop", "WERF_ADD_LABEL_0": "a=b"}
    return werf


def blocks(text: str) -> dict[str, str]:
    """The blocks of a plan by their titles; without fields that helm doesn't own, but werf does."""
    found = re.findall(r"^┌ (\w+ \w+/.*)\n((?:│ .*\n)*)└ \1\n\n", text, re.MULTILINE)
    assert found, text
    others = re.compile(r"│ .* f:(werf.io/version|data): \{\}\n")
    return {title: DRAWN.sub("drawn", others.sub("", lines)) for title, lines in found}


def recorded(version: str, name: str, werf: Werf) -> str:
    text = (RECORDED / version / name).read_text()
    text = text.replace(f"app-{version.replace('.', '-')}", werf.namespace)
    return re.sub(r"(ClusterRole/|name: )example\b", rf"\1{werf.namespace}", text)


@each_version
@pytest.mark.parametrize("whole", [False, True], ids=["short", "whole"])
def test_it_is_the_recorded_one(shop: Werf, version: str, *, whole: bool) -> None:
    env = WHOLE if whole else {}
    suffix = "-whole.txt" if whole else ".txt"

    for tag, name in (("1.0.0", "plan-first"), ("1.0.1", "plan-update")):
        plan = shop.plan(tag, **env)

        wanted = recorded(version, name + suffix, shop)
        found, expected = blocks(plan.output), blocks(wanted)
        assert found == expected
        ordered = [t for t in found if version.startswith("3") or not t.startswith("Create ")]
        assert ordered == [title for title in expected if title in ordered], "creates: in werf 3"
        assert SUMMARY.findall(plan.output) == SUMMARY.findall(wanted)
        assert plan.last == wanted.splitlines()[-1]
        for line in ("Version: ", "Planning release ", "Planned changes summary "):
            assert re.findall(f"^{line}.*", plan.output, re.MULTILINE) == re.findall(
                f"^{line}.*", wanted, re.MULTILINE
            )
        shop.apply(tag, **env)


@each_version
def test_what_is_pulled_and_deployed_is_said_as_recorded(shop: Werf, version: str) -> None:
    output = shop.apply()

    wanted = recorded(version, "apply-first.txt", shop).split("\n", 2)[2]
    sizes = re.compile(r"^size:    \d+ B$", re.MULTILINE)
    wanted = re.sub(r"┌ Progress status\n(│ .*\n)*└ Progress status\n\n", "", wanted)
    repo, digest = shop.env["WERF_REPO"], re.findall(r"^digest: +(\w+)$", output, re.MULTILINE)[0]
    wanted = re.sub(r"^(digest: +)\w+$", rf"\g<1>{digest}", wanted, flags=re.MULTILINE)
    wanted = wanted.replace("registry.example.com/team/shop", repo)
    seconds = re.compile(r"\d+\.\d\d seconds")
    output = re.sub(r"┌ Progress status\n(│ .*\n)*└ Progress status\n\n", "", output)
    same = [sizes.sub("size", seconds.sub("", text)) for text in (output, wanted)]
    same = [text.replace("Downloaded newer chart", "Chart is up to date") for text in same]
    assert same[0] == same[1]
    assert len(sizes.findall(output)) == 2, "pulled and exported"
    assert shop.report == {
        **json.loads(recorded(version, "report-first.json", shop)),
        "namespace": shop.namespace,
    }


@each_version
def test_a_missing_tag_is_said_as_recorded(shop: Werf, version: str) -> None:
    code, output = shop.run("bundle", "apply", WERF_TAG="9.9.9")

    wanted = recorded(version, "missing-tag.txt", shop).split("\n", 2)[2]
    wanted = wanted.replace("registry.example.com/team/shop", shop.env["WERF_REPO"])
    seconds = re.compile(r"\d+\.\d\d seconds")
    assert (code, seconds.sub("", output)) == (1, seconds.sub("", wanted))


@each_version
def test_an_uninstall_is_said_as_recorded_and_so_is_another_one(shop: Werf, version: str) -> None:
    for tag in ("1.0.0", "1.0.1"):
        shop.apply(tag)
    place = ("--namespace", shop.namespace)
    arguments: tuple[str, ...] = ("dismiss", *place, "--release", "shop")
    if not version.startswith("3"):
        flags = ("--wait", "--timeout", "1m", "--ignore-not-found")
        arguments = ("helm", "uninstall", "shop", *place, *flags)

    for name in ("uninstall.txt", "uninstall-again.txt"):
        code, output = shop.run(*arguments)

        _, _, wanted = recorded(version, name, shop).split("\n", 2)
        assert (code, in_order(output)) == (0, in_order(wanted)), name


def in_order(text: str) -> list[str]:
    """What an uninstall says, without times; objects are named in another order each time."""
    text = re.sub(r" \(\d+\.\d\d seconds\)|\d+\.\d\d seconds", "", text)
    text = re.sub(r"(?<=→ABSENT\)) +|(?<=\w) +(?=ABSENT|STATE|INFO)", " ", text)
    text = re.sub(r"clusterroles/[\w-]+", "clusterroles/name", text)
    return sorted(line for line in re.split(r"\n|, ", text) if line)


@each_version
@pytest.mark.parametrize(
    ("kind", "value", "hides"),
    [
        ("ConfigMap", ': "true"', "all"),
        ("ConfigMap", "-paths: data.away", "path"),
        ("ConfigMap", "-paths: data", "map"),
        ("Secret", ': "false"', ""),
        ("Secret", "-paths: data.away", "path"),
    ],
)
def test_a_chart_hides_what_it_likes_from_the_plan_and_not_from_the_render(
    werf: Werf, charts: Charts, kind: str, value: str, hides: str
) -> None:
    charts.push(cm=HIDING.replace("KIND", kind).replace("VALUE", value))

    text = blocks(werf.plan().output)[f"Create {kind}/hiding"]

    if hides == "all" and werf.version.startswith("3"):
        assert len(re.findall(r"<hidden \d+ sensitive bytes", text)) == 2, "each value"
        return
    assert (text == "│ <hidden sensitive changes>\n") == (hides == "all")
    assert ("seen: aW4gdGhlIG9wZW4=" in text) == (hides in ("path", ""))
    assert ("away: bm9ib2R5" in text) == (not hides)
    mark = f"away: <hidden 8 sensitive bytes, hash {sha256(b'bm9ib2R5').hexdigest()[:12]}>"
    assert (DRAWN.sub("drawn", mark) in text) == (hides == "path")
    digest = sha256(b'{"away":"bm9ib2R5","seen":"aW4gdGhlIG9wZW4="}').hexdigest()[:12]
    entries = DRAWN.sub("drawn", f"data: <hidden 2 sensitive entries, hash {digest}>")
    assert (entries in text) == (hides == "map")
    assert "away: bm9ib2R5\n" in rendered(werf, WERF_VALIDATE="1")
    whole = blocks(werf.plan(**WHOLE).output)[f"Create {kind}/hiding"]
    assert "away: bm9ib2R5\n" in whole


def test_a_variable_shows_what_secrets_hold(werf: Werf, charts: Charts) -> None:
    charts.push(cm=HIDING.replace("KIND", "Secret").replace("VALUE", "x: z"))

    assert "bm9ib2R5" not in werf.plan().output
    assert "bm9ib2R5" in werf.plan(WERF_ADD_ANNOTATION_1="werf.io/sensitive=false").output


@each_version
def test_only_werf_3_has_a_code_for_a_release_that_must_be_stored(
    werf: Werf, charts: Charts, version: str
) -> None:
    charts.push()
    werf.apply()

    plan = werf.plan(WERF_SET_1="unused=1")

    words = "no resource changes planned, but still must install release"
    assert (plan.code, plan.last) == {
        "2.67.0": (2, "Error: changes planned"),
        "2.75.3": (2, "Error: changes planned"),
        "3.2.0": (3, f"Error: {words}"),
    }[version]
    assert plan.operations == set()


# --- `werf bundle render`, with and without WERF_VALIDATE; beside what the real one printed


RECORDED = Path(__file__).parents[3] / "docs" / "facts" / "werf-output"
TEMPLATES = {
    "cm": """
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {v: "{{ .Values.greeting }}", text: one}
""",
    "gone": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\ndata: {}\n",
    "hook": """
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade}}
data: {t: one}
""",
    "cr": """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: example}
rules: []
""",
    "dep": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: "x:one"}]}
""",
    "rand": """
apiVersion: v1
kind: Secret
metadata: {name: r}
data: {pw: {{ randAlphaNum 12 | b64enc }}}
""",
    "sec": """
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {pw: {{ "example-one" | b64enc }}}
""",
}
"""The chart of docs/facts/werf-output."""
PROJECT = {"project.werf.io/name": "shop", "project.werf.io/env": ""}
FACTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: facts}
data:
  install: "{{ .Release.IsInstall }}"
  revision: "{{ .Release.Revision }}"
  kube: {{ .Capabilities.KubeVersion.Version }}
  found: "{{ (lookup "v1" "ConfigMap" .Release.Namespace "kube-root-ca.crt").kind }}"
"""


def rendered(werf: Werf, tag: str = "1.0.0", **env: str) -> str:
    code, output = werf.run("bundle", "render", **{"WERF_TAG": tag, **env})
    assert code == 0, output
    return output


def facts(werf: Werf, **env: str) -> dict[str, str]:
    return dict(re.findall(r'^  (\w+): "?([^"\n]*)"?$', rendered(werf, **env), re.MULTILINE))


@each_version
def test_a_render_is_the_recorded_one(werf: Werf, charts: Charts, version: str) -> None:
    (charts.directory / "shop").mkdir()
    (charts.directory / "shop" / "extra_annotations.json").write_text(json.dumps(PROJECT))
    charts.push(name="shop", **TEMPLATES)
    recorded = (RECORDED / version / "render.txt").read_text().split("\n", 2)[2]

    for more in ({}, {"WERF_VALIDATE": "1"}):
        text = rendered(werf, WERF_ADD_LABEL_0="a=b", **more)

        drawn = re.compile(r"pw: \w{16}$", re.MULTILINE)
        assert drawn.sub("pw: x", text, 1) == drawn.sub("pw: x", recorded, 1)
    assert werf.names() == {"kube-root-ca.crt"}, "nothing is written"


def test_the_cluster_is_asked_only_where_it_is_to_validate(werf: Werf, charts: Charts) -> None:
    charts.push(facts=FACTS)
    version = werf.api.get("/version")["gitVersion"]
    werf.apply()

    assert facts(werf, WERF_KUBE_CONFIG="/nowhere") == {
        **facts(werf),
        "install": "true",
        "revision": "1",
        "found": "",
    }
    validated = facts(werf, WERF_VALIDATE="1")
    assert validated["kube"] == version
    wanted = {"install": "false", "revision": "2", "found": "ConfigMap"}
    assert validated == {**validated, **wanted}
    code, output = werf.run("bundle", "render", WERF_VALIDATE="1", WERF_KUBE_CONFIG="/nowhere")
    assert code == 1, output


def test_an_apply_writes_what_was_rendered(werf: Werf, charts: Charts) -> None:
    charts.push(facts=FACTS)
    werf.apply()
    text = rendered(werf, WERF_VALIDATE="1", WERF_SET_0="greeting=anew")

    werf.apply(WERF_SET_0="greeting=anew")

    data = werf.object("facts")["data"]
    assert data["revision"] == "2"
    for name, value in data.items():
        assert re.search(f'^  {name}: "?{re.escape(value)}"?$', text, re.MULTILINE), text


@pytest.mark.parametrize(
    "change",
    [
        ("data: {t: one}", 'data: {t: "one "}'),
        ("data: {t: one}", 'data: {t: "one\\n"}'),
        ("data: {t: one}", 'data: {t: "o\\e[31mne"}'),
        ("data: {t: one}", 'data: {t: "+++ one"}'),
        ("name: hook,", "name: hook, finalizers: [example.com/a],"),
    ],
    ids=["space", "newline", "escape", "plus", "finalizer"],
)
def test_no_change_is_lost(werf: Werf, charts: Charts, change: tuple[str, str]) -> None:
    charts.push(hook=TEMPLATES["hook"])
    charts.push("1.1.0", hook=TEMPLATES["hook"].replace(*change))
    same = "  version: 1.0.0\n"

    first, second = rendered(werf), rendered(werf, "1.1.0")

    assert first != second.replace("  version: 1.1.0\n", same)
    assert len(re.findall("^---$", second, re.MULTILINE)) == 2


def test_definitions_are_printed_and_values_cannot_forge_a_document(
    werf: Werf, charts: Charts
) -> None:
    crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    crd += "metadata: {name: things.example.com}\n"
    (charts.directory / "demo" / "crds").mkdir(parents=True)
    (charts.directory / "demo" / "crds" / "things.yaml").write_text(crd)
    charts.push(greeting='"x\\n---\\n# Source: forged\\n"')

    for more in ({}, {"WERF_VALIDATE": "1"}):
        sources = re.findall("^# Source: (.*)$", rendered(werf, **more), re.MULTILINE)
        assert sources == ["demo/crds/things.yaml", "demo/templates/cm.yaml"]


# --- `werf bundle plan`: what it says, and that `bundle apply` does that


GRAPH = Path(__file__).parents[3] / "docs" / "facts" / "werf-plan-graph.dot"
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


def graph_lines(text: str) -> list[str]:
    """A graph's lines; the order of nodes and edges is another each time."""
    return sorted(line for line in text.splitlines() if line)


def test_a_first_plan_is_the_recorded_one_and_writes_nothing(werf: Werf, charts: Charts) -> None:
    charts.push(**SHOP)
    werf.env["WERF_RELEASE"] = "shop"
    plan = werf.plan()

    assert (plan.code, plan.last) == (2, CHANGES_PLANNED[werf.version])
    recorded = GRAPH.read_text()
    assert graph_lines(plan.graph) == graph_lines(
        recorded.replace("app:shop:", f"{werf.namespace}:shop:")
    )
    assert plan.graph.count("\n\n") == recorded.count("\n\n")
    assert re.match(r'strict digraph \{\n\n\trankdir="LR";\n\n\n\t"', plan.graph)
    assert plan.graph.endswith("];\n\n}\n")
    for change in ("ConfigMap/shop-cm", "Secret/shop-secret", "Service/shop", "Deployment/shop"):
        assert f"\n┌ Create {change}\n" in plan.output
    name = f'release "shop" (namespace: "{werf.namespace}")'
    assert f"Planned changes summary for {name}:\n- create: 4 resources\n" in plan.output
    assert not werf.report_file.exists()
    assert werf.names() == {"kube-root-ca.crt"}
    assert werf.names("secrets") == werf.names("services") == set()


# --- What werf reads besides the bundle: values and files that variables name, and dependencies


@each_version
def test_a_missing_dependency_is_downloaded_as_the_recorded_one(
    werf: Werf, depending: Callable[[str], None], site: tuple[Path, str], version: str
) -> None:
    recorded = (RECORDED / version / "render-dependency.txt").read_text().split("\n", 2)[2]

    text = rendered(werf, WERF_ADD_LABEL_0="a=b")

    assert text == recorded.replace("http://127.0.0.1:1", site[1])
    cache = Path(werf.env["HOME"]) / ".werf" / "local_cache" / "helm_chart_dependencies"
    assert len(list(cache.iterdir())) == 1
    again = rendered(werf, WERF_ADD_LABEL_0="a=b")
    assert again == text[text.index("---\n") :], "taken from the cache"


def test_a_dependency_that_changes_is_deployed_unseen_by_another_home(
    werf: Werf, depending: Callable[[str], None]
) -> None:
    werf.env["WERF_SKIP_DEPENDENCIES_REPO_REFRESH"] = "1"
    assert "text: one\n" in werf.plan().output
    depending("two")
    assert "text: one\n" in werf.plan().output, "the same HOME"

    werf.apply(WERF_HOME=str(werf.directory / "another"))

    assert werf.object("from-sub")["data"] == {"text": "two"}


def test_without_a_lock_nothing_is_downloaded(werf: Werf, charts: Charts) -> None:
    more = "dependencies: [{name: sub, version: 1.0.0, repository: http://127.0.0.1:1}]\n"
    charts.push(more=more)

    plan = werf.plan()

    assert plan.code == 1
    assert re.search("missing in charts/ directory: sub$", plan.last), plan.output
