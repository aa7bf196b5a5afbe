"""A rule is read into one shape, whichever form it is written in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick
from tests.targets import EVERYWHERE
from tests.unit.api.test_crd_fields import RULE, field_names

from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.rule_spec import (
    MAX_TARGETS_TEXT,
    RULE_DEPTH,
    RULE_VALUES,
    ConflictPolicy,
    CopiedSource,
    DeletionPolicy,
    ImmutablePolicy,
    Mode,
    RuleSpec,
    Targets,
    copies_kind,
    parse_rule,
    template_texts,
)
from copyrator.api.schema import InvalidSpec
from copyrator.api.selectors import Globs, LabelSelector
from hostile.mangled import JSON

META = {"name": "main-rule", "namespace": "ops"}
SECRET = {"kind": "Secret", "name": "registry-creds"}


def rule(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "flant.com/v1", "kind": "CopyratorRule", "metadata": META, **fields}


def good(**spec: Any) -> dict[str, Any]:
    return rule(spec={"source": SECRET, "targets": EVERYWHERE, **spec})


def parsed(body: Any) -> RuleSpec:
    spec = parse_rule(body)
    assert isinstance(spec, RuleSpec), spec
    return spec


LABELS = LabelSelector.from_labels({"app": "x", "tier": "y"})

OLD_FORMS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("labels as a map", {"selector": {"app": "x", "tier": "y"}}, ("ops",)),
    ("labels as a string", {"selector": "app=x,tier=y"}, ("ops",)),
    ("labels as a string with spaces", {"selector": " app = x , tier=y, "}, ("ops",)),
    ("one namespace", {"selector": "app=x,tier=y", "namespace": "a"}, ("a",)),
    ("a list", {"selector": "app=x,tier=y", "namespace": ["b", "a"]}, ("b", "a")),
    ("the schema's word", {"selector": "app=x,tier=y", "namespaces": ["a", "b"]}, ("a", "b")),
    (
        "both words mean both lists",
        {"selector": "app=x,tier=y", "namespace": ["b", "a"], "namespaces": ["a", "c"]},
        ("b", "a", "c"),
    ),
    ("empty lists mean its own", {"selector": "app=x,tier=y", "namespaces": []}, ("ops",)),
]


@pytest.mark.parametrize(("case", "fields", "namespaces"), OLD_FORMS)
def test_the_old_form_is_read_unchanged(
    case: str, fields: dict[str, Any], namespaces: tuple[str, ...]
) -> None:
    spec = parsed(rule(ruleType="configmap", **fields))
    assert spec.legacy
    assert spec.source is not None
    assert (spec.kind, spec.api_version) == ("ConfigMap", "v1")
    assert spec.source.namespaces == namespaces
    assert spec.source.name is None
    assert spec.source.selector == LABELS
    assert spec.max_delete == 50


@pytest.mark.parametrize("word", ["secret", "Secret", "SECRET"])
def test_the_rule_type_is_read_in_any_letter_case(word: str) -> None:
    assert parsed(rule(ruleType=word, selector="a=b")).kind == "Secret"


def test_the_smallest_good_form_has_the_documented_defaults() -> None:
    spec = parsed(good())
    assert not spec.legacy
    assert spec.template is None
    assert spec.source is not None
    assert spec.source.namespaces == ("ops",)
    assert spec.source.name == "registry-creds"
    assert spec.api_version == "v1"
    assert spec.targets.matches("anything", None)
    assert spec.transform.name is None
    assert spec.on_conflict is ConflictPolicy.SKIP
    assert spec.on_immutable is ImmutablePolicy.FAIL
    assert spec.deletion_policy is DeletionPolicy.DELETE
    assert (spec.limit, spec.mode, spec.suspend) == (100_000, Mode.APPLY, False)
    assert spec.max_delete == 50
    elsewhere = parsed(good(source={**SECRET, "namespace": "x"})).source
    assert elsewhere is not None
    assert elsewhere.namespaces == ("x",)


def test_every_field_of_the_good_form_is_read() -> None:
    spec = parsed(
        rule(
            spec={
                "source": {
                    "kind": "Secret",
                    "apiVersion": "v1",
                    "namespaces": ["b", "a"],
                    "selector": {
                        "matchLabels": {"app": "x"},
                        "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
                    },
                },
                "targets": {
                    "namespaces": ["team-*"],
                    "exclude": ["team-old"],
                    "selector": {"matchLabels": {"copy": "yes"}},
                },
                "transform": {
                    "name": "{{ source.name }}-copy",
                    "type": "Opaque",
                    "keys": {"include": ["a", "b*"], "exclude": ["bc"], "rename": {"a": "z"}},
                    "labels": {"add": {"l": ""}, "remove": ["helm.sh/*"]},
                    "annotations": {"add": {"a": "any text"}, "remove": ["b"]},
                },
                "onConflict": "Adopt",
                "onImmutable": "Recreate",
                "deletionPolicy": "Orphan",
                "limit": 7,
                "maxDelete": "5%",
                "mode": "Plan",
                "suspend": True,
            }
        )
    )
    assert spec.source is not None
    assert spec.source.namespaces == ("b", "a")
    assert spec.source.selector is not None
    assert spec.source.selector.to_string() == "app=x,!old"
    assert spec.targets.matches("team-a", {"copy": "yes"})
    assert not spec.targets.matches("team-a", {})
    assert not spec.targets.matches("team-old", {"copy": "yes"})
    assert not spec.targets.matches("my-team-a", {"copy": "yes"})
    assert spec.transform.name == "{{ source.name }}-copy"
    assert spec.transform.type == "Opaque"
    assert spec.transform.keys.include.matches("bx")
    assert spec.transform.keys.exclude.matches("bc")
    assert spec.transform.keys.rename == {"a": "z"}
    assert spec.transform.labels.add == {"l": ""}
    assert spec.transform.labels.remove.matches("helm.sh/chart")
    assert spec.transform.annotations.add == {"a": "any text"}
    assert spec.on_conflict is ConflictPolicy.ADOPT
    assert spec.on_immutable is ImmutablePolicy.RECREATE
    assert spec.deletion_policy is DeletionPolicy.ORPHAN
    assert (spec.limit, spec.mode, spec.suspend) == (7, Mode.PLAN, True)
    assert spec.max_delete == 5


TEMPLATE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "ad-kubernetes-{{ namespace.name }}", "labels": {"empty": ""}},
}


def test_a_template_is_kept_as_it_is_written() -> None:
    spec = parsed(rule(spec={"template": TEMPLATE, "targets": EVERYWHERE}))
    assert spec.source is None
    assert spec.template is not None
    assert spec.template.body == TEMPLATE
    assert (spec.kind, spec.api_version) == ("RoleBinding", "rbac.authorization.k8s.io/v1")


def test_the_built_in_api_version_is_filled_in_and_others_are_left_to_discovery() -> None:
    for kind, wanted in (("NetworkPolicy", "networking.k8s.io/v1"), ("Widget", None)):
        spec = parsed(good(source={"kind": kind, "name": "x"}))
        assert spec.api_version == wanted


def test_sources_are_read_in_order_with_the_rules_namespace_as_default() -> None:
    one = {"as": "hub", "kind": "Secret", "name": "creds"}
    many = {
        "as": "many_2",
        "kind": "Gizmo",
        "apiVersion": "e.io/v1",
        "namespace": "infra",
        "selector": {"matchLabels": {"a": "b"}},
        "optional": True,
    }
    spec = parsed(rule(spec={"template": TEMPLATE, "sources": [one, many], "targets": EVERYWHERE}))
    hub, other = spec.sources
    assert (hub.alias, hub.namespace, hub.single, hub.optional) == ("hub", "ops", True, False)
    assert (hub.kind, hub.api_version, hub.name) == ("Secret", "v1", "creds")
    assert (other.alias, other.namespace, other.single) == ("many_2", "infra", False)
    assert (other.optional, other.api_version) == (True, "e.io/v1")
    assert other.selector is not None
    assert other.selector.matches({"a": "b"})
    assert spec.all_sources == (hub, other)
    assert (spec.kind, spec.source) == ("RoleBinding", None)


def template(**fields: Any) -> dict[str, Any]:
    return rule(spec={"template": {**TEMPLATE, **fields}, "targets": EVERYWHERE})


def source(**fields: Any) -> dict[str, Any]:
    return rule(spec={"source": {"kind": "Secret", **fields}, "targets": EVERYWHERE})


@pytest.mark.parametrize(
    ("body", "said"),
    [(None, "spec: is required"), ([], "the object: must be a map, not a list")],
)
def test_what_is_no_rule_is_refused(body: Any, said: str) -> None:
    answer = parse_rule(body)
    assert isinstance(answer, InvalidSpec), answer
    assert str(answer).startswith(said)


def test_null_counts_as_absent() -> None:
    spec = parsed(
        good(
            transform=None,
            onConflict=None,
            limit=None,
            maxDelete=None,
            suspend=None,
            template=None,
        )
    )
    assert spec == parsed(good())


def test_unknown_fields_are_left_to_the_api_server() -> None:
    assert parsed(good(later="x")) == parsed(good())


def test_a_fault_of_the_reader_is_an_invalid_spec_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("copyrator.api.rule_spec._read", broken)
    answer = parse_rule(good())
    assert isinstance(answer, InvalidSpec)
    assert "MemoryError" in answer.message


def test_a_template_of_any_depth_is_refused_rather_than_fatal() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = {"a": deep}
    answer = parse_rule(template(data=deep))
    assert isinstance(answer, InvalidSpec)
    assert "nested" in answer.message


OTHERS = ("metadata", "spec", "ruleType", "Secret", "In", "{{", "{%", "a=b", "team-*", "v1")
WORDS = st.sampled_from([*field_names(RULE), *OTHERS])
LIKE_A_RULE = st.recursive(
    JSON | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=30,
)


@given(JSON | LIKE_A_RULE)
def test_reading_never_raises_whatever_the_json(body: Any) -> None:
    assert isinstance(parse_rule(body), (RuleSpec, InvalidSpec))


@given(LIKE_A_RULE, st.sampled_from(["spec", "source", "template", "targets", "transform"]))
def test_reading_never_raises_whatever_one_part_of_a_rule_is(part: Any, where: str) -> None:
    body = rule(spec=part) if where == "spec" else good(**{where: part})
    if where == "template":
        body["spec"].pop("source")
    assert isinstance(parse_rule(body), (RuleSpec, InvalidSpec))


DIGITS = st.integers(4_290, 5_000).map(lambda count: "9" * count)
BOMBS = st.one_of(
    DIGITS.map("{{{{ {} }}}}".format),
    DIGITS.map("{{{{ 1.{} }}}}".format),
    st.integers(1, 400).map(lambda depth: "{% for a in b %}" * depth + "{% endfor %}" * depth),
    st.integers(1, 3_000).map(lambda depth: "{{ " + "(" * depth + "1" + ")" * depth + " }}"),
    st.sampled_from(["{{a}}", "{{[a,a]}}", "a=b,", "x*", "k.", "{%", "{#", "\x00", "🙂", "["]).map(
        lambda word: word * (1_000_000 // len(word))
    ),
)
PLACES = st.sampled_from(
    ["spec", "source", "template", "targets", "transform", "selector", "name", "kind", "many"]
)


def put(bomb: Any, where: str) -> Any:
    """A rule with something in one of its places."""
    match where:
        case "spec":
            return rule(spec=bomb)
        case "template":
            return template(data={"key": bomb, str(bomb): "x"})
        case "source" | "kind" | "name":
            return source(**({} if where == "source" else {where: bomb}))
        case "selector":
            return {"metadata": {}, "ruleType": "secret", "selector": bomb}
        case "many":
            return template(data=[bomb, {"a": bomb}] * 5)
        case _:
            return good(**{where: {"namespaces": [bomb], "name": bomb, "keys": {bomb: bomb}}})


@pytest.mark.measures
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(BOMBS, PLACES)
def test_whatever_a_rule_holds_it_is_read_at_once(bomb: Any, where: str) -> None:
    body = put(bomb, where)
    assert isinstance(parse_rule(body), (RuleSpec, InvalidSpec))
    assert_quick(lambda: parse_rule(body), 5 * STEP_SECONDS)


@pytest.mark.parametrize("percent", [0, 1, 9, 10, 50, 99, 100])
def test_the_share_that_an_edit_may_delete_is_a_percentage(percent: int) -> None:
    assert parsed(good(maxDelete=f"{percent}%")).max_delete == percent


def test_targets_are_told_in_few_words() -> None:
    def told(**targets: Any) -> str:
        return parsed(good(targets=EVERYWHERE | targets)).targets.to_string()

    assert told() == "every namespace"
    assert told(exclude=["kube-*", "x"]) == "every namespace except kube-*, x"
    labels = {"matchLabels": {"a": "b", "c": "d"}}
    assert told(namespaces=["team-*"], selector=labels) == "team-* with labels a=b,c=d"
    five = [f"team-{number}" for number in range(5)]
    assert told(namespaces=five) == "team-0, team-1, team-2, team-3, team-4"
    assert told(namespaces=[*five, "x"]) == f"{told(namespaces=five)} and 1 more"


def nested(depth: int, *, lists: bool) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


@pytest.mark.parametrize("lists", [False, True])
def test_all_texts_of_a_template_are_found_down_to_the_greatest_depth(lists: bool) -> None:
    root = {"first": ["x", {"k": "y"}, "z"], "deep": nested(RULE_DEPTH - 1, lists=lists)}
    found = [text for _, text in template_texts(root, "spec")]
    assert sorted(set(found) - {"a"}) == ["deep", "first", "k", "x", "y", "z"]

    root = {"deep": nested(RULE_DEPTH, lists=lists)}
    with pytest.raises(Exception, match=f"^spec: is nested more than {RULE_DEPTH} levels deep$"):
        list(template_texts(root, "spec"))


def test_what_is_beside_a_text_is_counted_too() -> None:
    items = [[] for _ in range(RULE_VALUES)]
    targets = {"namespaces": "text", "exclude": items}
    said = f"spec: has more than {RULE_VALUES} values; reduce it"
    assert str(parse_rule(good(targets=targets))) == said
    assert str(parse_rule(good(targets=targets | {"exclude": items[:-9]}))) != said


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (good(), ("Secret", "v1")),
        (good(source={"kind": "Thing"}), ("Thing", None)),
        (good(source={"kind": "Thing", "apiVersion": "a.b/v1"}), ("Thing", "a.b/v1")),
        (good(source={"kind": "Thing", "apiVersion": "-"}), None),
        (good(source={"kind": "-"}), None),
        (template(kind="ConfigMap", apiVersion="v1"), ("ConfigMap", "v1")),
        (rule(ruleType="secret"), ("Secret", "v1")),
        (rule(ruleType="ConfigMap"), ("ConfigMap", "v1")),
        (rule(ruleType="x"), None),
        (rule(ruleType=5), None),
        ([], None),
        ({}, None),
    ],
)
def test_the_kind_of_the_copies_is_known_without_the_rest(
    body: Any, kind: tuple[str, str | None] | None
) -> None:
    assert copies_kind(body) == kind


SELECTED = CopiedSource("Secret", namespace="a", selector=LabelSelector.from_labels({"k": "v"}))


@pytest.mark.parametrize(
    ("source", "namespace", "name", "labels", "means"),
    [
        (CopiedSource("Secret", listed=("a", "b"), name="x"), "b", "x", None, True),
        (CopiedSource("Secret", listed=("a", "b"), name="x"), "c", "x", None, False),
        (CopiedSource("Secret", namespace="a", name="x"), "a", "y", None, False),
        (SELECTED, "a", "y", {"k": "v"}, True),
        (SELECTED, "a", "y", {"k": "w"}, False),
        (CopiedSource("Secret", namespace="a", selector=LabelSelector()), "a", "y", None, True),
    ],
)
def test_a_source_means_what_it_names_or_selects(
    source: CopiedSource, namespace: str, name: str, labels: dict[str, str] | None, means: bool
) -> None:
    assert source.means(namespace, name, labels) is means


def test_a_source_in_another_cluster_means_no_object_of_this_one() -> None:
    spec = parsed(good(source={**SECRET, "kubeConfig": {"secretName": "hub"}}))
    assert spec.kubeconfigs == (KubeconfigRef("hub", "value"),)
    assert spec.source is not None
    assert spec.source.cluster == " in the cluster of kubeconfig hub"
    assert not spec.source.means("ops", SECRET["name"], {})


def test_a_rule_without_a_usable_namespace_is_in_default() -> None:
    bodies = [good() | {"metadata": {"namespace": namespace}} for namespace in ("", 5, None)]
    for body in (*bodies, {"ruleType": "secret", "selector": {"a": "b"}}):
        source = parsed(body).source
        assert source is not None
        assert source.namespaces == ("default",)


def test_targets_of_four_hundred_characters_are_shown_whole() -> None:
    def shown(length: int) -> str:
        return Targets(namespaces=Globs(("a" * length,))).to_string()

    assert shown(MAX_TARGETS_TEXT) == "a" * MAX_TARGETS_TEXT
    assert shown(MAX_TARGETS_TEXT + 1) == "a" * (MAX_TARGETS_TEXT - 1) + "…"
