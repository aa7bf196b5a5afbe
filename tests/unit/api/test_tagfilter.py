"""A tag filter means what Python's ``re`` means, and takes linear time."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copyrator.api.tagfilter import FilterError, TagFilter, compile_filter

MATCHES = [
    (r"v\d+\.\d+\.\d+", ["v1.2.3", "v10.0.0"], ["1.2.3", "v1.2.3-rc", "xv1.2.3", "v1x2x3"]),
    (r"^v\d+$", ["v1"], ["v", "v1\n"]),
    (r"^a$|^b$", ["a", "b"], ["ab"]),
    (r"(main|release)-[0-9a-f]{4,6}", ["main-12ab", "release-abcdef"], ["main-12", "main-1234567"]),
    (r"(?P<branch>main)-(?:x|y)?", ["main-", "main-x"], ["main"]),
    (r"[^-]+", ["1.2.3"], ["1-2", ""]),
    (r"[]a-c-]*", ["", "abc-"], ["d"]),
    (r"[\d.]+", ["1.2"], ["a"]),
    (r"(a|b)*?c{2}", ["cc", "abcc"], ["c", "accc"]),
    (r".*", ["", "anything"], []),
    (r"", [""], ["x"]),
    (r"a{0}b", ["b"], ["ab"]),
    (r"a{2,}", ["aa", "aaaa"], ["a"]),
    (r"(\d+\.)*\d+", ["1", "1.2.3"], ["1.", ".1"]),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), MATCHES)
def test_a_filter_matches_whole_tags(pattern: str, inside: list[str], outside: list[str]) -> None:
    found = compile_filter(pattern)
    assert [tag for tag in inside if not found.matches(tag)] == []
    assert [tag for tag in outside if found.matches(tag)] == []


BROKEN = [
    ("(a", "missing ): (a"),
    ("a)", "unexpected ): a)"),
    ("[a", "missing ]: [a"),
    ("[b-a]", "invalid character class range: b-a"),
    ("*a", "no argument for repetition operator: *"),
    ("a**", "bad repetition operator: **"),
    ("a{3,2}", "invalid repetition size: {3,2}"),
    ("(a{1000}){10}", "invalid repetition size"),
    ("(a)\\1", "invalid escape sequence: \\1"),
    ("a\\", "trailing \\"),
    ("(?=a)", "invalid perl operator: (?="),
    ("(.?){500}z", "takes too long to match (5505 steps, at most 512)"),
    ("((a?){30}){30}b", "takes too long to match"),
    ("((.{0,50}){0,20})", "pattern too large"),
    ("\ud800", "surrogates not allowed"),
    ("a" * 257, "at most 256"),
]


@pytest.mark.parametrize(("pattern", "message"), BROKEN, ids=[text for _, text in BROKEN])
def test_what_cannot_be_used_is_refused_with_the_reason(pattern: str, message: str) -> None:
    with pytest.raises(FilterError, match=re.escape(message)):
        compile_filter(pattern)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", ".*" * 100 + "b", "(a*)*b" * 30, "a?" * 85]
)
def test_a_hostile_filter_does_not_stop_the_operator(pattern: str) -> None:
    found = TagFilter(pattern)
    for length in range(1, 128):
        found.matches("a" * length + "!")


ATOMS = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", "1"])


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "+?"])
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})")
        | st.tuples(inner, repeat).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    )


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.recursive(ATOMS, combine, max_leaves=6), st.text("ab.1-", max_size=7))
def test_a_filter_agrees_with_python(pattern: str, tag: str) -> None:
    assert TagFilter(pattern).matches(tag) == bool(re.fullmatch(pattern, tag))


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.text(max_size=12), st.text("ab.1-", max_size=5))
def test_any_text_is_a_filter_or_refused(pattern: str, tag: str) -> None:
    try:
        found = TagFilter(pattern)
    except FilterError:
        return
    assert found.matches(tag) in (True, False)
