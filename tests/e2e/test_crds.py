"""The real API server takes both CRDs, explains them, and answers bad manifests with a remedy."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.conftest import skip_before_1_30
from tests.e2e.documents import commands
from tests.e2e.installation import apply, collection_of, delete_crds, object_path, serves
from tests.spec_table import Case, check_golden, read_cases
from tests.targets import EVERYWHERE

from localcluster import Api, ApiStatusError, Cluster
from localcluster.waiting import eventually

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
RULES = "copyrators.flant.com"
BUNDLES = "bundles.operator.werf.dev"
OLD = "copyrator.flant.com"
"""The CRD of the original in its working form."""
RULE_API = "/apis/flant.com/v1"
BUNDLE_API = "/apis/operator.werf.dev/v1"
CRD_API = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

Object = dict[str, Any]


def apply_crds(api: Api) -> None:
    """Apply both CRDs and wait until each is established and served."""
    apply(api, [yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")])
    for name in (RULES, BUNDLES):
        wait_for(api, name, Established="True")
    eventually(lambda: serves(api), "the API server serves rules and Bundles")


def wait_for(api: Api, crd: str, **conditions: str) -> None:
    """Wait until a CRD has these conditions."""

    def said() -> bool:
        status = api.get(f"{CRD_API}/{crd}").get("status", {})
        found = {one["type"]: one["status"] for one in status.get("conditions") or ()}
        return found | conditions == found

    eventually(said, f"{crd} says {conditions}")


@pytest.fixture(scope="module")
def crds(cluster: Cluster) -> Api:
    api = cluster.api()
    apply_crds(api)
    return api


@pytest.fixture
def alone(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster without rules and Bundles, whose CRDs a test may break."""
    api = cluster.api()
    apply_crds(api)
    for collection in (f"{RULE_API}/copyrators", f"{BUNDLE_API}/bundles"):
        prefix, _, plural = collection.rpartition("/")
        for left in api.metadata(collection):
            path = f"{prefix}/namespaces/{left['namespace']}/{plural}/{left['name']}"
            api.delete(path)
            api.remove_finalizers(path)
    yield cluster
    delete_crds(api, OLD)
    apply_crds(api)


def rule(**fields: Any) -> Object:
    return {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": "x", "namespace": "default"},
        **fields,
    }


def good(**spec: Any) -> Object:
    return rule(spec={"source": {"kind": "Secret", "name": "x"}, "targets": EVERYWHERE, **spec})


def old(**fields: Any) -> Object:
    return rule(**{"ruleType": "secret", "selector": {"a": "b"}, **fields})


def bundle(name: str = "x", **spec: Any) -> Object:
    return {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"registry": "registry.example.com", "repo": "team/app", **spec},
    }


def dry_run(api: Api, body: Object) -> Object:
    """What the API server would store, with unknown fields refused."""
    made: Object = api.create(f"{collection_of(body)}?dryRun=All&fieldValidation=Strict", body)
    return made


def assert_contains(stored: Any, wanted: Any) -> None:
    """Every field that was sent is there; defaults may have come."""
    if not isinstance(wanted, dict):
        assert stored == wanted
        return
    for name, value in wanted.items():
        if value is not None:
            assert_contains(stored[name], value)


@pytest.mark.parametrize("before", [good(), old()], ids=["under spec", "old form"])
def test_an_edit_that_loses_the_targets_is_refused(
    crds: Api, namespace: Any, before: Object
) -> None:
    body = {**before, "metadata": {"name": "x", "namespace": namespace("targets")}}
    path = object_path(crds.create(collection_of(body), body))
    crds.patch(f"{path}/status", {"status": {"sources": 1}})
    spec = {**good()["spec"], "targets": None}
    edit = {"spec": spec, "ruleType": None, "selector": None}
    with pytest.raises(ApiStatusError, match="targets must say which namespaces get a copy"):
        crds.patch(path, edit)
    crds.patch(path, {**edit, "spec": good()["spec"]})


