"""Where contents of sources may come out, and what messages say of them."""

import json
from datetime import UTC, datetime
from itertools import cycle, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.encoding import b64
from tests.long import LONG

from copyrator.copies.template.rendering import Composing, Tree
from copyrator.copies.template.scope import TemplateError

NOW = datetime(2026, 6, 1, tzinfo=UTC)
VALUE = "hunter2-is-the-value"


def body(kind="Secret", name="creds", data=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"namespace": "infra", "name": name, **metadata},
        "data": {"password": b64(VALUE), "user": b64("robot")} if data is None else data,
        "status": {"x": VALUE},
    }


SETTINGS = body("ConfigMap", "settings", {"region": "eu", "json": '{"a": [1, "b"]}'})
SOURCES = {
    "creds": body(),
    "settings": SETTINGS,
    "none": None,
    "many": [body(name="b"), body(name="c")],
}


def render(part, kind="Secret", sources=SOURCES, **variables):
    metadata = {"name": "made", **part.pop("metadata", {})}
    tree = Tree({"apiVersion": "v1", "kind": kind, "metadata": metadata, **part})
    return Composing(sources, NOW).render(tree, kind, {"namespace": {"name": "team"}, **variables})


def text(jinja, **more):
    """A text in a Secret's stringData."""
    return render({"stringData": {"it": jinja}}, **more)["stringData"]["it"]


def error(part, kind="Secret", **more) -> str:
    with pytest.raises(TemplateError) as caught:
        render(part, kind, **more)
    return str(caught.value)


DATA = "sources.creds.data.password"
WITHHELD = [
    f"{{{{ {DATA} }}}}",
    f"{{{{ {DATA} | b64decode }}}}",
    f"{{{{ {DATA} ~ 'x' }}}}",
    f"{{{{ {DATA} + 'x' }}}}",
    f"{{{{ 'x' + {DATA} }}}}",
    f"{{{{ {DATA} * 2 }}}}",
    f"{{{{ '%s' % {DATA} }}}}",
    f"{{{{ '{{}}'.format({DATA}) }}}}",
    f"{{{{ '{{0._text}}'.format({DATA}) }}}}",
    f"{{{{ {DATA}._text }}}}",
    f"{{{{ {DATA} | attr('_text') }}}}",
    f"{{{{ {DATA}.__class__ }}}}",
    f"{{{{ {DATA} | string }}}}",
    f"{{{{ {DATA} | length }}}}",
    f"{{{{ {DATA} | tojson }}}}",
    f"{{{{ {DATA} | to_json }}}}",
    f"{{{{ {DATA} | to_yaml }}}}",
    f"{{{{ {DATA} | b64decode | from_json }}}}",
    f"{{{{ {DATA} | upper }}}}",
    f"{{{{ {DATA} | int }}}}",
    f"{{{{ {DATA} | list }}}}",
    f"{{{{ {DATA} | urlencode }}}}",
    f"{{{{ {DATA} | e }}}}",
    f"{{{{ {DATA}[0] }}}}",
    f"{{{{ {DATA}[:3] }}}}",
    f"{{{{ {DATA} == 'x' }}}}",
    f"{{{{ {DATA} != 'x' }}}}",
    f"{{{{ {DATA} < 'x' }}}}",
    f"{{{{ 'x' in {DATA} }}}}",
    f"{{{{ {DATA} in ['x'] }}}}",
    f"{{{{ {DATA} is eq('x') }}}}",
    f"{{{{ {DATA} is lower }}}}",
    f"{{{{ {{{DATA}: 1}} }}}}",
    f"{{{{ {{'a': 1}}[{DATA}] }}}}",
    f"{{% if {DATA} %}}yes{{% endif %}}",
    f"{{{{ 'a' if {DATA} else 'b' }}}}",
    f"{{{{ not {DATA} }}}}",
    f"{{{{ [{DATA}] }}}}",
    f"{{{{ [{DATA}] | join }}}}",
    f"{{{{ [{DATA}, {DATA}] | unique | list }}}}",
    f"{{{{ [{DATA}, 'x'] | sort }}}}",
    f"{{{{ [{DATA}, 'x'] | min }}}}",
    f"{{{{ [{DATA}] | map('string') | list }}}}",
    f"{{% for c in {DATA} %}}{{{{ c }}}}{{% endfor %}}",
    "{{ sources.creds.data }}",
    "{{ sources.creds }}",
    "{{ sources.creds.data.values() | list }}",
    "{{ sources.creds.data.items() | list }}",
    "{{ sources.many | map(attribute='data.password') | join }}",
    "{{ sources.many | groupby('data.password') }}",
    "{{ sources.creds.data == sources.many[0].data }}",
    "{{ sources }}",
    "{{ sources | string }}",
    "{{ sources._entries }}",
    f"{{{{ {DATA} | default('x', true) }}}}",
    "{{ sources.creds | merge_dockerconfig }}",
    "{{ sources.creds | pem_bundle(key='password') }}",
]


