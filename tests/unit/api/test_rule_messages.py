"""What the parser of rules says, word for word, and where its limits are."""

from __future__ import annotations

from bisect import bisect_left
from itertools import product
from typing import Any

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.fields import Fields, InvalidSpec, SpecError
from copyrator.api.globs import MAX_GLOB_TEXT, Globs, read_globs
from copyrator.api.rule import RULE_VALUES, copies_kind, parse_rule
from copyrator.api.rule_spec import MAX_TARGETS_TEXT, CopiedSource, RuleSpec, Targets
from copyrator.api.rule_template import template_texts
from copyrator.api.selectors import LabelSelector
from copyrator.settings.limits import RULE_DEPTH

META = {"namespace": "ops", "name": "r"}
SOURCE = {"kind": "Secret", "name": "app"}
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def new(**spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"source": SOURCE, "targets": EVERYWHERE, **spec}}


def old(**fields: Any) -> dict[str, Any]:
    return {"metadata": META, "ruleType": "secret", "selector": {"a": "b"}} | fields


def selector(**expression: Any) -> dict[str, Any]:
    return new(targets={"selector": {"matchExpressions": [expression]}})


def source(**fields: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"source": SOURCE | fields, "targets": EVERYWHERE}}


ENTRY = {"as": "a", "kind": "Secret", "name": "x"}


def composed(*sources: Any) -> dict[str, Any]:
    return {
        "metadata": META,
        "spec": {"template": TEMPLATE, "sources": list(sources), "targets": EVERYWHERE},
    }


def rollout(**fields: Any) -> dict[str, Any]:
    return new(rollout={"steps": ["1", "100%"], **fields})


