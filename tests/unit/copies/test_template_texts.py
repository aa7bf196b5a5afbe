"""How the texts of templates compile, render and are typed, and what is said of one that fails."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.rule_spec import NAME_TEXT
from copyrator.copies.rules.admission import COMPILED_AT_ONCE
from copyrator.copies.template.compiling import (
    ENVIRONMENT,
    TENANT_FILTERS,
    TENANT_VARIABLES,
    compile_text,
    compile_texts,
    name_refusal,
)
from copyrator.copies.template.rendering import (
    Composing,
    Text,
    Tree,
    checked_name,
    namespace_context,
    source_context,
)
from copyrator.copies.template.sandbox import readable_message
from copyrator.copies.template.scope import TemplateError

# --- Jinja2 becomes code, or an error of its own text; nothing of it is run meanwhile -------------


NESTED_LOOPS = "{% for a in b %}" * 21 + "{% endfor %}" * 21


def test_nothing_is_run_while_compiling(monkeypatch):
    ran = []
    monkeypatch.setitem(ENVIRONMENT.filters, "center", lambda *args: ran.append(args))
    compile_text("{{ 'x'|center(1000000000) }}{% if 'x'|center(9) %}{{ 2 * 3 }}{% endif %}")
    assert ran == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 1 < 2 in [2] }}", "put each comparison with in into parentheses"),
        ("{{ 1 in [1] == true }}", "put each comparison with in into parentheses"),
        ("{{ 1 == 1 not in [1] }}", "put each comparison with in into parentheses"),
        ("{{ " + "9" * 4301 + " }}", "it has a number with thousands of digits"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "it is nested too deeply"),
        (NESTED_LOOPS, "Python can't compile it: too many statically nested blocks"),
        ("{% include 'a' %}", "include isn't available in rules"),
        ("{% import 'x' as x %}", "import isn't available in rules"),
        (
            "{% autoescape 'x'|center(9) %}{% endautoescape %}",
            "autoescape isn't available in rules",
        ),
        ("{{ 'x'|urlize }}", "No filter named 'urlize'"),
        ("{{ 'x'|uper }}", "No filter named 'uper'; did you mean upper?"),
        ("{{ 'x' is definde }}", "No test named 'definde'; did you mean defined?"),
        ("{{", "unexpected 'end of template'"),
    ],
)
def test_what_is_no_text_says_why(text, message):
    whole = f"isn't valid Jinja2: {message}"
    with pytest.raises(TemplateError) as error:
        compile_text(text)
    assert str(error.value) == whole
    found = compile_texts([text, "{{ a }}"])
    assert found[text] == whole
    assert found["{{ a }}"] == compile_text("{{ a }}")
    assert Text("{{ a }}", found["{{ a }}"]).render({"a": "b"}) == "b"


DENSE = ["{{a}}", "{{[a,a]}}", "{{a|d}}", "{{a==a}}", "{{a~a}}", "{%set a=1%}", "{{a()}}", "{{-a}}"]


@pytest.mark.measures
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(DENSE), min_size=1, max_size=4))
def test_the_longest_text_that_is_compiled_at_once_takes_one_step(words):
    text = "".join(words) * COMPILED_AT_ONCE
    text = text[: COMPILED_AT_ONCE // len("".join(words)) * len("".join(words))]
    assert_quick(lambda: compile_text(text), 5 * STEP_SECONDS)


# --- How texts and trees render -------------------------------------------------------------------


CONTEXT = {"namespace": namespace_context("team-a", {"tier": "front"}, {"owner": "ops"})}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("a\r\n{{ namespace.name }}\r\n", "a\r\nteam-a\r\n"),
        ("{{ namespace.name }}\r\nb\rc\n\r\n", "team-a\r\nb\rc\n\r\n"),
        ("{{ 'a\r\nb' }}|", "a\r\nb|"),
        ("{{ namespace.name }}{{ 'a\\r\\nb' }}", "team-aa\r\nb"),
        ("{%- if\r\n true -%}\r\n x\r\n{% endif\r\n%}", "x\r\n"),
        ("{# a\r\n #}{% raw %}{{\r\n{% endraw %}", "{{\r\n"),
        ("\x1f\x1e\r{{ namespace.name }}", "\x1f\x1e\rteam-a"),
        ("{{ namespace.annotations.lines }}|", "a\r\nb\rc\n|"),
        ("{{ namespace.annotations.lines | indent(2) }}|", "a\r\n  b\rc\n|"),
        ("{{ 'a\r\n\r\nb\n' | indent }}|", "a\r\n\r\n    b\n|"),
        ("{{ 'a\nb\n' | indent('> ', true, true) }}|", "> a\n> b\n> |"),
        ("{{ 'a b\r\nc d\n\r\ne f' | wordwrap(1) }}|", "a\r\nb\r\nc\nd\n\r\ne\r\nf|"),
        ("{{ 'a\u2028b\r\n' | wordwrap }}|", "a\u2028b|"),
        ("{{ 'a b\r\nc' | wordwrap(1, wrapstring='; ') }}|", "a; b; c|"),
        ("{{ 'a b\n\nc\n' | wordwrap(1) }}|{{ '' | wordwrap }}|", "a\nb\n\nc||"),
    ],
)
def test_line_ends_stay_as_written(text, rendered):
    lines = namespace_context("team-a", {}, {"lines": "a\r\nb\rc\n"})
    assert Text(text).render({"namespace": lines}) == rendered


def test_a_text_with_carriage_returns_and_every_rare_space_is_an_error():
    with pytest.raises(TemplateError, match="too many sorts of white space"):
        Text("\r\x1f\x1e\x1d\x1c\u2000\u2001\u2002\u2003{{ namespace.name }}")


def test_a_tree_renders_keys_and_values_and_keeps_other_types():
    tree = Tree(
        {
            "kind": "ResourceQuota",
            "metadata": {"name": "q", "labels": {"for-{{ namespace.name }}": "yes"}},
            "spec": {"hard": {"pods": 5}, "list": ["{{ namespace.name }}", 1, True, None, []]},
        }
    )
    assert tree.render(CONTEXT) == {
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "labels": {"for-team-a": "yes"}},
        "spec": {"hard": {"pods": 5}, "list": ["team-a", 1, True, None, []]},
    }
    assert tree.names == {"namespace"}


def test_two_keys_that_are_rendered_alike_are_an_error():
    tree = Tree({"a": {"x{{ namespace.name }}": 1, "xteam-a": 2}})
    with pytest.raises(TemplateError, match="two keys"):
        tree.render(CONTEXT)


@pytest.mark.parametrize(
    ("name", "kind", "good"),
    [
        ("a.b-c", "ConfigMap", True),
        ("Upper", "ConfigMap", False),
        ("", "ConfigMap", False),
        ("x" * 254, "ConfigMap", False),
        ("system:view", "Role", True),
        ("system:view", "ConfigMap", False),
        ("a/b", "Role", False),
        ("..", "RoleBinding", False),
        (".", "Role", False),
        ("a%b", "Role", False),
        ("", "Role", False),
        ("x" * 253, "Role", True),
        ("x" * 254, "Role", False),
    ],
)
def test_rendered_names_are_checked(name, kind, good):
    if good:
        assert checked_name(name, kind) == name
    else:
        with pytest.raises(TemplateError, match="name"):
            checked_name(name, kind)


# --- A template's unknown names are reported in Kubernetes' words ---------------------------------


SEEN = {
    "namespace": namespace_context("team-a", {"stage": "prod"}, {}),
    "source": source_context({"name": "creds", "namespace": "default"}, "Secret"),
    "rule": {"name": "r", "namespace": "default"},
}


def test_variables_that_are_no_maps_are_passed_over():
    said = "'dict object' has no attribute 'team'"
    context = {"sources": object(), **SEEN}
    assert readable_message(said, "{{ namespace.labels.team }}", context) == (
        "namespace team-a has no label team"
    )
    assert readable_message(said, "{{ x.team }}", context) == said


def test_where_data_is_revealed_only_names_of_the_text_are_told():
    for name, said in (("team", "unknown variable team; known variables: "), ("secret", "")):
        found = readable_message(f"'{name}' is undefined", "{{ team }}", {}, reveals=True)
        assert found == (said or "something in it is undefined")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ namespace.labels.team }}", "namespace team-a has no label team"),
        ("{{ namespace.labels['a.b/c'] }}", "namespace team-a has no label a.b/c"),
        ('{{ source.annotations["x"] }}', "source creds has no annotation x"),
        (
            "{{ namespace.labels.stage }}{{ source.labels.stage }}",
            "source creds has no label stage",
        ),
        (
            "{{ namespace.lables.team }}",
            (
                "unknown field namespace.lables; known fields: name, labels, annotations; "
                "did you mean labels?"
            ),
        ),
        ("{{ rule.labels }}", "unknown field rule.labels; known fields: name, namespace"),
        ("{{ team }}", "unknown variable team; known variables: namespace, rule, source"),
        ("{% set x = {} %}{{ x.a }}", "'dict object' has no attribute 'a'"),
        (
            "{% set x = {} %}{{ rule.name }}{{ x.name }}",
            "'dict object' has no attribute 'name'",
        ),
    ],
)
def test_an_unknown_name_is_said_in_kubernetes_words(text, message):
    with pytest.raises(TemplateError) as error:
        Text(text).render(SEEN)
    assert str(error.value) == f"{text!r}: {message}"


# --- Numbers and booleans in templates: a whole expression keeps its type unless a text is wanted -


VALUES = {
    "namespace": namespace_context(
        "team-a",
        {"port": "8080", "half": "0.5", "on": "true", "word": "x", "empty": "", "n": "-1"},
        {"size": "3"},
    ),
    "rule": {"name": "r", "namespace": "copyrator"},
}
NO_LABEL = "has no label none"


def service(port):
    """What a port of a Service is rendered to."""
    tree = Tree({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": port}]}})
    return tree.render(VALUES)["spec"]["ports"][0]["port"]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{{ 9090 }}", 9090),
        ("  {{- 9090 -}}  ", 9090),
        ("{{ namespace.labels.port | int }}", 8080),
        ("{{ namespace.labels.port | number }}", 8080),
        ("{{ namespace.labels['port'] | int + 1 }}", 8081),
        ("{{ (namespace.labels.port | number) * 2 }}", 16160),
        ("{{ (namespace.labels.port | number) / 2 }}", 4040),
        ("{{ namespace.labels.none | default(80) | number }}", 80),
        ("{{ namespace.labels.n | number }}", -1),
        ("{{ 5 if namespace.labels.on == 'true' else 7 }}", 5),
        ("{{ 9223372036854775807 }}", 2**63 - 1),
        ("{{ -9223372036854775808 }}", -(2**63)),
    ],
)
def test_a_number_that_is_the_whole_text_stays_a_number(text, made):
    found = service(text)
    assert (found, type(found)) == (made, int)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{{ true }}", True),
        ("{{ namespace.labels.on | bool }}", True),
        ("{{ not namespace.labels.on | bool }}", False),
        ("{{ 'port' in namespace.labels }}", True),
        ("{{ namespace.labels.none is defined }}", False),
    ],
)
def test_a_boolean_that_is_the_whole_text_stays_a_boolean(text, made):
    tree = Tree(
        {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": text}
    )
    assert tree.render(VALUES)["automountServiceAccountToken"] is made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("9090", "9090"),
        ("{{ '9090' }}", "9090"),
        ("{{ namespace.labels.port }}", "8080"),
        ("{{ namespace.labels.port | int | string }}", "8080"),
        ("{{ 90 }}{{ 90 }}", "9090"),
        (" {{ 9090 }}", " 9090"),
        ("{{ 9090 }}\n", "9090\n"),
        ("{% set x = 5 %}{{ x }}", "5"),
        ("{% if true %}{{ 5 }}{% endif %}", "5"),
        ("{{ none }}", "None"),
        ("{{ [1] }}", "[1]"),
        ("{{ 5 ~ '' }}", "5"),
    ],
)
def test_texts_parts_of_texts_lists_maps_and_none_are_texts_as_before(text, made):
    assert service(text) == made


STRINGS = [
    ({"apiVersion": "v1", "kind": "ConfigMap"}, ("data", "k")),
    ({"apiVersion": "v1", "kind": "Secret"}, ("stringData", "k")),
    ({"apiVersion": "v1", "kind": "Secret"}, ("type",)),
    ({"apiVersion": "v1", "kind": "ResourceQuota"}, ("spec", "hard", "pods")),
    ({"apiVersion": "v1", "kind": "Pod"}, ("spec", "containers", 0, "env", 0, "value")),
    ({"apiVersion": "apps/v1", "kind": "Deployment"}, ("metadata", "annotations", "a")),
    (
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        ("spec", "template", "metadata", "labels", "a"),
    ),
    ({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}, ("rules", 0, "verbs", 0)),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("metadata", "labels", "a")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "metadata", "annotations", "a")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "pod", "env", 0, "value")),
]
TYPED = [
    ({"apiVersion": "apps/v1", "kind": "Deployment"}, ("spec", "replicas")),
    ({"apiVersion": "v1", "kind": "Service"}, ("spec", "ports", 0, "targetPort")),
    (
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"},
        ("spec", "ingress", 0, "ports", 0, "port"),
    ),
    ({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}, ("spec", "maxUnavailable")),
    ({"apiVersion": "v1", "kind": "ConfigMap"}, ("immutable",)),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "replicas")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "list", 0)),
]


def at(start, path, value):
    """An object with a value at a path."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return {"metadata": {"name": "x"}, **start, **value}