ELSEWHERE = {
    "metadata of a Secret": (lambda jinja: {"metadata": {"annotations": {"a": jinja}}}, "Secret"),
    "data of a ConfigMap": (lambda jinja: {"data": {"a": jinja}}, "ConfigMap"),
    "another kind": (lambda jinja: {"spec": {"a": jinja}}, "Gizmo"),
}


@pytest.mark.parametrize(
    ("jinja", "where"),
    list(product(WITHHELD, ELSEWHERE))
    if LONG
    else list(zip(WITHHELD, cycle(ELSEWHERE), strict=False)),
)
def test_no_value_of_a_secret_comes_out_elsewhere(jinja, where):
    part, kind = ELSEWHERE[where]
    said = error(part(jinja), kind)
    for value in (VALUE, b64(VALUE), "hunter"):
        assert value not in said


def test_keys_and_other_fields_of_a_secret_hold_no_value_either():
    clear = f"{{{{ {DATA} }}}}"
    for part in (
        {"data": {clear: "eA=="}},
        {"stringData": {"a": {"b": clear}}},
        {"stringData": {"a": [clear]}},
        {"type": clear},
        {"metadata": {"labels": {"a": clear}}},
        {"{{ 'da' ~ 'ta' }}": {"a": clear}},
        {clear: "x"},
    ):
        assert "data of a Secret can be used only" in error(part)


def test_the_data_of_a_secret_may_be_made_of_it():
    made = render(
        {"data": {"a": f"{{{{ {DATA} }}}}"}, "stringData": {"b": f"{{{{ {DATA} | b64decode }}}}"}}
    )
    assert made["data"] == {"a": b64(VALUE)}
    assert made["stringData"] == {"b": VALUE}


def test_metadata_and_keys_of_sources_may_be_read_everywhere():
    jinja = (
        "{{ sources.creds.metadata.name }} {{ sources.creds.data | list | join(',') }} "
        "{{ sources.many | length }}"
    )
    made = render({"data": {"a": jinja}}, "ConfigMap")
    assert made["data"]["a"] == "creds password,user 2"


def test_annotations_that_hold_the_data_in_clear_are_not_there():
    noted = body(annotations={"kubectl.kubernetes.io/last-applied-configuration": VALUE, "a": "b"})
    made = text("{{ sources.creds.metadata.annotations }}", sources={"creds": noted})
    assert made == "{'a': 'b'}"
    assert "has no field status" in error({"stringData": {"a": "{{ sources.creds.status }}"}})


def test_data_of_a_config_map_may_be_used_everywhere():
    made = render(
        {"metadata": {"labels": {"region": "{{ sources.settings.data.region }}"}}}, "ConfigMap"
    )
    assert made["metadata"]["labels"] == {"region": "eu"}


SPOKEN = [
    f"{{{{ {{}}[{DATA} | b64decode] }}}}",
    f"{{{{ ({DATA} | b64decode).nothing }}}}",
    f"{{{{ sources.creds.data[{DATA} | b64decode] }}}}",
    f"{{{{ ('{{:' ~ ({DATA} | b64decode) ~ '}}').format(1) }}}}",
    f"{{{{ {DATA} | b64decode | from_json }}}}",
    f"{{{{ {DATA} | b64decode | b64decode }}}}",
    f"{{{{ ({DATA} | b64decode) | pem_bundle }}}}",
    f"{{{{ ({DATA} | b64decode) | merge_dockerconfig }}}}",
    f"{{{{ ({DATA} | b64decode) | attr(({DATA} | b64decode)) }}}}",
    f"{{{{ 1 + ({DATA} | b64decode) }}}}",
    f"{{{{ ({DATA} | b64decode) | round }}}}",
    f"{{{{ ({DATA} | b64decode)() }}}}",
]


@pytest.mark.parametrize("jinja", SPOKEN)
def test_no_message_quotes_a_value(jinja):
    said = error({"stringData": {"a": jinja}})
    assert "hunter2" not in said
    assert b64(VALUE) not in said


