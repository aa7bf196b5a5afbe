"""Numbers and booleans in templates: a whole expression keeps its type unless a text is wanted."""

from datetime import UTC, datetime

import pytest

from copyrator.api.rule_spec import Transform
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.content import rendered_content
from copyrator.copies.template.rendering import Composing, Tree, namespace_context
from copyrator.copies.template.scope import TemplateError

CONTEXT = {
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
    return tree.render(CONTEXT)["spec"]["ports"][0]["port"]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("{{ 9090 }}", 9090),
        ("{{9090}}", 9090),
        ("{{- 9090 -}}", 9090),
        ("  {{- 9090 -}}  ", 9090),
        ("{# a comment #}{{ 9090 }}", 9090),
        ("{{ namespace.labels.port | int }}", 8080),
        ("{{ namespace.labels.port | number }}", 8080),
        ("{{ namespace.labels['port'] | int + 1 }}", 8081),
        ("{{ (namespace.labels.port | number) * 2 }}", 16160),
        ("{{ (namespace.labels.port | number) / 2 }}", 4040),
        ("{{ namespace.labels.none | default(80) | number }}", 80),
        ("{{ namespace.labels.n | number }}", -1),
        ("{{ 5 if namespace.labels.on == 'true' else 7 }}", 5),
        ("{{ [1, 2, 3] | length }}", 3),
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
        ("{{ false }}", False),
        ("{{ namespace.labels.on | bool }}", True),
        ("{{ not namespace.labels.on | bool }}", False),
        ("{{ namespace.labels.on == 'true' }}", True),
        ("{{ 'port' in namespace.labels }}", True),
        ("{{ namespace.labels.none is defined }}", False),
    ],
)
def test_a_boolean_that_is_the_whole_text_stays_a_boolean(text, made):
    tree = Tree(
        {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": text}
    )
    assert tree.render(CONTEXT)["automountServiceAccountToken"] is made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("9090", "9090"),
        ("{{ '9090' }}", "9090"),
        ("{{ namespace.labels.port }}", "8080"),
        ("{{ namespace.labels.port | int | string }}", "8080"),
        ("{{ 90 }}{{ 90 }}", "9090"),
        ("{{ 90 }}90", "9090"),
        (" {{ 9090 }}", " 9090"),
        ("{{ 9090 }}\n", "9090\n"),
        ("{% set x = 5 %}{{ x }}", "5"),
        ("{% if true %}{{ 5 }}{% endif %}", "5"),
        ("{{ none }}", "None"),
        ("{{ [1] }}", "[1]"),
        ("{{ {'a': 1} }}", "{'a': 1}"),
        ("{{ 5 ~ '' }}", "5"),
    ],
)
def test_texts_parts_of_texts_lists_maps_and_none_are_texts_as_before(text, made):
    assert service(text) == made


STRINGS = [
    ({"apiVersion": "v1", "kind": "ConfigMap"}, ("data", "k")),
    ({"apiVersion": "v1", "kind": "ConfigMap"}, ("binaryData", "k")),
    ({"apiVersion": "v1", "kind": "Secret"}, ("stringData", "k")),
    ({"apiVersion": "v1", "kind": "Secret"}, ("type",)),
    ({"apiVersion": "v1", "kind": "ResourceQuota"}, ("spec", "hard", "pods")),
    ({"apiVersion": "v1", "kind": "LimitRange"}, ("spec", "limits", 0, "max", "cpu")),
    ({"apiVersion": "v1", "kind": "Pod"}, ("spec", "containers", 0, "env", 0, "value")),
    ({"apiVersion": "v1", "kind": "Pod"}, ("spec", "containers", 0, "args", 0)),
    ({"apiVersion": "apps/v1", "kind": "Deployment"}, ("metadata", "annotations", "a")),
    (
        {"apiVersion": "apps/v1", "kind": "Deployment"},
        ("spec", "template", "metadata", "labels", "a"),
    ),
    ({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}, ("rules", 0, "verbs", 0)),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("metadata", "labels", "a")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("metadata", "name")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "metadata", "annotations", "a")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "labels", "a")),
    ({"apiVersion": "example.com/v1", "kind": "Thing"}, ("spec", "pod", "env", 0, "value")),
]
TYPED = [
    ({"apiVersion": "apps/v1", "kind": "Deployment"}, ("spec", "replicas")),
    ({"apiVersion": "apps/v1", "kind": "Deployment"}, ("spec", "paused")),
    ({"apiVersion": "v1", "kind": "Service"}, ("spec", "ports", 0, "targetPort")),
    (
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"},
        ("spec", "ingress", 0, "ports", 0, "port"),
    ),
    ({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}, ("spec", "maxUnavailable")),
    ({"apiVersion": "v1", "kind": "ConfigMap"}, ("immutable",)),
    ({"apiVersion": "v1", "kind": "LimitRange"}, ("spec", "newer")),
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
    found = read(tree.render(CONTEXT), path)
    composing = Composing({}, datetime(2026, 6, 1, tzinfo=UTC))
    for _ in range(2):
        again = read(composing.render(tree, start["kind"], CONTEXT), path)
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


def test_a_list_where_none_is_wanted_keeps_numbers_for_the_api_server_to_refuse():
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"labels": ["{{ 5 }}"]}}
    assert Tree(body).render(CONTEXT)["metadata"]["labels"] == [5]


def test_keys_are_always_texts():
    tree = Tree({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"{{ 5 }}": "{{ 5 }}"}})
    assert tree.render(CONTEXT)["spec"] == {"5": 5}


def test_a_fraction_stays_one_in_a_custom_resource():
    tree = Tree({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": "{{ 4 / 2 }}"}})
    assert repr(tree.render(CONTEXT)["spec"]["a"]) == "2.0"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ 9223372036854775808 }}", "has over 64 bits"),
        ("{{ -9223372036854775809 }}", "has over 64 bits"),
        ("{{ '1e999' | float }}", "the result is inf"),
        ("{{ 'nan' | float }}", "the result is nan"),
        ("{{ namespace.labels.word | number }}", "isn't a number"),
        ("{{ namespace.labels.empty | number }}", "isn't a number"),
        ("{{ 'nan' | number }}", "isn't a number"),
        ("{{ '1e9' | number }}", "isn't a number"),
        ("{{ '0x10' | number }}", "isn't a number"),
        ("{{ '1_000' | number }}", "isn't a number"),
        ("{{ '1 0' | number }}", "isn't a number"),
        ("{{ '٣' | number }}", "isn't a number"),
        ("{{ ('9' * 19) | number }}", "isn't a number"),
        ("{{ true | number }}", "takes a text"),
        ("{{ [1] | number }}", "takes a text"),
        ("{{ namespace.labels.none | number }}", NO_LABEL),
        ("{{ namespace.labels.word | bool }}", "neither true nor false"),
        ("{{ namespace.labels.empty | bool }}", "neither true nor false"),
        ("{{ '2' | bool }}", "neither true nor false"),
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


def test_typed_values_are_content():
    start = {"apiVersion": "v1", "kind": "Service"}
    contents = [
        rendered_content(
            Tree(at(start, ("spec", "ports", 0, "port"), text)).render(CONTEXT),
            Transform(),
            rule="a/r",
            sealer=Sealer(b"k" * 32),
        )
        for text in ("{{ 80 }}", "{{ '80' }}")
    ]
    assert contents[0].digest != contents[1].digest
    assert contents[0].payload == {"spec": {"ports": [{"port": 80}]}}