def read(value, path):
    for step in path:
        value = value[step]
    return value


def rendered(start, path, text):
    """Whether the rule reads sources makes no difference."""
    tree = Tree(at(start, path, text))
    found = read(tree.render(VALUES), path)
    composing = Composing({}, datetime(2026, 6, 1, tzinfo=UTC))
    for _ in range(2):
        again = read(composing.render(tree, start["kind"], VALUES), path)
        assert (again, type(again)) == (found, type(found))
    return found


@pytest.mark.parametrize(("start", "path"), STRINGS)
@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{{ 5 }}", "5"),
        ("{{ namespace.annotations.size | int }}", "3"),
        ("{{ 0.5 }}", "0.5"),
        ("{{ true }}", "True"),
        ("{{ 99999999999999999999 }}", "9" * 20),
    ],
)
def test_where_a_string_is_wanted_a_number_is_written_as_before(start, path, text, made):
    assert rendered(start, path, text) == made


@pytest.mark.parametrize(("start", "path"), TYPED)
@pytest.mark.parametrize(("text", "made"), [("{{ 5 }}", 5), ("{{ true }}", True)])
def test_where_no_string_is_wanted_a_number_or_boolean_stays_one(start, path, text, made):
    found = rendered(start, path, text)
    assert (found, type(found)) == (made, type(made))


