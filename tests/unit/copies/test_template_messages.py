"""A template's unknown names are reported in Kubernetes' words."""

import pytest

from copyrator.copies.template.rendering import Text, namespace_context, source_context
from copyrator.copies.template.sandbox import readable_message
from copyrator.copies.template.scope import TemplateError

CONTEXT = {
    "namespace": namespace_context("team-a", {"stage": "prod"}, {}),
    "source": source_context({"name": "creds", "namespace": "default"}, "Secret"),
    "rule": {"name": "r", "namespace": "default"},
}


def test_variables_that_are_no_maps_are_passed_over():
    said = "'dict object' has no attribute 'team'"
    context = {"sources": object(), **CONTEXT}
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
            "unknown field namespace.lables; known fields: name, labels, annotations; did you mean "
            "labels?",
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
        Text(text).render(CONTEXT)
    assert str(error.value) == f"{text!r}: {message}"
