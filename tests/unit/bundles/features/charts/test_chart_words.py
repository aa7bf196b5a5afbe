"""Go templates: they are split into words as Go splits them, so that no call is missed."""

import json
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.features.charts.template_words import TemplateSyntaxError, WordKind, words

RECORDED = json.loads((Path(__file__).parent / "templates" / "parsed.json").read_text())


@pytest.mark.parametrize(("text", "by_go"), RECORDED["parsed"])
def test_each_name_and_text_in_gos_tree_is_a_word(text: str, by_go: str) -> None:
    """Of two templates of one name Go's tree has one only."""
    found = [*words(text)]
    names = Counter(one.text for one in found if one.kind is WordKind.IDENTIFIER)
    texts = Counter(one.text.encode().hex() for one in found if one.kind is WordKind.STRING)
    called = Counter(re.findall(r"\bf:(\w+)", by_go))
    literals = Counter(re.findall(r"(?<=[ \[,(])s((?:[0-9a-f]{2})*)(?=[ \],)])", by_go))

    assert (called - names, literals - texts) == (Counter(), Counter())
    if not re.search(r"define|block", text):
        assert names == called


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("{{ now", 1, "an action isn't closed"),
        ("{{/* a", 1, "a comment has no end"),
        ("{{/* a */ now }}", 1, "something follows a comment in its braces"),
        ('{{ "a }}', 1, "an unknown character"),
        ("\n{{ (now }}", 2, "a parenthesis isn't closed"),
        ("{{ now) }}", 1, "a parenthesis is closed that wasn't opened"),
        ("{{ .a! }}", 1, "an unknown character after a name"),
        ('{{ "\\q" }}', 1, "a string has an invalid escape"),
    ],
)
def test_what_cant_be_split_is_refused_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(TemplateSyntaxError) as refused:
        list(words(text))

    assert (refused.value.line, str(refused.value)) == (line, why)


_PARTS = st.sampled_from(
    [
        "{{",
        "}}",
        "{{-",
        " -}}",
        "-}}",
        "(",
        ")",
        "|",
        ".",
        "$x",
        ".A",
        "now",
        '"',
        "`",
        "'",
        "/*",
        "*/",
        " ",
        "\n",
        ":=",
        "=",
        ",",
        "if",
        "else",
        "end",
        "range",
        "define",
        "1",
        "-",
        "\\",
        "é",
        "\x00",
    ]
)


@given(st.lists(_PARTS, max_size=60).map("".join) | st.text(max_size=80))
def test_any_text_is_split_or_refused(text: str) -> None:
    with suppress(TemplateSyntaxError):
        list(words(text))
