import pytest

from copyrator.copies.template.rendering import (
    Text,
    Tree,
    checked_name,
    namespace_context,
    source_context,
)
from copyrator.copies.template.scope import TemplateError

CONTEXT = {"namespace": namespace_context("team-a", {"tier": "front"}, {"owner": "ops"})}


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("{}", "{}"),
        ('{"json": true}', '{"json": true}'),
        ("ad-{{ namespace.name }}", "ad-team-a"),
        ("{{ namespace.labels.tier }}", "front"),
        ("{{ namespace.labels['none'] | default('x') }}", "x"),
        ("{% if namespace.annotations.owner == 'ops' %}yes{% endif %}", "yes"),
        ("line\n", "line\n"),
    ],
)
def test_texts_are_rendered(text, rendered):
    assert Text(text).render(CONTEXT) == rendered


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


def test_a_text_knows_the_names_that_it_needs():
    assert Text("{{ source.name }}-{{ namespace.name }}").names == {"source", "namespace"}
    assert Text("plain").names == frozenset()


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


def test_the_variables_of_a_namespace_and_of_a_source_without_metadata():
    assert namespace_context("n", {"a": "b"}, {"c": "d"}) == {
        "name": "n",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
    }
    assert source_context({}, "Secret") == {
        "kind": "Secret",
        "name": "",
        "namespace": "",
        "labels": {},
        "annotations": {},
    }
    metadata = {"name": "n", "namespace": "s", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert source_context({**metadata, "uid": "u"}, "X") == {"kind": "X", **metadata}


def test_all_texts_of_an_object_are_counted_together():
    for tree in ({"a": "{{ 'x' * 250000 }}"}, {"{{ 'x' * 250000 }}": 1}, ["{{ 'x' * 250000 }}"]):
        Tree({"one": tree}).render(CONTEXT)
    four = "{{ 'x' * 250000 }}"
    for tree in (
        {f"a{n}": four for n in range(9)},
        {f"{four}{n}": 1 for n in range(9)},
        {"a": [four] * 9},
    ):
        with pytest.raises(TemplateError, match=r"more than|longer than"):
            Tree(tree).render(CONTEXT)


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


def test_a_long_text_is_shortened_in_its_error():
    for length in (80, 81):
        text = "{{ nothing }}" + "y" * (length - 13)
        with pytest.raises(TemplateError) as error:
            Text(text).render(CONTEXT)
        told = text if length == 80 else text[:79] + "…"
        assert str(error.value).startswith(f"{told!r}: unknown variable nothing; known variables: ")
