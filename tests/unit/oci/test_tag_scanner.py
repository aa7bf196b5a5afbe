"""Tags are found in pages that come in any pieces; what is no whole tag list is none."""

from __future__ import annotations

import json
from itertools import islice, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.long import LONG
from tests.steps import cpu_seconds, slowness

from copyrator.oci.tag_scanner import NotATagListError, TagScanner
from copyrator.settings.limits import STEP_SECONDS, TAG_CHARACTERS, TAG_LIST_VALUES

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
MB, VALUES_AT_MOST = (1024 * 1024, TAG_LIST_VALUES) if LONG else (64 * 1024, TAG_LIST_VALUES // 8)
"""What a hostile page is measured by, and what the scanner is told to accept."""


def scanned(*pieces: bytes) -> list[str]:
    scanner = TagScanner(TAG_LIST_VALUES)
    found = [tag for piece in pieces for tags in scanner.feed(piece) for tag in tags]
    scanner.close()
    return found


def cut(text: bytes, at: list[int]) -> list[bytes]:
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in at)})
    return [text[start:end] for start, end in pairwise(places)]


@settings(max_examples=40)
@given(
    tags=TAGS,
    before=st.dictionaries(st.text(), VALUES, max_size=3),
    after=st.dictionaries(st.text(), VALUES, max_size=3),
    at=st.lists(st.integers(min_value=0)),
    indent=st.none() | st.just(2),
    ascii_only=st.booleans(),
)
def test_pages_are_read_as_a_decoder_reads_them(
    tags: list[str],
    before: dict[str, Any],
    after: dict[str, Any],
    at: list[int],
    indent: int | None,
    ascii_only: bool,
) -> None:
    others = {**before, **after}
    others.pop("tags", None)
    page = {**before, "tags": tags} | others
    text = json.dumps(page, indent=indent, ensure_ascii=ascii_only).encode(errors="replace")
    expected = msgspec.json.decode(text)["tags"] if "\\ud" not in text.decode() else None
    if expected is not None and all(len(tag) <= TAG_CHARACTERS for tag in expected):
        assert scanned(*cut(text, at)) == expected


@given(tags=TAGS, end=st.integers(min_value=0), at=st.lists(st.integers(min_value=0)))
def test_a_page_that_breaks_off_is_none(tags: list[str], end: int, at: list[int]) -> None:
    text = json.dumps({"name": "a", "tags": [tag[:9] for tag in tags], "x": [1]}).encode()
    with pytest.raises(NotATagListError):
        scanned(*cut(text[: end % len(text)], at))


@given(st.binary(max_size=200), st.lists(st.integers(min_value=0)))
def test_whatever_comes_is_a_tag_list_or_is_not(text: bytes, at: list[int]) -> None:
    try:
        scanned(*cut(b'{"tags":[' + text, at))
    except NotATagListError:
        return
    json.loads((b'{"tags":[' + text).decode())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"tags": "a"}',
        b'{"tags": {}}',
        b'{"tags": 1}',
        b'{"tags": ["a", 1]}',
        b'{"tags": ["a", null]}',
        b'{"tags": ["a", ["b"]]}',
        b'{"tags": ["a",]}',
        b'{"tags": ["a" "b"]}',
        b'{"tags": ["a"}',
        b'{"tags": ["a"]]',
        b'{"tags": ["a"]}}',
        b'{"tags": ["a"]} {}',
        b'{"tags": ["a"],}',
        b'{"tags": ["a"], "tags": ["b"]}',
        b'{"x": {"tags": ["a"]}}',
        b'{"tags": ["\\ud800"]}',
        b'{"tags": ["\xff"]}',
        b'{"tags": ["' + b"a" * (TAG_CHARACTERS + 1) + b'"]}',
        b'{"x": ' + b"[" * 100,
    ],
)
def test_what_is_no_tag_list_is_refused(text: bytes) -> None:
    with pytest.raises(NotATagListError):
        scanned(text)


@pytest.mark.parametrize("text", [b'{"tags": null}', b'{"tags": []}', b' {"a":{}, "tags" : [ ] } '])
def test_no_tags_are_no_tags(text: bytes) -> None:
    assert scanned(text) == []


def test_what_a_registry_says_of_each_manifest_beside_the_tags_is_passed_over() -> None:
    manifest = {"imageSizeBytes": "1", "tag": ["a]", 'b"', "}"], "layerId": "", "timeCreatedMs": 1}
    page = {"child": [], "manifest": {f"sha256:{i:064x}": manifest for i in range(20_000)}}
    text = json.dumps({**page, "name": "a", "tags": ["1", "2"]}).encode()

    assert scanned(text) == ["1", "2"]


HOSTILE = {
    "two letters": b'{"tags":[' + b'"ab",' * (8 * MB // 5),
    "escapes": b'{"tags":[' + b'"\\u0061",' * MB,
    "empty strings": b'{"tags":[' + b'"",' * 2 * MB,
    "brackets": b'{"x":[' + b"[]," * 2 * MB,
    "pairs": b"{" + b'"a":1,' * MB,
    "numbers": b'{"x":[' + b"1," * 4 * MB,
    "digits": b'{"x":' + b"1" * 8 * MB,
    "a string": b'{"x":"' + b"a" * 8 * MB,
    "backslashes": b'{"x":"' + b"\\\\" * 4 * MB,
    "quotes in a value": b'{"x":["' + b'\\"' * 4 * MB,
    "spaces": b" " * 8 * MB,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_step_takes_long_and_no_page_is_held(text: bytes) -> None:
    """Judged by the third longest step: a busy machine may lengthen single ones."""
    steps: list[float] = []
    before = slowness()

    with pytest.raises(NotATagListError):
        scan_in_steps(text, steps)

    assert sorted(steps)[-3:][0] / max(before, slowness()) < STEP_SECONDS


def scan_in_steps(text: bytes, steps: list[float]) -> None:
    """Scan as from a socket; `steps` are the seconds of processor time that each took."""
    scanner = TagScanner(VALUES_AT_MOST)
    for start in range(0, len(text), 64 * 1024):
        pieces = scanner.feed(text[start : start + 64 * 1024])
        parts: list[list[str]] = []
        while True:
            steps.append(cpu_seconds(lambda: parts.extend(islice(pieces, 1))))  # noqa: B023
            if not parts:
                break
            assert len(parts.pop()) <= 1000
        assert len(scanner._rest) <= 80 * 1024
    scanner.close()
