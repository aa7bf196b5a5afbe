"""Tags are found in pages in short steps; what is no whole tag list is none."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, cpu_seconds, slowness

from copyrator.oci.client import TAG_PAGE_BYTES
from copyrator.oci.tags import TAG_CHARACTERS, tags_of

TAGS = st.lists(st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True) | st.text())
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
MB = 1024 * 1024


def tags_in(page: bytes) -> list[str]:
    return [tag for batch in tags_of(page) for tag in batch]


@settings(max_examples=40)
@given(
    tags=TAGS,
    before=st.dictionaries(st.text(), VALUES, max_size=3),
    after=st.dictionaries(st.text(), VALUES, max_size=3),
    indent=st.none() | st.just(2),
    ascii_only=st.booleans(),
)
def test_pages_are_read_as_a_decoder_reads_them(
    tags: list[str],
    before: dict[str, Any],
    after: dict[str, Any],
    indent: int | None,
    ascii_only: bool,
) -> None:
    others = {**before, **after}
    others.pop("tags", None)
    page = {**before, "tags": tags} | others
    text = json.dumps(page, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    expected = msgspec.json.decode(text)["tags"] if "\\ud" not in text.decode() else None
    if expected is not None and all(len(tag) <= TAG_CHARACTERS for tag in expected):
        assert tags_in(text) == expected


@pytest.mark.parametrize("filling", ["a", "\\u0061", '\\"', "\\\\", ",", " ", "é", "😀"])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 21])
def test_long_pages_are_read_whole_wherever_a_batch_ends(filling: str, length: int) -> None:
    texts = [f'"{filling * (n % 7 + length)}"' for n in range(20_000)]
    page = f'{{"tags": [{", ".join(texts)}]}}'.encode()

    batches = list(tags_of(page))

    assert [tag for batch in batches for tag in batch] == json.loads(page)["tags"]
    assert max(map(len, batches)) <= 1000


@given(tags=TAGS, end=st.integers(min_value=0))
def test_a_page_that_breaks_off_is_none(tags: list[str], end: int) -> None:
    text = json.dumps({"name": "a", "tags": [tag[:9] for tag in tags], "x": [1]}).encode()
    with pytest.raises(ValueError, match="not a tag list"):
        tags_in(text[: end % len(text)])


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_tag_list_or_is_not(text: bytes) -> None:
    try:
        tags_in(b'{"tags":[' + text)
    except ValueError:
        return
    json.loads((b'{"tags":[' + text).decode())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"tags": "a"}',
        b'{"tags": {}}',
        b'{"tags": ["a", 1]}',
        b'{"tags": [null]}',
        b'{"tags": ["a", ["b"]]}',
        b'{"tags": ["a",]}',
        b'{"tags": ["a",,"b"]}',
        b'{"tags": ["a" "b"]}',
        b'{"tags": ["a"}',
        b'{"tags": ["a"]}}',
        b'{"tags": ["a"], "tags": ["b"]}',
        b'{"tags": ["a"], "tags" : null}',
        b'{"tags": ["a"], "t\\u0061gs": ["b"]}',
        b'{"\\u0074\\u0061\\u0067\\u0073": null, "tags": ["b"]}',
        b'{"x": {"tags": ["a"]}}',
        b'{"tags": ["\\ud800"]}',
        b'{"tags": ["\xff"]}',
        b'{"tags": ["' + b"a" * (TAG_CHARACTERS + 1) + b'"]}',
        b'{"tags": ["' + b"a" * MB + b'"]}',
        b'{"tags": ["a"], "x": ' + b"[" * 100,
        b'{"tags": ["a"], "x": ' + b"[" * MB + b"]" * MB + b"}",
    ],
)
def test_what_is_no_tag_list_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a tag list") as refused:
        tags_in(text)
    assert str(refused.value) == "not a tag list"


@pytest.mark.parametrize(
    "text",
    [b'{"t\\u0061gs": ["a"]}', b'{"tags": ["a"], "\\\\u0074ags": "tags", "x": "\\u0074ags"}'],
)
def test_a_key_is_tags_however_it_is_written(text: bytes) -> None:
    assert tags_in(text) == ["a"]


@pytest.mark.parametrize("text", [b'{"tags": null}', b'{"tags": []}', b' {"a":{}, "tags" : [ ] } '])
def test_no_tags_are_no_tags(text: bytes) -> None:
    assert tags_in(text) == []


def test_what_a_registry_says_of_each_manifest_beside_the_tags_is_passed_over() -> None:
    manifest = {"imageSizeBytes": "1", "tag": ["a]", 'b"', "}"], "layerId": "", "timeCreatedMs": 1}
    page = {"child": [], "manifest": {f"sha256:{i:064x}": manifest for i in range(20_000)}}
    text = json.dumps({**page, "name": "a", "tags": ["1", "2"]}).encode()

    assert tags_in(text) == ["1", "2"]


LARGEST = {
    "ten letters": (b'{"tags":[', b'"1.23.456-r",', b'"a"]}'),
    "escapes": (b'{"tags":[', b'"\\u0061",', b'"a"]}'),
    "escaped quotes": (b'{"tags":[', b'"' + b'\\"' * TAG_CHARACTERS + b'",', b'"a"]}'),
    "four bytes a character": (b'{"tags":[', '"😀😀😀😀",'.encode(), b'"a"]}'),
    "brackets": (b'{"x":[', b"[],", b'1],"tags":[]}'),
    "pairs": (b"{", b'"a":1,', b'"tags":[]}'),
    "numbers": (b'{"x":[', b"1,", b'1],"tags":[]}'),
    "digits": (b'{"x":', b"1", b',"tags":[]}'),
    "a string": (b'{"x":"', b"a", b'","tags":[]}'),
    "backslashes": (b'{"x":"', b"\\\\", b'","tags":[]}'),
    "a key": (b'{"', b"\\u0061", b'":1,"tags":[]}'),
    "spaces": (b"", b" ", b'{"tags":[]}'),
    "tags many times": (b"{", b'"tags":[],', b'"tags":[]}'),
}


@pytest.mark.parametrize("parts", LARGEST.values(), ids=LARGEST)
def test_no_step_of_the_largest_page_takes_long(parts: tuple[bytes, bytes, bytes]) -> None:
    """In one of three runs: a busy machine may lengthen single steps."""
    start, middle, end = parts
    page = start + middle * (TAG_PAGE_BYTES // len(middle)) + end
    before = slowness()

    assert any(longest_step(page) / max(before, slowness()) < STEP_SECONDS for _ in range(3))


def longest_step(page: bytes) -> float:
    """Seconds of processor time, up to the end or the fault of the page."""
    batches = tags_of(page)
    tags: list[str] | None = []
    longest = 0.0

    def step() -> None:
        nonlocal tags
        try:
            tags = next(batches, None)
        except ValueError:
            tags = None

    while tags is not None:
        assert len(tags) <= 1000
        longest = max(longest, cpu_seconds(step))
    return longest
