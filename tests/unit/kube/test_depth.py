"""What is nested too deeply is cut off where any parser still reads the rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.schema import NOT_WHOLE, OBJECT_CONTAINERS, TOO_DEEP, TOO_MANY
from copyrator.kube.client.answers import MOST, decode_event, decode_page, flattened, read
from hostile.mangled import JSON


def nested(levels: int, opening: str = '{"a":', closing: str = "}") -> str:
    return opening * levels + '"]} \\" end"' + closing * levels


def an_object(deep: str) -> bytes:
    metadata = '{"name": "x", "resourceVersion": "1"}'
    return f'{{"metadata": {metadata}, "spec": {deep}, "after": [1, {{}}]}}'.encode()


@given(JSON)
def test_everything_else_is_read_as_it_is(value: object) -> None:
    raw = json.dumps(value).encode()
    assert flattened(raw) is raw
    assert read(raw) == value


@pytest.mark.parametrize("levels", [MOST, 1000, 10_000])
@pytest.mark.parametrize(("opening", "closing"), [('{"a":', "}"), ("[", "]"), ('[{"a":', "}]")])
def test_what_is_too_deep_is_cut_off_and_said(levels: int, opening: str, closing: str) -> None:
    found = read(an_object(nested(levels, opening, closing)))
    assert found["metadata"] == {"name": "x", "resourceVersion": "1", NOT_WHOLE: TOO_DEEP}
    assert found["after"] == [1, {}]
    json.dumps(found)  # what is left is no burden to anybody


TRICKY = st.text('[]{}"\\a', max_size=6)
NESTED = st.recursive(TRICKY, lambda inner: st.lists(inner) | st.dictionaries(TRICKY, inner))


def cut(value: object, most: int) -> object:
    if not isinstance(value, dict | list):
        return value
    if most == 0:
        return TOO_DEEP
    if isinstance(value, dict):
        return {key: cut(inner, most - 1) for key, inner in value.items()}
    return [cut(inner, most - 1) for inner in value]


@given(NESTED, st.integers(1, 8), st.integers(1, 200))
def test_exactly_what_is_too_deep_is_cut_off(value: object, most: int, times: int) -> None:
    whole = [value] * times
    raw = json.dumps(whole, separators=(",", ":")).encode()
    kept = cut(whole, most)
    flat = flattened(raw, most)
    assert json.loads(flat) == kept
    assert (flat is raw) == (kept == whole)


def test_many_small_parts_are_not_deep() -> None:
    raw = an_object(json.dumps([{"a": {}} for _ in range(MOST)]))
    assert flattened(raw) is raw
    assert NOT_WHOLE not in read(raw)["metadata"]


def test_a_list_and_a_watch_show_the_others_beside_it() -> None:
    deep, good = an_object(nested(9_000)), an_object('"good"')
    head = b'{"kind": "XList", "metadata": {"resourceVersion": "5"}, "items": ['
    page = decode_page(head + deep + b"," + good + b"]}")
    assert [item["spec"] == "good" for item in page.items] == [False, True]
    assert next(iter(page.items))["metadata"][NOT_WHOLE]
    event = decode_event(b'{"type": "ADDED", "object": ' + deep + b"}")
    assert event.object["metadata"][NOT_WHOLE]


DENSE = {
    "lists": '{"a": [' + ",".join(["[]"] * 460_000) + "]}",
    "maps": '{"a": [' + ",".join(['{"a":{}}'] * 155_000) + "]}",
    "lists in lists": '{"a": [' + ",".join(["[" * 200 + "]" * 200] * 3_400) + "]}",
    "and deep": '{"a": ' + nested(9_000) + ', "b": [' + ",".join(["[]"] * 460_000) + "]}",
    "fields": "{" + ",".join(f'"k{n}":{{}}' for n in range(110_000)) + "}",
}


@pytest.mark.parametrize("dense", DENSE)
def test_what_has_too_many_maps_and_lists_is_left_out_and_said(dense: str) -> None:
    found = read(an_object(DENSE[dense]))
    assert found == {
        "metadata": {"name": "x", "resourceVersion": "1", NOT_WHOLE: TOO_MANY},
        "spec": TOO_MANY,
        "after": [1, {}],
    }


LARGE = DENSE | {"braces in texts": json.dumps({f"k{n}": "{{ a }}" for n in range(60_000)})}


@pytest.mark.parametrize("large", LARGE)
def test_an_object_as_large_as_etcd_takes_is_read_in_one_short_step(large: str) -> None:
    raw = an_object(LARGE[large])
    assert_quick(lambda: read(raw), STEP_SECONDS)
    page = b'{"kind": "XList", "metadata": {"resourceVersion": "5"}, "items": [' + raw + b"]}"
    assert_quick(lambda: list(decode_page(page, lone=True).items), 2 * STEP_SECONDS)


def test_numbers_of_which_each_takes_msgspec_long_dont_take_seconds() -> None:
    raw = an_object("[" + ",".join(["1e+308"] * 190_000) + "]")
    assert_quick(lambda: read(raw), 4 * STEP_SECONDS)


def test_of_metadata_the_small_fields_are_read() -> None:
    fields = ",".join(f'{{"f:{n}":{{}}}}' for n in range(60_000))
    metadata = f'{{"managedFields": [{fields}], "name": "x", "resourceVersion": "1"}}'
    found = read(f'{{"metadata": {metadata}, "spec": {{"a": "b"}}}}'.encode())
    assert found["metadata"] == {
        "name": "x",
        "resourceVersion": "1",
        "managedFields": TOO_MANY,
        NOT_WHOLE: TOO_MANY,
    }
    assert found["spec"] == {"a": "b"}


def test_brackets_in_texts_are_no_maps() -> None:
    raw = an_object(json.dumps({"text": "[{" * OBJECT_CONTAINERS}))
    found = read(raw)
    assert found == json.loads(raw)
