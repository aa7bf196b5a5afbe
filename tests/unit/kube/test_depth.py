"""What is nested too deeply is cut off where any parser still reads the rest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.junk import JSON

from copyrator.kube.depth import MOST, _is_shallow, flattened, read
from copyrator.kube.pages import decode_event, decode_page


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
    assert found["metadata"] == {"name": "x", "resourceVersion": "1", "nestedTooDeeply": True}
    assert found["after"] == [1, {}]
    json.dumps(found)  # what is left is no burden to anybody


TRICKY = st.text('[]{}"\\a', max_size=6)
NESTED = st.recursive(TRICKY, lambda inner: st.lists(inner) | st.dictionaries(TRICKY, inner))


def depth(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(NESTED)
def test_what_passes_for_shallow_at_a_glance_is_shallow(value: object) -> None:
    raw = json.dumps(value).encode()
    for most in range(2, 12, 2):
        if _is_shallow(raw, most):
            assert depth(value) <= most
        elif depth(value) <= most // 2:
            raise AssertionError("half as deep is always seen at a glance")


def test_many_small_parts_are_not_deep() -> None:
    raw = an_object(json.dumps([{"a": {}} for _ in range(MOST)]))
    assert flattened(raw) is raw
    assert "nestedTooDeeply" not in read(raw)["metadata"]


def test_a_list_and_a_watch_show_the_others_beside_it() -> None:
    deep, good = an_object(nested(9_000)), an_object('"good"')
    head = b'{"kind": "XList", "metadata": {"resourceVersion": "5"}, "items": ['
    page = decode_page(head + deep + b"," + good + b"]}")
    assert [item["spec"] == "good" for item in page.items] == [False, True]
    assert page.items[0]["metadata"]["nestedTooDeeply"]
    event = decode_event(b'{"type": "ADDED", "object": ' + deep + b"}")
    assert event.object["metadata"]["nestedTooDeeply"]
