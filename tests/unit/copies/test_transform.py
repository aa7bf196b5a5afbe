import pytest

from copyrator.api.rule_spec import KeyTransform, Transform
from copyrator.api.selectors import Globs
from copyrator.copies.targets.content import TransformError, transform_data, transform_type

CONTENT = {"data": {"a.crt": "1", "a.key": "2", "b": "3"}, "binaryData": {"c": "4"}, "type": "T"}


@pytest.mark.parametrize(
    ("keys", "data", "binary"),
    [
        (KeyTransform(), {"a.crt": "1", "a.key": "2", "b": "3"}, {"c": "4"}),
        (KeyTransform(include=Globs(("a.*",))), {"a.crt": "1", "a.key": "2"}, {}),
        (KeyTransform(exclude=Globs(("*.key",))), {"a.crt": "1", "b": "3"}, {"c": "4"}),
        (
            KeyTransform(include=Globs(("a.*", "c")), exclude=Globs(("a.key",))),
            {"a.crt": "1"},
            {"c": "4"},
        ),
        (KeyTransform(rename={"b": "bee"}), {"a.crt": "1", "a.key": "2", "bee": "3"}, {"c": "4"}),
        (
            KeyTransform(rename={"b": "c", "c": "b"}),
            {"a.crt": "1", "a.key": "2", "c": "3"},
            {"b": "4"},
        ),
        (KeyTransform(rename={"missing": "x"}), CONTENT["data"], CONTENT["binaryData"]),
    ],
)
def test_keys_are_chosen_and_renamed(keys, data, binary):
    assert transform_data(CONTENT, keys) == {"data": data, "binaryData": binary, "type": "T"}


@pytest.mark.parametrize("rename", [{"b": "a.crt"}, {"b": "c"}])
def test_a_collision_is_an_error_that_names_the_keys(rename):
    with pytest.raises(TransformError) as error:
        transform_data(CONTENT, KeyTransform(rename=rename))
    name = rename["b"]
    first, second = ("a.crt", "b") if name == "a.crt" else ("b", "c")
    assert str(error.value) == (
        f"the keys {first!r} and {second!r} would both be named {name!r}; leave one out in "
        "spec.transform.keys or rename it"
    )


def test_a_source_with_binary_data_alone_is_transformed():
    content = {"binaryData": {"c": "4", "d": "5"}, "data": None}
    found = transform_data(content, KeyTransform(include=Globs(("c",))))
    assert found == {"binaryData": {"c": "4"}, "data": {}}
    content.pop("data")
    assert transform_data(content, KeyTransform(rename={"c": "z"})) == {
        "binaryData": {"z": "4", "d": "5"}
    }


def test_the_source_is_left_as_it_is():
    before = repr(CONTENT)
    transform_data(CONTENT, KeyTransform(include=Globs(("b",)), rename={"b": "z"}))
    assert repr(CONTENT) == before


def test_too_many_keys_for_so_many_patterns_are_refused_and_many_of_either_are_not():
    many = {"data": {f"{'key' * 60}-{number}": "x" for number in range(4_000)}}
    patterns = tuple(
        f"*{number:04}-of-many-patterns-with-some-length-to-it" for number in range(1_000)
    )
    for keys in (KeyTransform(exclude=Globs(patterns)), KeyTransform(include=Globs(patterns))):
        with pytest.raises(
            TransformError,
            match=r"4000 keys, too many .* in spec.transform; use fewer or shorter patterns$",
        ):
            transform_data(many, keys)
    transform_data(many, KeyTransform(exclude=Globs(patterns[:2])))
    transform_data(CONTENT, KeyTransform(exclude=Globs(patterns)))


def typed(type_: str | None, keys: tuple[str, ...], transform: Transform):
    content = {"data": dict.fromkeys(keys, "eA=="), **({"type": type_} if type_ else {})}
    return transform_type(content, "Secret", transform)


SOME_KEYS = Transform(keys=KeyTransform(include=Globs(("ca.crt",))))
OPAQUE = Transform(keys=SOME_KEYS.keys, type="Opaque")
REQUIRED = [
    ("kubernetes.io/tls", ("ca.crt",), "tls.crt and tls.key"),
    ("kubernetes.io/tls", ("ca.crt", "tls.crt"), "tls.key"),
    ("kubernetes.io/tls", ("tls.key",), "tls.crt"),
    ("kubernetes.io/tls", (), "tls.crt and tls.key"),
    ("kubernetes.io/dockerconfigjson", ("ca.crt",), ".dockerconfigjson"),
    ("kubernetes.io/dockercfg", ("ca.crt",), ".dockercfg"),
    ("kubernetes.io/ssh-auth", ("known_hosts",), "ssh-privatekey"),
    ("kubernetes.io/basic-auth", ("ca.crt",), "username or password"),
]


@pytest.mark.parametrize(("type_", "keys", "missing"), REQUIRED)
def test_keys_that_the_type_requires_and_are_not_copied_are_named_with_the_remedy(
    type_, keys, missing
):
    with pytest.raises(TransformError) as caught:
        typed(type_, keys, SOME_KEYS)
    assert str(caught.value) == (
        f"a Secret of the type {type_} must have {missing}; set spec.transform.type: Opaque, or "
        "copy the keys, too"
    )
    assert typed(type_, keys, OPAQUE)["type"] == "Opaque"


@pytest.mark.parametrize(
    ("type_", "keys"),
    [
        ("kubernetes.io/tls", ("tls.crt", "tls.key")),
        ("kubernetes.io/tls", ("tls.crt", "tls.key", "ca.crt")),
        ("kubernetes.io/dockerconfigjson", (".dockerconfigjson",)),
        ("kubernetes.io/basic-auth", ("password",)),
        ("kubernetes.io/basic-auth", ("username",)),
        ("Opaque", ("ca.crt",)),
        ("example.com/own", ()),
        (None, ("ca.crt",)),
    ],
)
def test_a_type_whose_keys_are_copied_stays(type_, keys):
    assert typed(type_, keys, SOME_KEYS).get("type") == type_


def test_a_type_that_the_copy_is_to_have_requires_its_keys_too():
    tls = Transform(type="kubernetes.io/tls")
    assert typed("Opaque", ("tls.crt", "tls.key"), tls)["type"] == "kubernetes.io/tls"
    with pytest.raises(TransformError, match=r"must have tls\.key;"):
        typed("Opaque", ("tls.crt",), tls)


def test_without_a_transform_the_api_server_decides():
    assert typed("kubernetes.io/tls", (), Transform())["type"] == "kubernetes.io/tls"
