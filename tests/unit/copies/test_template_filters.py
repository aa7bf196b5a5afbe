"""The filters of our own, by themselves: what each says of a value that it can't take."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from jinja2.runtime import Undefined
from tests.unit.copies.test_pem_and_docker import certificate
from tests.unit.copies.test_template_prices import Bill

from copyrator.copies.template import filters
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

HALF = "\ud800"
BINARY = base64.b64encode(b"\xff\xfe").decode()
NO_TYPE = "takes maps, lists, texts, numbers, true, false and none"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("b64decode", "%", "a value isn't base64"),
        ("b64decode", "é", "a value isn't base64"),
        ("b64decode", BINARY, "a value isn't text in UTF-8 after b64decode"),
        ("b64decode", 1, "b64decode takes a text; a value is none"),
        ("b64encode", HALF, "a value has half of a character"),
        ("b64encode", 1, "b64encode takes a text; a value is none"),
        ("from_json", "{", "a value isn't JSON"),
        ("from_json", HALF, "a value isn't JSON"),
        ("from_json", 1, "from_json takes a text; a value is none"),
        ("to_json", [HALF], "a value can't be written as JSON"),
        ("to_json", {1: 2}, "to_json: the keys of a map must be texts"),
        ("to_json", {"a": {1: 2}}, "to_json: the keys of a map must be texts"),
        ("to_json", [Undefined()], "to_json: a value in it is undefined"),
        ("to_json", [object()], f"to_json {NO_TYPE}"),
        ("to_yaml", [HALF], "a value can't be written as YAML"),
        ("to_yaml", {1: 2}, "to_yaml: the keys of a map must be texts"),
        ("to_yaml", [Undefined()], "to_yaml: a value in it is undefined"),
        ("to_yaml", [object()], f"to_yaml {NO_TYPE}"),
        ("number", "5 apples", "a value isn't a number"),
        ("number", [5], "number takes a text; a value is none"),
        ("bool", "maybe", "a value is neither true nor false"),
        ("bool", 1, "bool takes a text; a value is none"),
        ("merge_dockerconfig", Undefined(), "takes a source, a text, or a list of them"),
        ("merge_dockerconfig", 1, "takes a source, a text, or a list of them"),
        (
            "merge_dockerconfig",
            [1],
            "merge_dockerconfig takes Secrets of spec.sources; a value is none",
        ),
        ("merge_dockerconfig", "[]", "a value: .dockerconfigjson has no map auths"),
        ("merge_dockerconfig", "[", "a value: .dockerconfigjson isn't JSON"),
        ("merge_dockerconfig", HALF, "a value: .dockerconfigjson isn't JSON"),
        (
            "merge_dockerconfig",
            '{"auths": {"a": {}, "b": 1}}',
            "a value: an entry of auths in .dockerconfigjson isn't a map",
        ),
        ("pem_bundle", [1], "pem_bundle takes sources, and texts of certificates"),
        ("pem_bundle", [], "pem_bundle: there is no certificate that could be written"),
        (
            "pem_bundle",
            "\n# x\nx",
            "a value: there is no certificate in PEM",
        ),
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


@pytest.mark.parametrize(
    ("name", "arguments", "data", "said"),
    [
        (
            "merge_dockerconfig",
            {},
            {},
            (
                "source a (infra/creds) has no key .dockerconfigjson; it must be of the type "
                "kubernetes.io/dockerconfigjson, or kubernetes.io/dockercfg with the key "
                ".dockercfg"
            ),
        ),
        (
            "merge_dockerconfig",
            {},
            {"_dockerconfigjson": BINARY},
            "source a (infra/creds): .dockerconfigjson isn't text in base64",
        ),
        (
            "pem_bundle",
            {},
            {},
            "pem_bundle needs the key of source a (infra/creds): pem_bundle(key='ca.crt')",
        ),
        ("pem_bundle", {"key": "x"}, {}, "source a (infra/creds) has no key x"),
        (
            "pem_bundle",
            {"key": "x"},
            {"x": BINARY},
            "pem_bundle: there is no certificate that could be written",
        ),
        (
            "pem_bundle",
            {"key": "x"},
            {"x": "%"},
            "source a (infra/creds), key x isn't in base64",
        ),
    ],
)
def test_what_a_filter_says_of_a_source(
    name: str, arguments: dict[str, str], data: dict[str, str], said: str
):
    meter = Meter()
    meter.scope = Scope(datetime(2026, 6, 1, tzinfo=UTC), Findings(), Visibility.CLEAR)
    value = source_set({"a": secret(**data)}, clear=True)["a"]
    with pytest.raises(TemplateError) as caught:
        filters.FILTERS[name](meter, value, **arguments)
    assert str(caught.value) == said


@pytest.mark.parametrize("name", ["b64encode", "from_json", "number", "bool"])
def test_a_source_in_place_of_a_text_is_named(name: str):
    with pytest.raises(TemplateError) as caught:
        filters.FILTERS[name](Meter(), of("ConfigMap"))
    assert str(caught.value) == f"{name} takes a text; source a (infra/creds) is none"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("b64encode", "has half of a character"),
        ("from_json", "isn't JSON"),
        ("to_json", "can't be written as JSON"),
        ("to_yaml", "can't be written as YAML"),
        ("number", "isn't a number"),
        ("bool", "is neither true nor false"),
    ],
)
def test_the_key_of_a_source_is_named_whose_value_cannot_be_taken(name: str, said: str):
    with pytest.raises(TemplateError) as caught:
        filters.FILTERS[name](Meter(), SourceText.of(HALF, "source a (infra/creds), key x"))
    assert str(caught.value) == f"source a (infra/creds), key x {said}"


def test_a_value_keeps_its_origin_in_base64():
    where = "source a (infra/creds), key x"
    encoded = filters.b64encode(Meter(), SourceText.of("a", where))
    assert (encoded, origin_of(encoded)) == ("YQ==", where)
    with pytest.raises(TemplateError, match="data of a Secret can be used only"):
        str(filters.b64encode(Meter(), Withheld("a", where)))


@pytest.mark.parametrize(
    ("name", "text", "made"),
    [
        *(("number", "+5", 5), ("number", "-5", -5), ("number", "5", 5), ("number", "5.0", 5.0)),
        *(("bool", " Yes ", True), ("bool", "off", False)),
    ],
)
def test_what_a_text_says_has_its_type_and_price(name: str, text: str, made: Any):
    bill = Bill()
    found = filters.FILTERS[name](bill, text)
    assert (found, type(found)) == (made, type(made))
    assert bill.entries == [(10, len(text.strip()))]


@pytest.mark.parametrize(
    ("name", "value"), [("bool", True), ("bool", None), ("number", 5), ("number", None)]
)
def test_what_is_no_text_already_costs_nothing(name: str, value: Any):
    bill = Bill()
    assert filters.FILTERS[name](bill, value) is value
    assert bill.entries == []


def test_without_sources_texts_are_merged_as_well():
    both = ['{"auths":{"a.io":{"auth":"1"}}}', '{"auths":{"a.io":{"auth":"2"},"b.io":{}}}', None]
    assert filters.merge_dockerconfig(Meter(), both) == ('{"auths":{"a.io":{"auth":"1"}}}')


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
