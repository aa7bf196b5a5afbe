"""What templates see: sources and filters."""

import base64
import json
from datetime import UTC, datetime
from itertools import cycle, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.runtime import Undefined
from tests.builders.encoding import b64
from tests.long import LONG
from tests.unit.copies.test_pem_and_docker import certificate
from tests.unit.copies.test_template_costs import Bill

from copyrator.copies.template import filters
from copyrator.copies.template.rendering import Composing, Tree
from copyrator.copies.template.scope import (
    Binary,
    Findings,
    Meter,
    PublicCAs,
    Scope,
    SourceText,
    TemplateError,
    Visibility,
    Withheld,
    origin_of,
    source_set,
)

# --- Where contents of sources may come out, and what messages say of them ------------------------


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
    f"{{{{ {DATA} | b64decode | from_json }}}}",
    f"{{{{ {DATA} | int }}}}",
    f"{{{{ {DATA} | list }}}}",
    f"{{{{ {DATA}[0] }}}}",
    f"{{{{ {DATA} == 'x' }}}}",
    f"{{{{ {DATA} < 'x' }}}}",
    f"{{{{ 'x' in {DATA} }}}}",
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


def test_metadata_and_keys_of_sources_and_data_of_config_maps_may_be_read_everywhere():
    jinja = (
        "{{ sources.creds.metadata.name }} {{ sources.creds.data | list | join(',') }} "
        "{{ sources.many | length }} {{ sources.settings.data.region }}"
    )
    made = render({"data": {"a": jinja}}, "ConfigMap")
    assert made["data"]["a"] == "creds password,user 2 eu"


def test_annotations_that_hold_the_data_in_clear_are_not_there():
    noted = body(annotations={"kubectl.kubernetes.io/last-applied-configuration": VALUE, "a": "b"})
    made = text("{{ sources.creds.metadata.annotations }}", sources={"creds": noted})
    assert made == "{'a': 'b'}"
    assert "has no field status" in error({"stringData": {"a": "{{ sources.creds.status }}"}})


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
    broken = Tree({"kind": "Secret", "stringData": {"a": "{{ sources.nobody }}"}})
    composing = Composing(SOURCES, NOW)
    for name in ("a", "b", "c"):
        assert (
            composing.render(tree, "Secret", {"namespace": {"name": name}})["metadata"]["name"]
            == name
        )
        with pytest.raises(TemplateError, match="unknown source nobody"):
            composing.render(broken, "Secret", {})
    assert rendered.count("{{ sources.nobody }}") == 1
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


# --- The filters of our own, by themselves: what each says of a value that it can't take ----------


HALF = "\ud800"
BINARY = base64.b64encode(b"\xff\xfe").decode()
NO_TYPE = "takes maps, lists, texts, numbers, true, false and none"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("b64decode", "%", "a value isn't base64"),
        ("b64decode", BINARY, "a value isn't text in UTF-8 after b64decode"),
        ("b64decode", 1, "b64decode takes a text; a value is none"),
        ("b64encode", HALF, "a value has half of a character"),
        ("from_json", "{", "a value isn't JSON"),
        ("to_json", [HALF], "a value can't be written as JSON"),
        ("to_json", {"a": {1: 2}}, "to_json: the keys of a map must be texts"),
        ("to_json", [Undefined()], "to_json: a value in it is undefined"),
        ("to_json", [object()], f"to_json {NO_TYPE}"),
        ("to_yaml", [HALF], "a value can't be written as YAML"),
        ("number", "5 apples", "a value isn't a number"),
        ("number", [5], "number takes a text; a value is none"),
        ("bool", "maybe", "a value is neither true nor false"),
        ("merge_dockerconfig", Undefined(), "takes a source, a text, or a list of them"),
        ("merge_dockerconfig", 1, "takes a source, a text, or a list of them"),
        (
            "merge_dockerconfig",
            [1],
            "merge_dockerconfig takes Secrets of spec.sources; a value is none",
        ),
        ("merge_dockerconfig", "[]", "a value: .dockerconfigjson has no map auths"),
        ("merge_dockerconfig", "[", "a value: .dockerconfigjson isn't JSON"),
        (
            "merge_dockerconfig",
            '{"auths": {"a": {}, "b": 1}}',
            "a value: an entry of auths in .dockerconfigjson isn't a map",
        ),
        ("pem_bundle", [1], "pem_bundle takes sources, and texts of certificates"),
        ("pem_bundle", [], "pem_bundle: there is no certificate that could be written"),
        (
            "pem_bundle",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-",
            "a value, line 3: isn't a line of a certificate in PEM",
        ),
        (
            "pem_bundle",
            "-----BEGIN CERTIFICATE-----\nAAAA",
            "a value: the last certificate has no end",
        ),
        (
            "pem_bundle",
            "-----BEGIN CERTIFICATE-----\nAAA=\nAAAA\nAAAAA\n-----END CERTIFICATE-----",
            "a value: the certificate up to line 5 isn't base64",
        ),
        (
            "pem_bundle",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
            "a value: a certificate can't be read",
        ),
    ],
)
def test_what_a_filter_says_of_a_value_that_it_cannot_take(name: str, value: Any, said: str):
    with pytest.raises(TemplateError) as caught:
        filters.FILTERS[name](Meter(), value)
    assert str(caught.value) == said


