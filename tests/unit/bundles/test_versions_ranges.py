"""What `spec.version` means: tables for every form of range, and properties for the rest."""

from __future__ import annotations

import pytest
import semver
from hypothesis import example, given
from hypothesis import strategies as st

from copyrator.api.version_range import (
    VERSION_CONSTRAINTS,
    ExactTag,
    Fit,
    Key,
    VersionError,
    VersionRange,
    is_prerelease,
    parse_version,
    read_semver,
)


def ranged(text: str) -> VersionRange:
    found = parse_version(text)
    assert isinstance(found, VersionRange), text
    return found


def key(text: str) -> Key:
    found = read_semver(text)
    assert found is not None, text
    return found


def takes(version: str, tag: str, *, prerelease: bool = False) -> bool:
    return ranged(version).fit(key(tag), prerelease=prerelease) is Fit.IN_RANGE


@pytest.mark.parametrize(
    ("version", "tag"),
    [
        ("v1.2.3", "v1.2.3"),
        ("v1", "v1"),
        ("latest", "latest"),
        ("1.2.3-rc.1", "1.2.3-rc.1"),
        ("1.2.3-1.4", "1.2.3-1.4"),
        ("1.2.3_5", "1.2.3_5"),
        ("1.2.3+5", "1.2.3_5"),
        ("v1.2.3-rc.1+5.a", "v1.2.3-rc.1_5.a"),
        ("  1.2.3 ", "1.2.3"),
        ("x", "x"),
        ("release-1.x", "release-1.x"),
        ("1.2.x-debian", "1.2.x-debian"),
        ("a" * 128, "a" * 128),
    ],
)
def test_a_version_that_is_no_range_is_an_exact_tag(version: str, tag: str) -> None:
    assert parse_version(version) == ExactTag(tag)


