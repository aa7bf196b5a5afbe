"""A template's unknown names are reported in Kubernetes' words."""

import pytest

from copyrator.copies.policy.rendering import (
    TemplateError,
    Text,
    namespace_context,
    source_context,
)

CONTEXT = {
    "namespace": namespace_context("team-a", {"stage": "prod"}, {}),
    "source": source_context({"name": "creds", "namespace": "default"}, "Secret"),
    "rule": {"name": "r", "namespace": "default"},
}


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
            "namespace has no field lables; there are name, labels, annotations",
        ),
        ("{{ rule.labels }}", "rule has no field labels; there are name, namespace"),
        ("{{ team }}", "there is no variable team; there are namespace, rule, source"),
        ("{% set x = {} %}{{ x.a }}", "'dict object' has no attribute 'a'"),
    ],
)
def test_an_unknown_name_is_said_in_kubernetes_words(text, message):
    with pytest.raises(TemplateError) as error:
        Text(text).render(CONTEXT)
    assert str(error.value) == f"{text!r}: {message}"
