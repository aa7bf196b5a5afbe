"""The codec between status maps and records, with records of its own."""

from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from tests.status_fields import json_fields

from copyrator.api.schema import COUNT, SHOWN, TIME, TOTAL, Record, StatusMap, items, kept


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
        flag: bool | None = None

    return Whole, Part


RAW = {
    "aText": "x",
    "number": 7,
    "part": {"name": "p", "new": 1},
    "listOfParts": [{"name": "a"}, {"name": "b"}],
    "words": ["a", "b"],
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

    assert (found["aText"], found["number"], found["part"]) == (str, int, part)
    assert found["words"] == tuple[str, ...]


def test_a_record_has_no_field_without_a_default() -> None:
    class Bad(Record, frozen=True, kw_only=True):
        needed: str

    with pytest.raises(AssertionError, match="needed"):
        Bad.parse({})


class Seen(StatusMap, frozen=True):
    """A map of the kind that a rule's status has."""

    name: str
    seen_at: Annotated[datetime, TIME] | None = None
    short: Annotated[str, kept(3)] = ""
    count: Annotated[int, COUNT] = 0
    total: Annotated[int, TOTAL] = 0
    few: Annotated[tuple[str, ...], items(2), SHOWN] = ()


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ({"name": "a", "new": 1}, Seen("a")),
        (
            {"name": "a", "seenAt": "2026-01-01T00:00:00Z"},
            Seen("a", datetime(2026, 1, 1, tzinfo=UTC)),
        ),
        ({"name": "a", "seenAt": "soon", "count": True, "few": 5}, Seen("a")),
        ({"name": "a", "short": "long"}, Seen("a", short="lon")),
        ({"name": "a", "count": 5, "total": -1}, Seen("a", count=5)),
        ({"name": "a", "few": ["x", 1, "z"]}, Seen("a", few=("x",))),
        ({"short": "x"}, None),
        ({"name": 1}, None),
        ([], None),
    ],
)
def test_a_map_is_read_within_its_bounds_or_left_out(raw: Any, found: Seen | None) -> None:
    assert Seen.read(raw, {}) == found


def test_what_is_shown_is_written_although_it_is_the_default() -> None:
    assert Seen("a").to_dict() == {"name": "a", "total": 0, "few": []}
