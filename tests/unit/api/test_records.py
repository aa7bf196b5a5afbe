"""The codec between status maps and records, with records of its own."""

from typing import Any

import pytest
from tests.status_fields import json_fields

from copyrator.api.records import Record


def made() -> tuple[type[Record], type[Record]]:
    """Two new classes: what is known of a class is cached."""

    class Part(Record, frozen=True):
        name: str | None = None

    class Whole(Record, frozen=True):
        a_text: str | None = None
        number: int | None = None
        part: Part = Part()
        list_of_parts: tuple[Part, ...] = ()
        words: tuple[str, ...] = ()
        raw_maps: tuple[dict[str, Any], ...] = ()
        flag: bool | None = None

    return Whole, Part


RAW = {
    "aText": "x",
    "number": 7,
    "part": {"name": "p", "new": 1},
    "listOfParts": [{"name": "a"}, {"name": "b"}],
    "words": ["a", "b"],
    "rawMaps": [{"any": 1}],
    "flag": False,
    "unknown": {"kept": True},
}


def test_a_map_is_read_whole_and_written_alike() -> None:
    whole, part = made()

    found: Any = whole.parse(RAW)

    assert found == whole(
        a_text="x",
        number=7,
        part=part(name="p", extra={"new": 1}),
        list_of_parts=(part(name="a"), part(name="b")),
        words=("a", "b"),
        raw_maps=({"any": 1},),
        flag=False,
        extra={"unknown": {"kept": True}},
    )
    assert found.to_dict() == RAW


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("aText", 1),
        ("aText", None),
        ("number", "1"),
        ("number", True),
        ("number", 1.0),
        ("part", []),
        ("part", "x"),
        ("listOfParts", {}),
        ("listOfParts", [1, None, []]),
        ("words", "ab"),
        ("words", [1]),
        ("rawMaps", [[]]),
        ("flag", 0),
    ],
)
def test_a_value_of_another_type_is_absent(name: str, value: Any) -> None:
    whole, _ = made()

    assert whole.parse({name: value}) == whole()
    assert whole.parse({name: value}).to_dict() == {}


def test_of_a_list_the_right_items_are_kept() -> None:
    whole, part = made()

    assert whole.parse({"listOfParts": [1, {"name": "a"}], "words": ["a", 2]}) == whole(
        list_of_parts=(part(name="a"),), words=("a",)
    )
    for junk in (None, [], "x", 1):
        assert whole.parse(junk) == whole()


def test_fields_have_their_json_names_and_types() -> None:
    whole, part = made()

    found = json_fields(whole)

    assert list(found) == ["aText", "number", "part", "listOfParts", "words", "rawMaps", "flag"]
    assert (found["aText"], found["number"], found["part"]) == (str, int, part)
    assert found["words"] == tuple[str, ...]


def test_a_record_has_no_field_without_a_default() -> None:
    class Bad(Record, frozen=True, kw_only=True):
        needed: str

    with pytest.raises(AssertionError, match="needed"):
        Bad.parse({})