def test_a_stored_rule_without_targets_can_be_written_corrected_and_deleted(
    alone: Cluster, namespace: Any
) -> None:
    """One of an earlier version: what the operator and its owner do with it is still accepted.

    Also on Kubernetes 1.29, which validates unchanged parts again.
    """
    api = alone.api()
    crd = yaml.safe_load((CRDS / "copyrators.flant.com.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    kept = [one for one in schema["x-kubernetes-validations"] if "fieldPath" not in one]
    assert len(kept) == len(schema["x-kubernetes-validations"]) - 2
    schema["x-kubernetes-validations"] = kept
    apply(api, [crd])
    body = good(targets=None)
    body["metadata"] = {"name": "x", "namespace": namespace("targets"), "finalizers": ["a.b/c"]}
    eventually(lambda: is_taken(api, body), "the earlier CRD is in force")
    path = object_path(api.create(collection_of(body), body))
    api.patch(f"{path}/status", {"status": {"sources": 1}})
    apply_crds(api)
    eventually(lambda: not is_taken(api, good(targets=None)), "the CRD is in force")

    api.patch(f"{path}/status", {"status": {"sources": 2, "conditions": [CONDITION]}})
    api.patch(path, {"metadata": {"annotations": {"a.b/c": "d"}, "finalizers": ["a.b/c", "d.e/f"]}})
    api.patch(path, {"spec": {"suspend": True}})
    api.patch(path, {"spec": {"targets": {"namespaces": ["*"]}}})
    with pytest.raises(ApiStatusError, match="targets must say"):
        api.patch(path, {"spec": {"targets": None}})
    api.delete(path)
    api.patch(f"{path}/status", {"status": {"sources": 3}})
    api.patch(path, {"metadata": {"finalizers": None}})
    with pytest.raises(ApiStatusError, match="not found"):
        api.get(path)


def is_taken(api: Api, body: Object) -> bool:
    try:
        dry_run(api, body)
    except ApiStatusError:
        return False
    return True


UNCHECKED = "some validation rules were not checked"
"""A cause beside others."""
_MOST = 6


def verdict(api: Api, body: Object) -> list[str] | Object:
    """Why the API server refuses an object; else what it stores otherwise than sent, by path."""
    try:
        made = api.create(f"{collection_of(body)}?dryRun=All&fieldValidation=Ignore", body)
    except ApiStatusError as error:
        causes = error.causes or [str(error)]
        return sorted(plain(one) for one in causes if UNCHECKED not in one)
    return dict(changes(body, made | {"metadata": body["metadata"]}, ""))


def plain(cause: str) -> str:
    """Shortened, and in the words of each version of Kubernetes."""
    text = re.sub(r"may not be (?:more|longer) than (\d+)(?: bytes)?", r"at most \1", cause)
    text = re.sub(r"(Duplicate|Unsupported) value: .*?(?=$|: supported)", r"\1 value", text)
    return text if len(text) <= 300 else f"{text[:100]}…{text[-200:]}"


def changes(sent: Any, stored: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What was added or changed, by path, and `pruned` for what is gone."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for name in sorted(sent.keys() | stored.keys()):
            here = f"{path}.{name}".lstrip(".")
            if name not in stored:
                yield here, "pruned"
            elif name not in sent:
                yield here, stored[name]
            else:
                yield from changes(sent[name], stored[name], here)
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for number, pair in enumerate(zip(sent, stored, strict=True)):
            yield from changes(*pair, f"{path}[{number}]")
    elif sent != stored:
        yield path, stored


def judge(api: Api, cases: list[Case]) -> dict[str, list[str] | Object]:
    """The verdicts by ID; what a case's valid object is given, too, isn't repeated."""
    with ThreadPoolExecutor(4) as pool:
        said = pool.map(lambda case: verdict(api, case.body), cases)
        found = dict(zip((case.id for case in cases), said, strict=True))
    usual = {case.id: found[case.id] for case in cases if not case.path}
    for case in cases:
        one, base = found[case.id], usual[case.base]
        if case.path and isinstance(one, dict) and isinstance(base, dict):
            found[case.id] = {path: new for path, new in one.items() if base.get(path) != new}
    return found


def test_specs_are_refused_or_stored_as_before(crds: Api) -> None:
    """Those of tests/spec_table.py; the golden file has the first of many causes."""
    cases = read_cases()
    found = judge(crds, cases)
    assert [case.id for case in cases if case.is_good and isinstance(found[case.id], list)] == []
    few = {id_: said[:_MOST] if isinstance(said, list) else said for id_, said in found.items()}
    check_golden(cases, few, "server")


def documents() -> list[tuple[str, Object]]:
    return [
        (f"{path.relative_to(ROOT)}#{i}", body)
        for path in sorted((ROOT / "examples").glob("*/*.yaml"))
        if path.parent.name in {"rules", "bundles"}
        for i, body in enumerate(yaml.safe_load_all(path.read_text()))
    ]


@pytest.mark.parametrize(("where", "body"), documents(), ids=[where for where, _ in documents()])
def test_every_example_is_taken_as_it_stands(crds: Api, where: str, body: Object) -> None:
    if body["kind"] != "Namespace":
        body["metadata"]["namespace"] = "default"
    apply(crds, [body], dryRun="All", fieldValidation="Strict")


def test_the_chart_of_the_examples_is_good(cluster: Cluster) -> None:
    chart = str(ROOT / "examples" / "charts" / "hello")
    cluster.helm("lint", "--strict", chart)
    made = yaml.safe_load(cluster.helm("template", "hello", chart, "--set", "greeting=Hi"))
    assert made["metadata"]["name"] == "hello"
    assert made["data"] == {"greeting": "Hi", "version": "1.0.0"}


def test_the_guides_command_adds_the_health_checks_to_argo_cd(
    cluster: Cluster, api: Api, namespace: Callable[..., str]
) -> None:
    team = namespace("argocd")
    path = f"/api/v1/namespaces/{team}/configmaps"
    api.create(path, {"metadata": {"name": "argocd-cm"}, "data": {"url": "https://example.com"}})
    (command,) = commands("docs/guides.md", "With Argo CD and Flux")
    *words, file = command.replace("-n argocd ", f"-n {team} ").split()
    patch = (ROOT / file).read_text()
    here = patch.replace("namespace: argocd\n", f"namespace: {team}\n")
    cluster.kubectl(*words[1:], "/dev/stdin", input=here)
    data = yaml.safe_load(patch)["data"] | {"url": "https://example.com"}
    assert api.get(f"{path}/argocd-cm")["data"] == data


# What kubectl shows -----------------------------------------------------------------------------


def fields_of(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    for field, inner in schema.get("properties", {}).items():
        if (path, field) != ("", "metadata"):  # kubectl has its own words for it
            yield f"{path}.{field}", inner
            yield from fields_of(inner, f"{path}.{field}")
            yield from fields_of(inner.get("items", {}), f"{path}.{field}")


@pytest.mark.parametrize("name", [RULES, BUNDLES])
def test_kubectl_explains_every_field(cluster: Cluster, crds: Api, name: str) -> None:
    explained = cluster.kubectl("explain", name, "--recursive")
    schema = crds.get(f"{CRD_API}/{name}")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, field in fields_of(schema):
        assert len(field["description"]) > 3, path
        assert path.rpartition(".")[2] in explained


def test_short_names_and_the_category_reach_both_kinds(
    cluster: Cluster, crds: Api, namespace: Any
) -> None:
    home = namespace("names")
    for body in (good(), bundle()):
        body["metadata"]["namespace"] = home
        crds.create(collection_of(body), body)
    for short, name in (
        ("copyr", "copyratorrule.flant.com/x"),
        ("bndl", "bundle.operator.werf.dev/x"),
    ):
        assert cluster.kubectl("get", short, "-n", home, "-o", "name").split() == [name]
    both = cluster.kubectl("get", "copyrator-all", "-n", home, "-o", "name")
    assert len(both.split()) == 2


def columns(cluster: Cluster, kind: str, home: str, *more: str) -> dict[str, str]:
    head, line = cluster.kubectl("get", kind, "-n", home, *more).splitlines()
    starts = [head.index(word) for word in head.split()]
    cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return dict(zip(head.split(), cells, strict=True))


DIGEST = f"sha256:{'0' * 64}"
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Because",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def test_the_columns_of_a_bundle_show_where_from_what_and_whether(
    cluster: Cluster, crds: Api, namespace: Any
) -> None:
    body = bundle()
    body["metadata"]["namespace"] = home = namespace("columns")
    crds.create(collection_of(body), body)
    status = {
        "target": {"version": "1.1.0", "digest": "sha256:aa"},
        "deploy": {"version": "1.0.0", "digest": DIGEST, "shortDigest": "0" * 12},
        "conditions": [CONDITION, {**CONDITION, "type": "UpdatePending", "reason": "NotPromoted"}],
    }
    crds.patch(f"{collection_of(body)}/x/status", {"status": status})
    shown = columns(cluster, "bndl", home)
    age = shown.pop("AGE")
    assert age.endswith("s")
    assert shown == {
        "NAME": "x",
        "REGISTRY": "registry.example.com",
        "REPO": "team/app",
        "TARGET": "1.1.0",
        "VERSION": "1.0.0",
        "DIGEST": "0" * 12,
        "READY": "True",
        "REASON": "Because",
        "UPDATE": "NotPromoted",
    }
    wide = columns(cluster, "bndl", home, "-o", "wide")
    assert (wide["FULL-DIGEST"], wide["MESSAGE"]) == (DIGEST, "m")


def test_the_columns_of_a_rule_show_how_many_copies_stand(
    cluster: Cluster, crds: Api, namespace: Any
) -> None:
    body = good()
    body["metadata"]["namespace"] = home = namespace("columns")
    crds.create(collection_of(body), body)
    status = {"copies": {"desired": 5, "ready": 3, "failed": 2}, "conditions": [CONDITION]}
    crds.patch(f"{collection_of(body)}/x/status", {"status": status})
    shown = columns(cluster, "copyr", home)
    del shown["AGE"]
    assert shown == {
        "NAME": "x",
        "READY": "True",
        "REASON": "Because",
        "DESIRED": "5",
        "COPIED": "3",
        "FAILED": "2",
    }


# The status subresource --------------------------------------------------------------------------


def test_force_update_takes_the_status_subresource(crds: Api, namespace: Any) -> None:
    body = bundle()
    body["metadata"]["namespace"] = namespace("status")
    path = f"{collection_of(body)}/x"
    crds.create(collection_of(body), body)
    force = {"status": {"forceUpdate": 1}}
    assert "status" not in crds.patch(path, force)
    patched = crds.patch(f"{path}/status", force)
    assert patched["status"] == {"forceUpdate": 1}
    assert patched["metadata"]["generation"] == 1


def test_conditions_are_merged_by_type(crds: Api, namespace: Any) -> None:
    body = bundle()
    body["metadata"]["namespace"] = home = namespace("status")
    crds.create(collection_of(body), body)
    for manager, kind in (("one", "Ready"), ("two", "Other")):
        part = {
            **{name: body[name] for name in ("apiVersion", "kind")},
            "metadata": {"name": "x", "namespace": home},
            "status": {"conditions": [{**CONDITION, "type": kind}]},
        }
        crds.request(  # kubectl apply has no --subresource in 1.29
            "PATCH",
            f"{collection_of(body)}/x/status?fieldManager={manager}",
            part,
            content_type="application/apply-patch+yaml",
        )
    found = crds.get(f"{collection_of(body)}/x")["status"]["conditions"]
    assert {item["type"] for item in found} == {"Ready", "Other"}


# Taking over from the originals ------------------------------------------------------------------


def permissive(name: str, kind: str, *, storage: Object | None = None) -> Object:
    """A CRD as the originals had it: no status subresource, nothing checked."""
    plural, _, group = name.partition(".")
    schema = storage or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def test_bundles_of_the_original_survive_the_crd_and_can_be_deleted(alone: Cluster) -> None:
    """Also one that we would refuse: its finalizer must come off, or it hangs for ever."""
    api = alone.api()
    skip_before_1_30(api, "every change of what a new CRD refuses is refused")
    delete_crds(api, BUNDLES)
    api.create(CRD_API, permissive(BUNDLES, "Bundle"))
    wait_for(api, BUNDLES, Established="True")
    eventually(lambda: serves(api), "the API server serves Bundles")
    finalizer = "kopf.zalando.org/KopfFinalizerMarker"
    bodies = [bundle(env={"A": 1, "B": True}), bundle(name="bad", registry="https://r/x")]
    bodies.append(bundle(name="y" * 60))
    status = {
        "ready": 1,
        "forceUpdate": 0,
        "target": {"digest": "d", "version": "1.0"},
        "deploy": {"digest": "d", "version": "1.0"},
    }
    for body in bodies:
        body["metadata"]["finalizers"] = [finalizer]
        api.create(collection_of(body), {**body, "status": status})

    apply_crds(api)

    for body in bodies:
        path = object_path(body)
        found = api.get(path)
        assert found["status"] == status
        assert_contains(found["spec"], body["spec"])
        taken = api.patch(path, {"metadata": {"finalizers": ["operator.werf.dev/uninstall"]}})
        assert taken["metadata"]["finalizers"] == ["operator.werf.dev/uninstall"]
        api.patch(f"{path}/status", {"status": {"conditions": [CONDITION]}})
        api.delete(path)
        api.patch(path, {"metadata": {"finalizers": []}})
        with pytest.raises(ApiStatusError, match="404"):
            api.get(path)
