"""Others' texts in messages are bounded, and on one line."""

import pytest

from copyrator.api.text import meant, member, one_line, printable_start, truncate


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("", ""), ("abcd", "abcd"), ("abcde", "abcde"), ("abcdef", "abcd…")],
)
def test_a_truncated_text_has_at_most_so_many_characters(text, wanted):
    assert truncate(text, 5) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\n b\t\x1b[31mc", "a b [31mc"),
        ("a" * 20, "a" * 9 + "…"),
        # What is far behind isn't looked at, whatever its size.
        (" " * 19 + "bc", "b"),
        ("\n\n", ""),
    ],
)
def test_one_line_is_printable_and_bounded(text, wanted):
    assert one_line(text, 10) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"), [("abcde", "abcde"), ("abcdef", "abcde…"), ("a\r\nb", "a  b")]
)
def test_the_start_of_anothers_text_has_no_control_characters(text, wanted):
    assert printable_start(text, 5) == wanted


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("skip", "Skip"),
        ("Adpot", "Adopt"),
        ("Overwrites", "Overwrite"),
        ("x", None),
        ("", None),
        ("adopt" + "x" * 10**6, "Adopt"),
    ],
)
def test_a_suggestion_is_a_word_that_is_alike(word, wanted):
    said = f"; did you mean {wanted}?" if wanted else ""
    assert meant(word, ["Skip", "Adopt", "Overwrite"]) == said


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("replicas", ".replicas"),
        ("ca-bundle.crt", r".ca-bundle\.crt"),
        ("app.kubernetes.io/name", r".app\.kubernetes\.io/name"),
        ("two words", "['two words']"),
    ],
)
def test_a_key_is_written_as_in_kubectls_jsonpath(key, wanted):
    assert member(key) == wanted