@pytest.mark.parametrize(
    ("jinja", "said"),
    [
        (
            "{{ sources.nobody }}",
            "unknown source nobody; known sources: creds, settings, none, many",
        ),
        ("{{ sources.creds.data.nokey }}", "source creds has no key nokey"),
        ("{{ sources.creds['data']['nokey'] }}", "the source has no key nokey"),
        (
            "{{ sources.creds.data.nokey }}{{ sources.settings.data.nokey }}",
            "the source has no key nokey",
        ),
        ("{{ sources.creds.nofield }}", "source creds has no field nofield"),
        (f"{{{{ {DATA} | from_json }}}}", "source creds (infra/creds), key password isn't JSON"),
        (
            "{{ sources.settings.data.region | b64decode }}",
            "source settings (infra/settings), key region isn't base64",
        ),
        (
            "{{ sources.settings.data.region | from_json }}",
            "source settings (infra/settings), key region isn't JSON",
        ),
        ("{{ nobody | b64encode }}", "unknown variable nobody"),
        ("{{ sources.settings | merge_dockerconfig }}", "source settings (infra/settings) is none"),
        (
            "{{ sources.creds | pem_bundle(key='user') }}",
            "source creds (infra/creds), key user: there is no",
        ),
        ("{{ 1 | pem_bundle }}", "takes a source, a text, or a list"),
    ],
)
def test_messages_name_the_source_and_key(jinja, said):
    assert said in error({"stringData": {"a": jinja}})


@pytest.mark.parametrize(
    ("jinja", "made"),
    [
        (f"{{{{ {DATA} | b64decode }}}}", VALUE),
        ("{{ 'é' | b64encode | b64decode }}", "é"),
        ("{{ (sources.settings.data.json | from_json).a[1] }}", "b"),
        ("{{ {'b': [1, none, true], 'a': 'é'} | to_json }}", '{"a":"é","b":[1,null,true]}'),
        ("{{ {'b': [1, none], 'a': 'é'} | to_yaml }}", "a: é\nb:\n- 1\n- null\n"),
        (f"{{{{ {{'pw': {DATA} | b64decode}} | to_json }}}}", f'{{"pw":"{VALUE}"}}'),
        (f"{{{{ {{'pw': {DATA} | b64decode}} | to_yaml }}}}", f"pw: {VALUE}\n"),
        (f"{{{{ ({DATA} | b64decode).upper() }}}}", VALUE.upper()),
        (f"{{{{ ({DATA} | b64decode)[:7] }}}}", "hunter2"),
        ("{{ sources.none is none }}", "True"),
        ("{{ sources.many | map(attribute='metadata.name') | join(',') }}", "b,c"),
        ("{{ none | b64decode }}{{ none | b64encode }}{{ none | from_json }}", "NoneNoneNone"),
        ("{{ [none] | merge_dockerconfig }}", '{"auths":{}}'),
    ],
)
def test_filters(jinja, made):
    assert text(jinja) == made


@pytest.mark.parametrize(
    "value", ["not base64!", "{{ sources.settings.data.region }}", "aGk", "aGk=!"]
)
def test_data_that_the_api_server_would_refuse_with_a_quotation_is_refused_here(value):
    assert "data.a of a Secret isn't base64" in error({"data": {"a": value}})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("text", "data of a Secret must be a map"),
        ({"a": {"b": "c"}}, "data.a of a Secret must be a text in base64"),
        ({"a": 1}, "data.a of a Secret must be a text in base64"),
    ],
)
def test_data_of_another_type_is_refused(data, said):
    assert error({"data": data}) == said


def test_a_text_that_names_the_target_has_the_form_of_its_place_too():
    jinja = f"{{{{ namespace.name }}}} {{{{ {DATA} | b64decode }}}}"
    assert text(jinja) == f"team {VALUE}"
    assert "data of a Secret can be used only" in error({"data": {"a": jinja}}, "ConfigMap")


@pytest.mark.parametrize(
    "jinja",
    [
        f"{{{{ sources.big.data.x | b64decode {'| b64encode ' * 9}}}}}",
        "{% for i in range(99999) %}{{ sources.big.data.x | b64decode }}{% endfor %}",
        "{% for i in range(9999) %}{{ {'a': sources.big.data.x} | to_yaml }}{% endfor %}",
        "{% for i in range(9999) %}{{ sources.big.data.x | to_json }}{% endfor %}",
        "{% for i in range(9999) %}{{ [sources.big] | pem_bundle(key='x') }}{% endfor %}",
        "{{ range(99999) | list | to_yaml }}",
        "{{ ('[' * 9999) | from_json }}",
    ],
)
def test_no_filter_takes_long(jinja):
    big = {"big": body(data={"x": b64("# " + "x" * 200_000)})}
    assert error({"stringData": {"a": jinja}}, sources=big)