def test_keys_are_always_texts():
    tree = Tree({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"{{ 5 }}": "{{ 5 }}"}})
    assert tree.render(VALUES)["spec"] == {"5": 5}


def test_a_fraction_stays_one_in_a_custom_resource():
    tree = Tree({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": "{{ 4 / 2 }}"}})
    assert repr(tree.render(VALUES)["spec"]["a"]) == "2.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ 9223372036854775808 }}", "has over 64 bits"),
        ("{{ -9223372036854775809 }}", "has over 64 bits"),
        ("{{ '1e999' | float }}", "the result is inf"),
        ("{{ 'nan' | float }}", "the result is nan"),
        ("{{ namespace.labels.word | number }}", "isn't a number"),
        ("{{ namespace.labels.empty | number }}", "isn't a number"),
        ("{{ '1e9' | number }}", "isn't a number"),
        ("{{ '1_000' | number }}", "isn't a number"),
        ("{{ '٣' | number }}", "isn't a number"),
        ("{{ ('9' * 19) | number }}", "isn't a number"),
        ("{{ true | number }}", "takes a text"),
        ("{{ namespace.labels.none | number }}", NO_LABEL),
        ("{{ namespace.labels.word | bool }}", "neither true nor false"),
        ("{{ 1 | bool }}", "takes a text"),
        ("{{ namespace.labels.none | bool }}", NO_LABEL),
    ],
)
def test_what_is_no_number_or_boolean_is_an_error(text, said):
    with pytest.raises(TemplateError, match=said):
        service(text)