def template(**fields: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": {"template": TEMPLATE | fields, "targets": EVERYWHERE}}


EMPTY: list[Any] = [{}, {"matchLabels": {}}, {"matchLabels": {}, "matchExpressions": []}]
"""Selectors; ``{matchLable: …}`` is the first, once the API server has dropped the field."""
NOWHERE: list[Any] = [
    None,
    {},
    {"exclude": ["kube-*"]},
    {"namespace": ["team-a"]},
    {"namespaces": []},
    {"namespaces": None},
    {"selector": None},
]
"""``spec.targets`` that don't say which namespaces get a copy."""
NO_KEYS = "is required, or exclude or rename; to copy every key, remove keys"
NO_LABELS = (
    "must name at least one label under matchLabels or matchExpressions; remove it to select by "
    'namespaces alone (["*"] for all)'
)
NO_NAMESPACES = (
    'must say which namespaces get a copy: set namespaces (["*"] for all), or selector with at '
    "least one label under matchLabels or matchExpressions"
)
NO_LABEL = (
    "must name at least one label; without one, everything in the namespace would be copied to "
    "every other"
)
OTHERWISE = "for other conditions use spec.source.selector"
EXPRESSION = "spec.targets.selector.matchExpressions[0]"
LABEL_VALUE = (
    "'-' isn't a valid label value; "
    "use at most 63 letters, digits, '-', '_' and '.', beginning and "
    "ending with a letter or digit"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            old(ruleType="role"),
            (
                "ruleType: must be configmap or secret, not 'role'; other kinds are copied by "
                "spec.source"
            ),
        ),
        (old(selector={}), f"selector: {NO_LABEL}"),
        (old(selector=None), f"selector: {NO_LABEL}"),
        (old(selector=""), f"selector: {NO_LABEL}"),
        (
            old(selector=[]),
            "selector: must be a map of labels or a string key=value, not a list",
        ),
        (old(selector="a"), f"selector: 'a' is not key=value; {OTHERWISE}"),
        (old(selector="-"), f"selector: '-' is not key=value; {OTHERWISE}"),
        (old(selector="a=-"), f"selector: 'a=-' is not key=value: {LABEL_VALUE}; {OTHERWISE}"),
        (old(selector="a=b,a=c"), "selector: requires two values of the label 'a'"),
        (
            old(selector="a=b=c"),
            "selector: 'a=b=c' is not key=value: 'b=c' isn't a valid label value; use at most 63 "
            "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit; "
            + OTHERWISE,
        ),
        (
            old(namespace=["A"]),
            (
                "namespace[0]: 'A' isn't a valid namespace name; "
                "use at most 63 lower-case letters, "
                "digits and '-'"
            ),
        ),
        (old(namespace=5), "namespace: must be a string or a list of strings, not a number"),
        (
            {"metadata": META},
            "spec: is required: set spec.source or spec.template",
        ),
        (
            old(spec={}),
            "spec: can't be combined with the old form; remove ruleType, selector or spec",
        ),
        (new(template=TEMPLATE), "spec.source: set exactly one of spec.source and spec.template"),
        (
            new(targets={"namespaces": ["A"]}),
            (
                "spec.targets.namespaces[0]: 'A' isn't a valid pattern for namespaces; "
                "use lower-case letters, "
                "digits, '-', and the wildcards '*' and '?'"
            ),
        ),
        *((new(targets=targets), f"spec.targets: {NO_NAMESPACES}") for targets in NOWHERE),
        *(
            (
                new(targets=targets | {"selector": selector}),
                f"spec.targets.selector: {NO_LABELS}",
            )
            for targets, selector in product((EVERYWHERE, {}), EMPTY)
        ),
        *(
            (
                new(transform={"keys": keys}),
                f"spec.transform.keys.include: {NO_KEYS}",
            )
            for keys in ({}, {"includes": ["*.crt"]})
        ),
        (
            new(transform={"keys": {"include": []}}),
            "spec.transform.keys.include: must name a key; remove it to copy every key",
        ),
        (
            new(transform={"keys": {"include": ["a/*"]}}),
            (
                "spec.transform.keys.include[0]: 'a/*' isn't a valid pattern for keys; "
                "use letters, digits, "
                "'-', '_', '.', and the wildcards '*' and '?'"
            ),
        ),
        (
            new(transform={"labels": {"remove": ["-?"]}}),
            (
                "spec.transform.labels.remove[0]: '-?' isn't a valid pattern for label or "
                "annotation keys; write the whole "
                "key, with '*' and '?' as wildcards"
            ),
        ),
        (
            selector(operator="In", values=["a"]),
            f"{EXPRESSION}.key: is required",
        ),
        (
            selector(key="-", operator="Exists"),
            (
                f"{EXPRESSION}.key: '-' isn't a valid label key; "
                "use at most 63 "
                "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
            ),
        ),
        (
            selector(key="a"),
            f"{EXPRESSION}.operator: is required: one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            selector(key="a", operator="in"),
            f"{EXPRESSION}.operator: must be one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            selector(key="a", operator="In", values=["b", "-"]),
            f"{EXPRESSION}.values[1]: {LABEL_VALUE}",
        ),
        (
            selector(key="a", operator="NotIn"),
            f"{EXPRESSION}.values: must name at least one value for NotIn",
        ),
        (
            selector(key="a", operator="Exists", values=["b"]),
            f"{EXPRESSION}.values: must be removed: Exists takes no values",
        ),
        (
            source(namespace="a", namespaces=["b"]),
            "spec.source.namespaces: set either namespace or namespaces, not both",
        ),
        (
            source(namespaces=[]),
            (
                "spec.source.namespaces: must name a namespace; remove it to use the rule's own "
                "namespace"
            ),
        ),
        (
            source(namespace="a*"),
            "spec.source.namespace: 'a*' is a pattern; list the namespaces by name",
        ),
        (source(name=None), "spec.source.name: set exactly one of name and selector"),
        (
            source(name=None, selector={}),
            (
                "spec.source.selector: must name at least one label; an empty one would select "
                "everything of this kind; to do so, set {key: …, operator: DoesNotExist}"
            ),
        ),
        (
            new(transform={"name": "x" * 1025}),
            "spec.transform.name: must have at most 1024 characters",
        ),
        (
            new(transform={"keys": {"rename": {"/": "a"}}}),
            (
                "spec.transform.keys.rename: '/' isn't a valid key of a ConfigMap or Secret; use "
                "at most 253 letters, digits, '-', '_' and '.'"
            ),
        ),
        (
            new(transform={"keys": {"rename": {"a": ""}}}),
            "spec.transform.keys.rename[a]: must not be empty; set it or remove the field",
        ),
        (
            new(transform={"labels": {"add": {"operator.werf.dev/guard": "x"}}}),
            (
                "spec.transform.labels.add[operator.werf.dev/guard]: is set by the operator; "
                "remove it"
            ),
        ),
        (
            new(transform={"keys": {"rename": {"a": "c", "b": "c"}}}),
            "spec.transform.keys.rename[b]: collides with a: both would be named c",
        ),
        (
            new(transform={"keys": {"rename": {"a": "c"}, "exclude": ["a"]}}),
            (
                "spec.transform.keys.rename[a]: renames a key that include and exclude filter out; "
                "rename takes the source's keys"
            ),
        ),
        (
            new(transform={"keys": {"exclude": ["/"]}}),
            (
                "spec.transform.keys.exclude[0]: '/' isn't a valid pattern for keys; use "
                "letters, digits, '-', '_', '.', and the wildcards '*' and '?'"
            ),
        ),
        (
            new(transform={"labels": {"add": {"-": "x"}}}),
            (
                "spec.transform.labels.add: '-' isn't a valid label key; use at most 63 "
                "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
            ),
        ),
        (
            new(transform={"labels": {"add": {"app.kubernetes.io/managed-by": "x"}}}),
            (
                "spec.transform.labels.add[app.kubernetes.io/managed-by]: is set by the "
                "operator; remove it"
            ),
        ),
        (
            new(transform={"labels": {"add": {"a": "x"}, "remove": ["a"]}}),
            "spec.transform.labels.add[a]: is both added and removed; remove one of the two",
        ),
        (
            template(apiVersion="-"),
            "spec.template.apiVersion: '-' isn't a valid apiVersion; write it as v1 or group/v1",
        ),
        (
            template(metadata={"name": "x", "namespace": "y"}),
            (
                "spec.template.metadata.namespace: must be removed: the operator sets each "
                "target namespace"
            ),
        ),
        (
            new(transform={"annotations": {"add": {"-": "x"}}}),
            (
                "spec.transform.annotations.add: '-' isn't a valid label key; use at most 63 "
                "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
            ),
        ),
        (
            new(targets={"selector": {"a": "b"}}),
            "spec.targets.selector.a: isn't a field of a selector; put labels under matchLabels",
        ),
        (
            new(targets={"selector": {"matchLabels": {"-": "b"}}}),
            (
                "spec.targets.selector.matchLabels: '-' isn't a valid label key; use at most 63 "
                "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
            ),
        ),
        (
            new(targets={"selector": {"matchLabels": {"a": "-"}}}),
            f"spec.targets.selector.matchLabels[a]: {LABEL_VALUE}",
        ),
        (
            template(status={"a": 1}),
            "spec.template.status: must be removed: the object's controller sets it",
        ),
        (
            new(sources=[ENTRY]),
            ("spec.sources: needs spec.template, which reads them; to copy, set spec.source"),
        ),
        (
            composed(),
            ("spec.sources: must name a source; remove it for a template without sources"),
        ),
        (
            composed(*[ENTRY] * 33),
            "spec.sources: has 33 entries; at most 32 are allowed",
        ),
        (
            composed(ENTRY, ENTRY | {"name": "y"}),
            "spec.sources[1].as: a is the name of an earlier entry; choose another one",
        ),
        (
            composed(ENTRY | {"as": "1"}),
            (
                "spec.sources[0].as: '1' can't be a name in a template; use at most 63 letters, "
                "digits and '_', beginning with a letter"
            ),
        ),
        (
            composed(ENTRY | {"selector": {"matchLabels": {"a": "b"}}}),
            "spec.sources[0].name: set exactly one of name and selector",
        ),
        (
            rollout(steps=None),
            'spec.rollout.steps: is required, for example ["1", "10%", "100%"]',
        ),
        (rollout(steps=["2", "2", "100%"]), "spec.rollout.steps: must increase"),
        (rollout(steps=["2"]), 'spec.rollout.steps: must end with "100%"'),
        (
            rollout(steps=[str(number) for number in range(1, 21)] + ["100%"]),
            "spec.rollout.steps: has 21 steps; at most 20 are allowed",
        ),
        (
            rollout(steps=["101%", "100%"]),
            (
                "spec.rollout.steps[0]: '101%' is neither a number of namespaces, such as 1, nor a "
                "percentage between 1% and 100%"
            ),
        ),
        (
            rollout(pause="169h"),
            "spec.rollout.pause: must be between 1s and 168h",
        ),
        (
            rollout(first={}),
            ("spec.rollout.first: must select some namespaces; set matchLabels, or remove it"),
        ),
        (
            rollout(first={"matchLabels": {"a": "-"}}),
            f"spec.rollout.first.matchLabels[a]: {LABEL_VALUE}",
        ),
    ],
)
def test_a_rule_that_is_wrong_says_where_and_what_to_do(body: dict[str, Any], message: str) -> None:
    found = parse_rule(body)

    assert isinstance(found, InvalidSpec)
    assert str(found) == message