def test_what_does_not_depend_on_the_target_is_rendered_once(monkeypatch):
    from copyrator.copies.template import rendering  # noqa: PLC0415

    rendered = []
    original = rendering.Text.value

    def counted(self, context, meter=None):
        rendered.append(self.source)
        return original(self, context, meter)

    monkeypatch.setattr(rendering.Text, "value", counted)
    tree = Tree(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "{{ namespace.name }}"},
            "stringData": {"a": "{{ sources.creds.metadata.name }}"},
        }
    )
    composing = Composing(SOURCES, NOW)
    for name in ("a", "b", "c"):
        assert (
            composing.render(tree, "Secret", {"namespace": {"name": name}})["metadata"]["name"]
            == name
        )
    assert rendered.count("{{ sources.creds.metadata.name }}") == 1
    assert rendered.count("{{ namespace.name }}") == 3


BIG = "x" * 900_000


@pytest.mark.parametrize(
    ("own", "shared", "said"),
    [
        (
            "{% for i in range(namespace.n) %}{% endfor %}{{ namespace.n }}",
            "{% for i in range(9_000) %}{% endfor %}",
            "takes more than 40000 steps",
        ),
        ("{{ namespace.text }}", "{{ rule.text }}", "longer than 1572864 characters in total"),
    ],
    ids=["steps", "characters"],
)
def test_what_is_too_much_for_one_target_is_not_for_others(own, shared, said):
    """A namespace with many labels, for example, spoils nothing but its own copy."""
    tree = Tree({"kind": "Secret", "stringData": {"a": own, "b": shared}})
    composing, rule = Composing(SOURCES, NOW), {"text": BIG}
    with pytest.raises(TemplateError, match=said):
        composing.render(tree, "Secret", {"namespace": {"n": 15_000, "text": BIG}, "rule": rule})
    found = composing.render(tree, "Secret", {"namespace": {"n": 1, "text": "1"}, "rule": rule})
    assert found["stringData"]["a"] == "1"


def test_what_was_rendered_for_another_target_counts_as_characters_of_this_one():
    tree = Tree({"kind": "Secret", "stringData": {"a": "{{ rule }}", "b": "{{ namespace.text }}"}})
    composing = Composing(SOURCES, NOW)
    composing.render(tree, "Secret", {"namespace": {"text": "x"}, "rule": BIG})
    with pytest.raises(TemplateError, match="in total"):
        composing.render(tree, "Secret", {"namespace": {"text": BIG}, "rule": BIG})


def test_what_fails_by_itself_is_rendered_once(monkeypatch):
    from copyrator.copies.template import rendering  # noqa: PLC0415

    rendered = []
    original = rendering.Text.value
    monkeypatch.setattr(
        rendering.Text,
        "value",
        lambda self, *rest: rendered.append(self.source) or original(self, *rest),
    )
    broken = Tree({"kind": "Secret", "stringData": {"a": "{{ sources.nobody }}"}})
    composing = Composing(SOURCES, NOW)
    for _ in range(2):
        with pytest.raises(TemplateError, match="unknown source nobody"):
            composing.render(broken, "Secret", {})
    assert rendered == ["{{ sources.nobody }}"]


def test_the_same_text_at_two_places_is_not_shared():
    """A text of a Secret's data isn't what the same text in its metadata is."""
    clear = f"{{{{ {DATA} }}}}"
    assert "data of a Secret" in error(
        {"data": {"a": clear}, "metadata": {"annotations": {"b": clear}}}
    )


PRINTED = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


@given(value=PRINTED, jinja=st.sampled_from([*WITHHELD, *SPOKEN]))
def test_no_value_is_ever_in_a_message(value, jinja):
    secret = f"@{value}@"
    sources = {**SOURCES, "creds": body(data={"password": b64(secret)})}
    for part, kind in (
        ({"metadata": {"labels": {"a": jinja}}}, "Secret"),
        ({"stringData": {"a": jinja}}, "Secret"),
    ):
        said = message_of(part, kind, sources)
        assert secret not in said
        assert json.dumps(secret)[1:-1] not in said
        assert b64(secret) not in said


def message_of(part, kind, sources) -> str:
    try:
        render(part, kind, sources=sources)
    except TemplateError as found:
        return str(found)
    return ""