@pytest.mark.parametrize(
    ("word", "made"),
    [
        *((word, True) for word in ("true", "True", " TRUE ", "yes", "on", "1")),
        *((word, False) for word in ("false", "False", "no", "off", "0")),
    ],
)
def test_each_spelling_of_a_boolean(word, made):
    assert service(f"{{{{ '{word}' | bool }}}}") is made


@pytest.mark.parametrize(
    ("word", "made"), [("5", 5), (" 5\\n", 5), ("+5", 5), ("-5", -5), ("007", 7), ("0.25", 0.25)]
)
def test_each_spelling_of_a_number(word, made):
    found = service(f"{{{{ '{word}' | number }}}}")
    assert (found, type(found)) == (made, type(made))


def test_data_of_secrets_are_withheld_from_typed_fields_too():
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "a", "name": "s"},
        "data": {"port": "ODA="},
    }
    for filter_ in ("number", "bool", "int", "b64decode | number"):
        tree = Tree(
            at(
                {"apiVersion": "v1", "kind": "Service"},
                ("spec", "port"),
                f"{{{{ sources.s.data.port | {filter_} }}}}",
            )
        )
        with pytest.raises(TemplateError, match="data of a Secret can be used only"):
            Composing({"s": secret}, datetime(2026, 6, 1, tzinfo=UTC)).render(tree, "Service", {})