@pytest.mark.parametrize(
    "body",
    [
        old(selector="a=b , c = d,"),
        old(selector="a="),
        old(namespace="one", namespaces=["one", "two"]),
        old(ruleType="SECRET"),
        new(targets={"namespaces": ["a" * 62 + "*", "?-x"]}),
        new(transform={"keys": {"include": ["*.A_-?", "*"]}}),
        new(transform={"labels": {"remove": ["*.x/?", "a*"]}}),
        selector(key="a", operator="In", values=["", "b"]),
        selector(key="a.b/c", operator="DoesNotExist"),
        template(metadata={"name": "x", "namespace": "{{ namespace.name }}"}),
        rollout(steps=["1%", "100%"], pause="1s"),
        rollout(steps=[*map(str, range(1, 20)), "100%"], pause="168h"),
    ],
)
def test_what_is_allowed_is_allowed(body: dict[str, Any]) -> None:
    assert isinstance(parse_rule(body), RuleSpec)


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


def test_a_pattern_is_as_long_as_a_name() -> None:
    assert isinstance(parse_rule(new(targets=EVERYWHERE | {"exclude": ["a" * 63]})), RuleSpec)
    assert isinstance(parse_rule(new(targets=EVERYWHERE | {"exclude": ["a" * 64]})), InvalidSpec)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (new(), ("Secret", "v1")),
        (new(source={"kind": "Thing"}), ("Thing", None)),
        (new(source={"kind": "Thing", "apiVersion": "a.b/v1"}), ("Thing", "a.b/v1")),
        (new(source={"kind": "Thing", "apiVersion": "-"}), None),
        (new(source={"kind": "-"}), None),
        (template(), ("ConfigMap", "v1")),
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


