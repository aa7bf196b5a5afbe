import pytest

from copyrator.api.globs import Globs
from copyrator.api.rule_spec import KeyTransform
from copyrator.copies.policy.transform import TransformError, transform_data

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