# --- A tenant's name for its copies holds names and a few filters; what else it holds is named ----


GOOD = [
    "renamed",
    "{{ source.name }}-{{ namespace.name }}",
    "{{ source.labels['app.kubernetes.io/name']|default('app') }}-copy",
    "{{ source.name|lower|replace('_', '-')|truncate(40, true, '') }}",
    "{{ rule.namespace|upper|trim }}{# a word #}",
    "{{ open",
]


@pytest.mark.parametrize("text", GOOD)
def test_names_and_the_listed_filters_are_allowed(text):
    assert name_refusal(text) is None


BAD = [
    ("{% for i in range(9) %}{{ i }}{% endfor %}", "a loop"),
    ("{% if source.name %}a{% endif %}", "a condition"),
    ("{{ 'a' if source.name else 'b' }}", "a condition"),
    ("{% set a = 1 %}", "set"),
    ("{% macro m() %}{% endmacro %}", "a macro"),
    ("{{ source.labels.get('a') }}", "a call"),
    ("{{ source.name ~ source.name }}", "the operator ~"),
    ("{{ source.name + source.name }}", "an operator"),
    ("{{ 'a' * 1000000000 }}", "an operator"),
    ("{{ -1 }}", "an operator"),
    ("{{ source.name == 'a' }}", "a comparison"),
    ("{{ source.name is defined }}", "a test"),
    ("{{ source.name[1:3] }}", "a part that isn't named by a constant"),
    ("{{ source.labels[source.name] }}", "a part that isn't named by a constant"),
    ("{{ source.name|center(1000000000) }}", "the filter 'center'"),
    ("{{ source.name|default(source.namespace) }}", "a filter whose arguments aren't constants"),
    ("{% filter upper %}a{% endfilter %}", "FilterBlock"),
    ("{{ range }}", "the name 'range'"),
    ("{{ 1.5 }}", "a number with a fraction"),
    ("{{ " + "n" * 50 + " }}", f"the name '{'n' * 40}'"),
    ("{{ 1|" + "f" * 50 + " }}", f"the filter '{'f' * 40}'"),
    ("{{ not source }}", "an operator"),
    ("{{ (source, 1) }}", "a list"),
    ("{% set a %}b{% endset %}", "set"),
    ("{{ source.name|default(*[]) }}", "a filter whose arguments aren't constants"),
    ("{{ source.name|default(x=source.name) }}", "a filter whose arguments aren't constants"),
    ("{{ [source.name] }}", "a list"),
    ("{{ {'a': 1} }}", "a map"),
    ("{% include 'a' %}", "Include"),
]


@pytest.mark.parametrize(("text", "named"), BAD)
def test_all_else_is_refused_and_named(text, named):
    why = name_refusal(text)
    assert why == (
        f"spec.transform.name uses {named}: outside the operator's namespace it may contain "
        f"{', '.join(TENANT_VARIABLES)} with their fields and the filters "
        f"{', '.join(TENANT_FILTERS)}"
    )


@pytest.mark.measures
@pytest.mark.parametrize("word", ["{{a}}", "{{source.a}}", "{{source|d}}", "{{[1,1]}}", "("])
def test_the_longest_name_is_judged_in_one_step(word):
    text = "{{" * (word == "(") + word * (NAME_TEXT // len(word) - 1)
    assert_quick(lambda: name_refusal(text), 5 * STEP_SECONDS)