# Highest and lowest inside, nearest outside.
FORMS = [
    ("1.2.*", ["1.2.0", "1.2.39"], ["1.1.99", "1.3.0"]),
    ("1.2.x", ["1.2.0", "1.2.39"], ["1.1.99", "1.3.0"]),
    ("1.2.X", ["1.2.0"], ["1.3.0"]),
    ("1.x.x", ["1.0.0", "1.99.99"], ["0.9.9", "2.0.0"]),
    ("1.*", ["1.0.0", "1.99.99"], ["0.9.9", "2.0.0", "10.0.0", "11.1.1"]),
    ("v1.*", ["1.0.0", "v1.0.0"], ["2.0.0", "v2.0.0"]),
    ("*", ["0.0.0", "999.0.0"], ["1.0.0-rc.1"]),
    ("v*", ["0.0.0"], []),
    ("~1.2", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"]),
    ("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
    ("~1", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0"]),
    ("~> 1.2.3", ["1.2.3"], ["1.3.0"]),
    ("^1.2.3", ["1.2.3", "1.99.0"], ["1.2.2", "2.0.0"]),
    ("^1.2", ["1.2.0", "1.99.0"], ["1.1.9", "2.0.0"]),
    ("^1", ["1.0.0"], ["2.0.0"]),
    ("^0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0"]),
    ("^0.2", ["0.2.0", "0.2.9"], ["0.1.9", "0.3.0"]),
    ("^0.0.3", ["0.0.3"], ["0.0.2", "0.0.4"]),
    ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
    ("^0", ["0.0.0", "0.9.9"], ["1.0.0"]),
    ("^*", ["7.0.0"], []),
    (">=1.2 <2", ["1.2.0", "1.99.99"], ["1.1.9", "2.0.0"]),
    (">=1.2, <2", ["1.2.0", "1.99.99"], ["1.1.9", "2.0.0"]),
    (">=1.2<2", ["1.2.0"], ["2.0.0"]),
    (">= v1.2 , < v2", ["1.2.0"], ["1.1.9", "2.0.0"]),
    ("=> 1.2, =< 1.4", ["1.2.0", "1.4.9"], ["1.1.9", "1.5.0"]),
    (">1.2.3", ["1.2.4"], ["1.2.3"]),
    (">1.2", ["1.3.0"], ["1.2.0", "1.2.9"]),
    (">1", ["2.0.0"], ["1.9.9"]),
    ("<1.2.3", ["1.2.2", "0.0.0"], ["1.2.3"]),
    ("<1.2", ["1.1.9"], ["1.2.0"]),
    ("<=1.2.3", ["1.2.3"], ["1.2.4"]),
    ("<=1.2", ["1.2.9"], ["1.3.0"]),
    ("<=*", ["9.9.9"], []),
    ("=1.2.3", ["1.2.3", "1.2.3_build"], ["1.2.39", "1.2.2"]),
    ("==1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
    ("1.2 - 1.4", ["1.2.0", "1.4.9"], ["1.1.9", "1.5.0"]),
    ("1.2.3 - 1.4.2", ["1.2.3", "1.4.2"], ["1.2.2", "1.4.3"]),
    ("1.2 - 1.4 || 2.*", ["1.4.0", "2.0.0"], ["1.5.0", "3.0.0"]),
    ("1.2.3 || 1.2.5 || ^3", ["1.2.3", "1.2.5", "3.1.0"], ["1.2.4", "4.0.0"]),
    ("<1||>=2", ["0.9.0", "2.0.0"], ["1.0.0", "1.9.9"]),
    ("~1.2 >=1.2.5 !=1.2.7", ["1.2.5", "1.2.8"], ["1.2.4", "1.2.7", "1.3.0"]),
    ("1.x, !=1.3", ["1.2.9", "1.4.0"], ["1.3.0", "1.3.9"]),
    ("=1.2.3+ignored", ["1.2.3"], ["1.2.4"]),
    ("1.0 - 2.0 !=1.5.0 <1.8", ["1.4.0", "V1.4.0"], ["1.5.0", "1.9.0"]),
    ("1 || X", ["5.0.0"], []),
    (">=X", ["5.0.0"], []),
]


@pytest.mark.parametrize(("version", "inside", "outside"), FORMS)
def test_a_range_takes_what_its_users_expect(
    version: str, inside: list[str], outside: list[str]
) -> None:
    assert [tag for tag in inside if not takes(version, tag)] == []
    assert [tag for tag in outside if takes(version, tag)] == []


@pytest.mark.parametrize(
    ("version", "inside", "outside"),
    [
        # Named: pre-releases of that version only, as in npm.
        (">=1.3.0-rc.1", ["1.3.0-rc.1", "1.3.0-rc.2", "1.3.0", "1.4.0"], ["1.3.0-beta", "1.4.0-a"]),
        ("^1.3.0-rc.1", ["1.3.0-rc.2", "1.9.0"], ["1.4.0-rc.1", "2.0.0-rc.1", "2.0.0"]),
        ("~1.3.0-rc.1", ["1.3.0-rc.2", "1.3.9"], ["1.3.1-rc.1"]),
        ("=1.3.0-rc.1", ["1.3.0-rc.1"], ["1.3.0", "1.3.0-rc.10"]),
        (">1.3.0-rc.1", ["1.3.0-rc.2", "1.3.0"], ["1.3.0-rc.1"]),
        (">=1.0 <2.0.0-rc.2", ["2.0.0-rc.1", "1.9.0"], ["2.0.0-rc.2", "1.9.0-rc.1"]),
        ("<=2.0.0-rc.2", ["2.0.0-rc.2"], ["2.0.0-rc.3", "2.0.0"]),
        ("1.0.0-a - 1.0.0-c", ["1.0.0-b"], ["1.0.0-d", "1.0.0"]),
        ("1.* || 2.0.0-rc.1 - 2.0.0", ["2.0.0-rc.1"], ["1.0.0-rc.1"]),
        (">=1.3.0-rc.1 <2", ["1.3.0-rc.2", "1.9.0"], ["1.4.0-rc.1", "2.0.0-rc.1"]),
        # A lower bound that ends in -0: all of them, as in Helm and Flux.
        (">=1.2.0-0", ["1.2.0-a", "1.9.0-rc.1", "1.9.0"], ["1.1.9"]),
        ("*-0", ["0.0.1-a", "3.0.0-rc.1"], []),
        ("1.2.x-0", ["1.2.0-a", "1.2.5-rc.1"], ["1.3.0-a"]),
        ("^1.2.0-0", ["1.9.0-a"], ["2.0.0-a"]),
        (">=1.2 <2.0.0-0", ["1.9.0"], ["2.0.0-a", "1.9.0-a"]),
        ("<=1.2-0", ["1.1.0"], ["1.1.0-rc.1"]),
        # Not to have it names nothing.
        (">=1.0 !=1.3.0-rc.1", ["1.3.0"], ["1.3.0-rc.2"]),
    ],
)
def test_a_range_takes_pre_releases_where_it_names_one(
    version: str, inside: list[str], outside: list[str]
) -> None:
    assert [tag for tag in inside if not takes(version, tag)] == []
    assert [tag for tag in outside if takes(version, tag)] == []


@pytest.mark.parametrize(
    ("version", "tag", "inside"),
    [
        ("*", "1.0.0-rc.1", True),
        ("1.2.*", "1.2.0-rc.1", True),
        ("1.2.*", "1.3.0-rc.1", False),
        (">=1.2", "1.2.0-rc.1", True),
        (">=1.2.0", "1.2.0-rc.1", False),
        (">=1.2.0", "1.2.1-rc.1", True),
        ("<2", "2.0.0-rc.1", False),
        ("<2.0.0", "2.0.0-rc.1", False),
        ("^1.2.3", "2.0.0-rc.1", False),
        ("1.2 - 1.4", "1.5.0-rc.1", False),
    ],
)
def test_a_bundle_that_asks_for_pre_releases_gets_them_but_none_of_the_excluded_end(
    version: str, tag: str, inside: bool
) -> None:
    assert takes(version, tag, prerelease=True) is inside
    assert not takes(version, tag)
    inside_by_bounds = ranged(version).fit(key(tag)) is Fit.PRE_RELEASE
    assert inside_by_bounds is inside


@pytest.mark.parametrize(
    ("version", "word"),
    [
        ("", "must be a tag"),
        (">=", "a version is missing after '>='"),
        ("1.2 - ", "1.2 - 1.4"),
        (">=1.2 - 1.4", "1.2 - 1.4"),
        ("1.2 - >1.4", "'>' isn't a valid version"),
        ("><1", "'><' isn't an operator"),
        ("!1.2", "'!' isn't an operator"),
        (">=latest", "'latest' isn't a valid version"),
        ("1.2.3.4 || 2.*", "'1.2.3.4' isn't a valid version"),
        ("1.2.*.*", "isn't a valid version"),
        ("1.x.3", "a number after its wildcard"),
        ("01.2.*", "leading zero"),
        (">=1.2.3-01", "pre-release"),
        ("1.2.*-rc", "only a whole version"),
        ("||", "a constraint is missing"),
        (">=1,,<2", "a constraint is missing"),
        ("1.* | 2.*", "write '||'"),
        (">2 <1", "no version matches it"),
        ("<*", "no version matches it"),
        ("1.2.3 1.2.4", "no version matches it"),
        ("team/app", "isn't a valid tag"),
        ("a" * 129, "isn't a valid tag"),
        ("1.2.*\x00", "isn't a valid tag"),
        ("\uff11.*", "isn't a valid version"),
        (">" * 300, "at most 256"),
    ],
)
def test_a_malformed_version_is_refused_with_a_sentence_that_says_why(
    version: str, word: str
) -> None:
    with pytest.raises(VersionError) as refused:
        parse_version(version)
    assert word in str(refused.value)


@pytest.mark.parametrize(
    "version",
    [
        "main-.*",
        r"1\.2\.\d+",
        "v?1.2.*",
        "(main|dev)",
        "1.2.3$",
    ],
)
def test_a_regular_expression_of_the_original_is_told_what_to_write_instead(version: str) -> None:
    with pytest.raises(VersionError) as refused:
        parse_version(version)
    assert (
        f"is a regular expression, which spec.version doesn't accept; set version: '*' and "
        f"tagFilter: {version!r}" in str(refused.value)
    )


@pytest.mark.parametrize("version", ["x.*", "1.x.*", "vx.*", "^1.2", "^v1", ">=1.2.*", "*"])
def test_a_range_that_looks_like_one_stays_a_range(version: str) -> None:
    assert isinstance(parse_version(version), VersionRange)


identifiers = st.one_of(
    st.integers(0, 30).map(str), st.sampled_from(["a", "alpha", "rc", "0a", "-", "A"])
)
prereleases = st.lists(identifiers, min_size=1, max_size=3).map(".".join)
bases = st.tuples(*[st.integers(0, 3)] * 3)


@st.composite
def versions(draw: st.DrawFn) -> str:
    base = ".".join(map(str, draw(bases)))
    pre = draw(st.one_of(st.none(), prereleases))
    return f"{base}-{pre}" if pre else base


@given(versions(), versions())
@example("1.10.0", "1.9.0")
@example("1.0.0-rc.1", "1.0.0")
@example("1.0.0-alpha", "1.0.0-alpha.1")
@example("1.0.0-9", "1.0.0-10")
@example("1.0.0-9", "1.0.0-a")
def test_keys_order_as_the_specification_does(one: str, other: str) -> None:
    expected = semver.Version.parse(one).compare(other)

    assert (key(one) > key(other)) - (key(one) < key(other)) == expected


@given(st.one_of(st.text(max_size=300), st.text(alphabet="0123.xX*v<>=!~^|,- +_rc", max_size=30)))
def test_reading_a_version_never_raises_anything_else(text: str) -> None:
    try:
        found = parse_version(text)
    except VersionError:
        return

    assert isinstance(found, ExactTag) or found.fit(key("1.2.3")) in Fit


@given(st.text(max_size=140))
def test_reading_a_tag_never_raises(text: str) -> None:
    read_semver(text)


def _naive(operator: str, bound: semver.Version, version: semver.Version) -> bool:
    """What a constraint means, said anew with the library's own comparison."""
    compared = version.compare(bound)
    same_base = version.finalize_version() == bound.finalize_version()
    match operator:
        case ">=":
            return compared >= 0
        case ">":
            return compared > 0
        case "<=":
            return compared <= 0
        case "<":
            return compared < 0 and not (same_base and bound.prerelease is None)
        case "!=":
            return compared != 0
        case "=":
            return compared == 0
        case "~":
            return compared >= 0 and version.to_tuple()[:2] == bound.to_tuple()[:2]
        case _:
            numbers = bound.to_tuple()[:3]
            leading = next((i for i, number in enumerate(numbers) if number), 2)
            return compared >= 0 and version.to_tuple()[: leading + 1] == numbers[: leading + 1]


constraints = st.tuples(st.sampled_from([">=", ">", "<=", "<", "!=", "=", "~", "^"]), versions())


@given(st.lists(st.lists(constraints, min_size=1, max_size=3), min_size=1, max_size=2), versions())
def test_a_range_takes_what_its_constraints_take_one_by_one(
    alternatives: list[list[tuple[str, str]]], tag: str
) -> None:
    text = " || ".join(" ".join(op + bound for op, bound in one) for one in alternatives)
    version = semver.Version.parse(tag)
    expected = any(
        all(_naive(op, semver.Version.parse(bound), version) for op, bound in one)
        for one in alternatives
    )

    try:
        found = ranged(text)
    except VersionError:
        assert not expected
        return

    assert (found.fit(key(tag), prerelease=True) is Fit.IN_RANGE) is expected
    if not is_prerelease(key(tag)):
        assert (found.fit(key(tag)) is Fit.IN_RANGE) is expected


def test_exceptions_count_as_alternatives_do() -> None:
    most = "1 " + "!=1.2 " * (VERSION_CONSTRAINTS - 2) + "|| 2"
    assert parse_version(most)
    with pytest.raises(VersionError, match=f"it has {VERSION_CONSTRAINTS + 1} alternatives"):
        parse_version(f"{most} !=2.1")