def test_what_is_counted_is_refused_before_it_is_read() -> None:
    labels = {f"l{number}": "x" for number in range(65)}
    body = new(targets={"namespaces": ["a"]})
    body["spec"]["source"] = {"kind": "Secret", "selector": {"matchLabels": labels}}
    assert said(body) == (
        "spec.source.selector.matchLabels: has 65 entries; at most 64 are allowed"
    )
    names = [f"n{number}" for number in range(1001)]
    assert said(old(namespaces=names)) == "namespaces: has 1001 items; at most 1000 are allowed"
    assert said(old(namespace=names)) == "namespace: has 1001 items; at most 1000 are allowed"


def test_a_rule_with_a_source_has_no_template() -> None:
    found = parse_rule(new())
    assert isinstance(found, RuleSpec)
    assert found.template is None


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
    for namespace in ("", 5, None):
        found = parse_rule(
            {
                "metadata": {"namespace": namespace},
                "spec": {"source": SOURCE, "targets": EVERYWHERE},
            }
        )
        assert isinstance(found, RuleSpec)
        assert found.source is not None
        assert found.source.namespaces == ("default",)


def test_a_template_has_no_transform() -> None:
    body = template()
    body["spec"]["transform"] = {}
    assert said(body) == "spec.transform: must be removed: put the changes into spec.template"


@pytest.mark.parametrize(
    ("patterns", "text"),
    [
        (["a", "b", "c", "d", "e"], "a, b, c, d, e"),
        (["a", "b", "c", "d", "e", "f"], "a, b, c, d, e and 1 more"),
    ],
)
def test_targets_name_five_patterns(patterns: list[str], text: str) -> None:
    found = parse_rule(new(targets={"namespaces": patterns}))
    assert isinstance(found, RuleSpec)
    assert found.targets.to_string() == text


def test_targets_of_four_hundred_characters_are_shown_whole() -> None:
    def shown(length: int) -> str:
        return Targets(namespaces=Globs(("a" * length,))).to_string()

    assert shown(MAX_TARGETS_TEXT) == "a" * MAX_TARGETS_TEXT
    assert shown(MAX_TARGETS_TEXT + 1) == "a" * (MAX_TARGETS_TEXT - 1) + "…"


def test_patterns_with_wildcards_have_so_many_characters() -> None:
    def read(length: int) -> Globs:
        fields = Fields({"names": ["*" * length, "literal" * 100]}, "spec")
        return read_globs(fields, "names", lambda _: None)

    assert read(MAX_GLOB_TEXT).names == {"literal" * 100}
    with pytest.raises(SpecError) as error:
        read(MAX_GLOB_TEXT + 1)
    assert str(error.value.invalid) == (
        f"spec.names: has {MAX_GLOB_TEXT + 1} characters in patterns with wildcards; "
        f"at most {MAX_GLOB_TEXT} are allowed: use fewer or shorter ones"
    )