def test_arguments_of_a_bundle():
    for arguments, said in (
        ({"drop_expired": True}, "pem_bundle(drop_expired=true) needs spec.sources"),
        ({"key": 1}, "pem_bundle: key must be a string"),
    ):
        with pytest.raises(TemplateError) as caught:
            filters.pem_bundle(Meter(), [], **arguments)
        assert str(caught.value) == said


def secret(**data: str) -> dict[str, Any]:
    return {
        "kind": "Secret",
        "metadata": {"namespace": "infra", "name": "creds"},
        "data": {key.replace("_", "."): value for key, value in data.items()},
    }


def test_a_value_keeps_its_origin_in_base64():
    where = "source a (infra/creds), key x"
    encoded = filters.b64encode(Meter(), SourceText.of("a", where))
    assert (encoded, origin_of(encoded)) == ("YQ==", where)
    with pytest.raises(TemplateError, match="data of a Secret can be used only"):
        str(filters.b64encode(Meter(), Withheld("a", where)))


DOCKER = '{"auths":{"a":{"auth":"1"},"b":{}}}'
PEM = certificate("a")
PUBLIC = PublicCAs(filters.read_certificates(Meter(), PEM, ""))
DER = len(base64.b64decode("".join(PEM.splitlines()[1:-1])))


def of(kind: str, **data: str) -> Any:
    return source_set({"a": secret(**data) | {"kind": kind}}, clear=True)["a"]


@pytest.mark.parametrize(
    ("name", "value", "key", "entries"),
    [
        ("b64decode", "eHg=", None, [8]),
        ("b64encode", "xxxxxx", None, [2]),
        ("b64encode", Binary(b"x" * 64), None, [21]),
        ("number", " +5", None, [(10, 2)]),
        ("bool", " Yes ", None, [(10, 3)]),
        ("from_json", '{"a":1}', None, [(10, 42), "weigh 8"]),
        ("to_json", {"a": [1, "x"]}, None, ["weigh 17", (10, 102), *[(1, 0)] * 4]),
        ("merge_dockerconfig", DOCKER, None, [(1, 0), (10, 105), (40, 0), "weigh 18"]),
        (
            "merge_dockerconfig",
            of("Secret", _dockerconfigjson=base64.b64encode(DOCKER.encode()).decode()),
            None,
            [(1, 0), (10, 96), (10, 105), (40, 0), "weigh 18"],
        ),
        ("pem_bundle", PEM, None, [(1, 0), (10, 4 * len(PEM)), (40, 0), DER // 3]),
        ("jks", PEM, None, [(1, 0), (10, 4 * len(PEM)), (40, 0), (20, 0)]),
        ("pkcs12", PEM, None, [(1, 0), (10, 4 * len(PEM)), (40, 0), (40, 0)]),
        ("pem_bundle", PUBLIC, None, [(1, 0), (1, 0), DER // 3]),
        (
            "pem_bundle",
            of("ConfigMap", x=PEM, y=""),
            "x",
            [(1, 0), (1, 0), (10, 4 * len(PEM)), (40, 0), DER // 3],
        ),
        (
            "pem_bundle",
            of("ConfigMap", x=PEM, y=""),
            "*",
            [(1, 0), (2, 0), (10, 4 * len(PEM)), (40, 0), (10, 0), DER // 3],
        ),
        (
            "pem_bundle",
            of("Secret", x=base64.b64encode(PEM.encode()).decode()),
            "x",
            [
                *((1, 0), (1, 0), (10, 2 * len(base64.b64encode(PEM.encode())))),
                *((10, 4 * len(PEM)), (40, 0), DER // 3),
            ],
        ),
    ],
)
def test_a_filter_of_our_own_has_its_price(
    name: str, value: Any, key: str | None, entries: list[Any]
):
    bill = Bill()
    bill.scope = Scope(datetime(2026, 6, 1, tzinfo=UTC), Findings(), Visibility.CLEAR)
    filters.FILTERS[name](bill, value, **({"key": key} if key else {}))
    assert bill.entries == entries


def test_yaml_costs_more():
    bill = Bill()
    filters.to_yaml(bill, {"a": [1, "x"]})
    weight, (steps, characters), *each = bill.entries
    assert (weight, steps, each) == ("weigh 17", 10, [(20, 0)] * 4)
    assert characters in (17 * 12, 17 * 200)  # with libyaml, and without
