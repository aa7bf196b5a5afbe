"""Where the limits of rules are, and what is read of some of their parts alone."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.rule_spec import (
    MAX_TARGETS_TEXT,
    RULE_DEPTH,
    RULE_VALUES,
    CopiedSource,
    RuleSpec,
    Targets,
    copies_kind,
    parse_rule,
    template_texts,
)
from copyrator.api.schema import InvalidSpec, SpecError, reader
from copyrator.api.selectors import MAX_GLOB_TEXT, Globs, LabelSelector, globs

META = {"namespace": "ops", "name": "r"}
SOURCE = {"kind": "Secret", "name": "app"}
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def new(**spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"source": SOURCE, "targets": EVERYWHERE, **spec}}


def old(**fields: Any) -> dict[str, Any]:
    return {"metadata": META, "ruleType": "secret", "selector": {"a": "b"}} | fields


def source(**fields: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"source": SOURCE | fields, "targets": EVERYWHERE}}


def template(**fields: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"template": TEMPLATE | fields, "targets": EVERYWHERE}}


@pytest.mark.parametrize(
    ("fields", "namespaces"),
    [({}, ("ops",)), ({"namespace": "x"}, ("x",)), ({"namespaces": ["x", "y"]}, ("x", "y"))],
)
def test_a_source_stands_where_it_says_or_beside_its_rule(
    fields: dict[str, Any], namespaces: tuple[str, ...]
) -> None:
    found = parse_rule(source(**fields))
    assert isinstance(found, RuleSpec)
    assert found.source is not None
    assert found.source.namespaces == namespaces


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (new(), ("Secret", "v1")),
        (new(source={"kind": "Thing"}), ("Thing", None)),
        (new(source={"kind": "Thing", "apiVersion": "a.b/v1"}), ("Thing", "a.b/v1")),
        (new(source={"kind": "Thing", "apiVersion": "-"}), None),
        (new(source={"kind": "-"}), None),
        (template(), ("ConfigMap", "v1")),
        (new(source=None, template=TEMPLATE, sources=[SOURCE]), ("ConfigMap", "v1")),
        (old(), ("Secret", "v1")),
        (old(ruleType="ConfigMap"), ("ConfigMap", "v1")),
        (old(ruleType="x"), None),
        (old(ruleType=5), None),
        ([], None),
        ({}, None),
    ],
)
def test_the_kind_of_the_copies_is_known_without_the_rest(
    body: Any, kind: tuple[str, str | None] | None
) -> None:
    assert copies_kind({**body, "spec": body["spec"]} if "spec" in body else body) == kind


@pytest.mark.parametrize(
    ("source", "namespace", "name", "labels", "means"),
    [
        (CopiedSource("Secret", listed=("a", "b"), name="x"), "b", "x", None, True),
        (CopiedSource("Secret", listed=("a", "b"), name="x"), "c", "x", None, False),
        (CopiedSource("Secret", namespace="a", name="x"), "a", "y", None, False),
        (
            CopiedSource("Secret", namespace="a", selector=LabelSelector.from_labels({"k": "v"})),
            *("a", "y", {"k": "v"}, True),
        ),
        (
            CopiedSource("Secret", namespace="a", selector=LabelSelector.from_labels({"k": "v"})),
            *("a", "y", {"k": "w"}, False),
        ),
        (CopiedSource("Secret", namespace="a", selector=LabelSelector()), "a", "y", None, True),
    ],
)
def test_a_source_means_what_it_names_or_selects(
    source: CopiedSource, namespace: str, name: str, labels: dict[str, str] | None, means: bool
) -> None:
    assert source.means(namespace, name, labels) is means


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


def said(body: dict[str, Any]) -> str:
    found = parse_rule(body)
    return str(found) if isinstance(found, InvalidSpec) else "valid"


@pytest.mark.parametrize("lists", [False, True])
def test_a_rule_has_at_most_so_many_levels(lists: bool) -> None:
    # Below spec.template, which is the first level, and data.
    def deep(depth: int) -> str:
        return said(template(data={"a": nested(depth, lists=lists)}))

    deepest = max(depth for depth in range(RULE_DEPTH + 2) if "levels" not in deep(depth))
    assert deep(deepest + 1) == f"spec.template: is nested more than {RULE_DEPTH} levels deep"
    assert deepest == RULE_DEPTH - 2


@pytest.mark.parametrize("lists", [False, True])
def test_what_is_no_template_has_at_most_so_many_levels(lists: bool) -> None:
    # Below spec.targets, which is the first level.
    def deep(depth: int) -> str:
        return said(new(targets={"namespaces": nested(depth, lists=lists)}))

    assert deep(RULE_DEPTH) == f"spec.targets: is nested more than {RULE_DEPTH} levels deep"
    assert "levels" not in deep(RULE_DEPTH - 1)


def test_what_is_beside_a_text_is_counted_too() -> None:
    items = [[] for _ in range(RULE_VALUES)]
    body = new(targets={"namespaces": "text", "exclude": items})
    assert said(body) == f"spec: has more than {RULE_VALUES} values; reduce it"
    assert said(new(targets={"namespaces": "text", "exclude": items[:-9]})) != said(body)


def test_a_template_has_items_without_a_bound_of_their_own() -> None:
    entries = {f"k{number}": "v" for number in range(1001)}
    assert said(template(data=entries)) == "valid"


def test_values_are_counted_over_all_levels() -> None:
    def of(count: int) -> str:
        parts = {f"part{n}": {f"k{m}": "v" for m in range(100)} for n in range(count // 100)}
        rest = {f"r{m}": "v" for m in range(count % 100)}
        return said(template(data=parts | rest))

    text = f"spec: has more than {RULE_VALUES} values; reduce it"
    counts = range(RULE_VALUES - 400, RULE_VALUES + 1)
    least = counts[bisect_left(counts, True, key=lambda count: of(count) == text)]
    # spec has two values, the template four, its metadata and the targets one, as their list has;
    # and each part is one itself.
    assert least == RULE_VALUES - 9 - least // 100 + 1


def test_a_rule_without_a_usable_namespace_is_in_default() -> None:
    bodies = [new() | {"metadata": {"namespace": namespace}} for namespace in ("", 5, None)]
    for body in (*bodies, {"ruleType": "secret", "selector": {"a": "b"}}):
        found = parse_rule(body)
        assert isinstance(found, RuleSpec)
        assert found.source is not None
        assert found.source.namespaces == ("default",)


def test_targets_of_four_hundred_characters_are_shown_whole() -> None:
    def shown(length: int) -> str:
        return Targets(namespaces=Globs(("a" * length,))).to_string()

    assert shown(MAX_TARGETS_TEXT) == "a" * MAX_TARGETS_TEXT
    assert shown(MAX_TARGETS_TEXT + 1) == "a" * (MAX_TARGETS_TEXT - 1) + "…"


def test_patterns_with_wildcards_have_so_many_characters() -> None:
    read_globs = reader(Globs, globs("", lambda _: None, length=MAX_GLOB_TEXT + 1))

    def read(length: int) -> Globs:
        return read_globs(["*" * length, "literal" * 100])

    assert read(MAX_GLOB_TEXT).names == {"literal" * 100}
    with pytest.raises(SpecError) as error:
        read(MAX_GLOB_TEXT + 1)
    assert str(error.value.invalid) == (
        f": has {MAX_GLOB_TEXT + 1} characters in patterns with wildcards; "
        f"at most {MAX_GLOB_TEXT} are allowed: use fewer or shorter ones"
    )
