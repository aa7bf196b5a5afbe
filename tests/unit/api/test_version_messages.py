"""What is said of a version that can't be used, word for word."""

from __future__ import annotations

import pytest

from copyrator.api.version_range import VERSION_CONSTRAINTS, VersionError, parse_version

MANY = " || ".join(["1"] * (VERSION_CONSTRAINTS + 1))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (">2 <1", "no version matches it; check the bounds"),
        ("1 | 2", "write '||' between alternatives"),
        (">1,", "a constraint is missing next to ',' or '||'; for any version write *"),
        ("<>1", "'<>' isn't an operator; use one of = != > >= < <= ~ ^"),
        (">=", "a version is missing after '>='"),
        (">= >1", "a version is missing after '>='"),
        (">= - 1", "a version is missing after '>='"),
        ("1 -", "write a range with a hyphen as 1.2 - 1.4, without operators"),
        (">1 - 2", "write a range with a hyphen as 1.2 - 1.4, without operators"),
        (">a", "'a' isn't a valid version; write it as 1.2.3, 1.2 or 1.2.*"),
        (">=1.*.2", "'1.*.2' has a number after its wildcard"),
        (">=01", "'01' has a number with a leading zero; remove the zero"),
        (">=1.2.3-01", "'1.2.3-01' has a pre-release that isn't valid SemVer"),
        (">=1.2-rc", "'1.2-rc': only a whole version such as 1.2.3-rc.1 has a pre-release"),
    ],
)
def test_a_range_that_cant_be_used_says_why(text: str, fault: str) -> None:
    with pytest.raises(VersionError) as error:
        parse_version(text)

    assert str(error.value) == f"{text!r} isn't a valid version range: {fault}"


@pytest.mark.parametrize("text", ["/x", "a\nb", "-1"])
def test_what_is_neither_tag_nor_range_says_what_a_tag_is(text: str) -> None:
    with pytest.raises(VersionError) as error:
        parse_version(text)

    assert str(error.value) == (
        f"{text!r} isn't a valid tag: a tag has at most 128 letters, digits, '_', '.' and '-', "
        "and doesn't begin with '.' or '-'; write a tag, a wildcard such as 1.2.* or a range such "
        "as '>=1.2 <2'"
    )


def test_too_many_alternatives_are_counted_and_the_filter_is_named() -> None:
    with pytest.raises(VersionError) as error:
        parse_version(MANY)

    assert str(error.value).endswith(
        f"it has {VERSION_CONSTRAINTS + 1} alternatives and exceptions, at most "
        f"{VERSION_CONSTRAINTS} are allowed; one expression in spec.tagFilter can replace "
        "many of them"
    )
    assert parse_version(MANY[5:])


def test_exceptions_count_as_alternatives_do() -> None:
    most = "1 " + "!=1.2 " * (VERSION_CONSTRAINTS - 2) + "|| 2"
    assert parse_version(most)
    with pytest.raises(VersionError, match=f"it has {VERSION_CONSTRAINTS + 1} alternatives"):
        parse_version(f"{most} !=2.1")
