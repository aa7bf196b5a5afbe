"""Choosing a tag from a stream: which wins, why the others did not, and never a downgrade."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome
from copyrator.api.reasons.bundles import Rejection
from copyrator.api.tagfilter import compile_filter
from copyrator.api.version_range import VersionRange, parse_version, read_semver
from copyrator.bundles.tags import (
    Choice,
    Criteria,
    Selection,
    TagSelection,
    admits,
    criteria_of,
    deployed_tag,
    explain,
    is_below,
    is_lower,
    read_tag,
)

WERF_JUNK = [
    "0123456789abcdef0123456789abcdef0123456789abcdef01234567-1700000000000",
    "99999999999999999999999999999999999999999999999999999999-1700000000000",
    "meta-0a1b_9.9.9",
    "managed-image-backend",
    "import-metadata-9.9.9",
    "custom-tag-meta-9.9.9",
    "client-id-abc-1700000000000",
    "0123456789abcdef0123456789abcdef0123456789abcdef01234567-1700000000000-rejected",
    "sync-server",
    "cleanup",
]
OTHER_JUNK = [
    "meta-9.9.9",
    "managed-image-9.9.9",
    "client-id-1700000000000",
    "latest",
    "sha-99999",
    "sha256-9999.sig",
    "pr-99999",
    "main-99999",
    "9f3e2a1",
    "9e3f2a1",
    "99e99",
    "9th",
    "not a tag 9.9.9",
    " 9.9.9",
    "9.9.9\n",
    "\uff19.9.9",
    "",
    "9" * 200,
    "buildX-77",
]

FOUR = "it has 4 numbers, and a version has three; publish it as "
TWO = "it has 2 numbers, and a version has three; publish it as "
ONE = "it has one number, and a version has three; publish it as "
ZERO = " has a leading zero; publish it as "
WORD = ", and a version begins with a number or v; publish it as "
PRE = " follows its numbers, and a pre-release follows a hyphen; publish it as "
LOOKALIKES = [
    ("2025.01.0", f"its number 01{ZERO}2025.1.0"),
    ("9.9.9-rc.01_b2", f"the number 01 of its pre-release{ZERO}9.9.9-rc.1_b2"),
    ("2025.1.15-08.30", f"the number 08 of its pre-release{ZERO}2025.1.15-8.30"),
    ("9.9.9.9", f"{FOUR}9.9.10"),
    ("1.2.3.4-rc", f"{FOUR}1.2.4-rc"),
    ("9.9.9.9-Xa", f"{FOUR}9.9.10-Xa"),
    ("9.9.9.9_bX", f"{FOUR}9.9.10_bX"),
    ("9.9.9.9.9", "it has 5 numbers, and a version has three; publish it as 9.9.10"),
    ("9.9", f"{TWO}9.9.0"),
    ("9.9-rc1", f"{TWO}9.9.0-rc1"),
    ("9", f"{ONE}9.0.0"),
    ("20250115T083000Z", f"{ONE}20250115.0.0_T083000Z"),
    ("2025w03", f"{ONE}2025.0.0_w03"),
    ("20250101-1a2b3c", f"{ONE}20250101.0.0_1a2b3c"),
    ("nightly-20250115t0830", f"it begins with nightly-{WORD}20250115.0.0_t0830"),
    ("9" * 128, "it has one number, and a version has three; "),
    (f"1.{'9' * 60}.0.1", f"{FOUR}1.{'9' * 60}.1"),
    ("build-77", f"it begins with build-{WORD}77.0.0"),
    ("release-9.9.9", f"it begins with release-{WORD}9.9.9"),
    ("x9.9.9", f"it begins with x{WORD}9.9.9"),
    ("v.9.9.9", f"it begins with v.{WORD}9.9.9"),
    ("2025-01-15", "no points separate its numbers; publish it as 2025.1.15"),
    ("9.9.9rc1", f"rc1{PRE}9.9.9-rc1"),
    ("9.9.9X", f"X{PRE}9.9.9-X"),
    ("9.9.9.rc1", f".rc1{PRE}9.9.9-rc1"),
    ("9.9.9.Final", f".Final{PRE}9.9.9"),
    ("9.9.9-00", f"the number 00 of its pre-release{ZERO}9.9.9-0"),
    ("9.9.9._a_", f"._a_{PRE}9.9.9_a"),
    ("20250101-rc.01_b", f"{ONE}20250101.0.0_rc.1-b"),
    ("9.9.9-", "a part of - is empty; publish it as 9.9.9"),
    ("9.9.9-rc..1", "a part of -rc..1 is empty; publish it as 9.9.9-rc.1"),
    ("9.9.9_", "a part of _ is empty; publish it as 9.9.9"),
    (
        "9.9.9_a_b",
        "it has a second _, and only one begins the build metadata; publish it as 9.9.9_a-b",
    ),
]
"""Tags that look like versions and aren't, with the rule that each breaks, and the remedy."""


def chosen(version: str, tags: Iterable[str], *, tag_filter: str = "", **more: Any) -> Choice:
    found = parse_version(version)
    assert isinstance(found, VersionRange)
    matches = compile_filter(tag_filter).matches if tag_filter else None
    selection = TagSelection(found, matches=matches, **more)
    for tag in tags:
        selection.add(tag)
    return selection.result()


def reasons(choice: Choice) -> list[tuple[str | None, str | None]]:
    return [(one.version, one.reason) for one in choice.rejected]


@pytest.mark.parametrize(
    ("version", "tags", "best"),
    [
        ("1.*", ["1.9.0", "1.10.0", "1.2.0"], "1.10.0"),
        ("1.2.*", ["1.2.3", "1.2.39", "1.20.0"], "1.2.39"),
        ("=1.2.3", ["1.2.39", "1.2.3", "1.2.30"], "1.2.3"),
        ("v1.*", ["v1.2.0", "1.3.0", "v2.0.0"], "1.3.0"),
        ("*", ["1.0.0", "2.0.0-rc.1"], "1.0.0"),
        (">=1.0-0", ["1.0.0", "2.0.0-rc.1"], "2.0.0-rc.1"),
        ("1.*", ["1.2.3_b1", "1.2.3", "1.2.3_b2"], "1.2.3"),
        ("1.*", ["1.2.3_b1", "1.2.4_b1"], "1.2.4_b1"),
        ("1.*", ["v1.2.3", "1.2.3"], "1.2.3"),
        (">=1.3.0-rc.9", ["1.3.0-rc.9", "1.3.0-rc.10"], "1.3.0-rc.10"),
        # A hyphen in the place of a stage's.
        (">=1.0.0-0", [f"1.0.0-{'a' * 50}-b"], f"1.0.0-{'a' * 50}-b"),
    ],
)
def test_the_highest_version_in_range_wins(version: str, tags: list[str], best: str) -> None:
    for order in (tags, tags[::-1]):
        choice = chosen(version, order)
        assert (choice.verdict, choice.tag) == (Selection.CHOSEN, best)


def test_a_deployed_version_stays_among_equal_ones() -> None:
    tags = ["1.2.3", "1.2.3_b1", "1.2.3_b2", "v1.2.3"]

    for deployed in tags:
        assert chosen("1.*", tags, deployed=deployed).tag == deployed


@pytest.mark.parametrize("junk", WERF_JUNK + OTHER_JUNK)
def test_junk_never_wins(junk: str) -> None:
    choice = chosen("*", ["1.0.0", junk], prerelease=True)

    assert choice.tag == "1.0.0"
    assert choice.rejected == ()
    assert choice.counts == {Rejection.NOT_A_VERSION: 1}
    assert explain(chosen("*", [junk], prerelease=True), "*") == "No tag matches *"


@pytest.mark.parametrize(("tag", "said"), LOOKALIKES)
def test_a_tag_that_looks_like_a_version_and_is_none_is_named_with_the_rule_that_it_breaks(
    tag: str, said: str
) -> None:
    for order in (["1.0.0", tag, *WERF_JUNK], [*WERF_JUNK, tag, "1.0.0"]):
        choice = chosen("*", order, prerelease=True)
        (named,) = choice.rejected
        assert (choice.tag, named.version, named.reason) == ("1.0.0", tag, "NotAVersion")
        remedies = said if said.endswith("; ") else f"{said} or "
        _, found, instead = said.rpartition("publish it as ")
        assert not found or read_semver(instead) is not None
        assert named.message == f"{remedies}set spec.version to this tag"
        assert len(named.message) < 400
        assert choice.counts == {Rejection.NOT_A_VERSION: 1 + len(WERF_JUNK)}


def test_a_tag_that_no_version_is_near_to_and_that_reads_as_a_range_has_no_remedy() -> None:
    (named,) = chosen("*", ["1.0.0", "9" * 124 + ".0.x"]).rejected
    assert named.message == "it has 2 numbers, and a version has three"


def test_a_tag_that_looks_like_a_version_comes_before_one_of_the_same_numbers() -> None:
    choice = chosen("1.*", ["1.2.3", "2.1.0", "02.1.0"])
    assert reasons(choice) == [("02.1.0", "NotAVersion"), ("2.1.0", "OutOfRange")]


@pytest.mark.parametrize(
    ("version", "tags", "named"),
    [
        # The highest of those that would fit; of others the highest.
        ("*", ["1.0.0", "2025.01.0", "2025.02.0", "2024.12.09"], "2025.02.0"),
        ("*", ["2025.12.0", "2026.01.0"], "2026.01.0"),
        ("1.*", ["1.2.3", "1.2.3.1", "1.2.3.10", "1.2.3.9", "2025.01.0"], "1.2.3.10"),
        ("1.*", ["1.2.3", "2025.01.0"], "2025.01.0"),
        ("1.0.*", ["1.0.5", "1.0.0.9", "1", "1.0", "v1", "2025.01.0"], "2025.01.0"),
        ("*", ["1.0.5", "1.0.0.9", "20250101"], "20250101"),
        ("1.*", ["1.2.3", "release-1.3.0", "release-2.0.0"], "release-1.3.0"),
        # Three numbers look more like a version than one.
        ("*", ["1.0.0", "20250101", "2025.01.0", "2025.9"], "2025.01.0"),
        ("*", ["1.0.0", "2025.01.0", "1.2.3.4"], "2025.01.0"),
        ("*", ["1.0.0", "2024.01.15", "2025-01-15"], "2025-01-15"),
        ("*", ["1.0.0", "1234", "1235", "99"], "1235"),
        ("*", ["1.0.0", "build-77", "build-100", "build-9"], "build-100"),
        # Of equal ones the shortest.
        ("*", ["1.0.0", "1.2.3.1-rc", "1.2.3.1", "release-1.2.3.1"], "1.2.3.1"),
        # Of a pre-release the release is higher.
        (">=1.0.0-rc.1", ["1.0.0-rc.1", "1.0.0.Final"], "1.0.0.Final"),
        # What isn't higher than the chosen one isn't named, nor is an alias.
        ("*", ["1.2.3", "1.2.2.9", "01.2.3", "1.2.3.Final"], None),
        ("*", ["1.2.9", "1.2", "1", "v1", "v1.2", "1.2-alpine"], None),
        ("1.*", ["1.2.9", "2.1.0", "2", "2.1", "v2", "v2.1"], None),
        # Without any SemVer tag those of numbers and points are versions, and others aren't.
        ("*", ["2024.01.15", "2025.02.01"], None),
        ("*", ["2024.01.15", "20250301"], "20250301"),
        ("*", ["1.2.3.10", "release-1.2.3.4"], None),
        ("*", ["1234", "1235"], "1235"),
        ("1.*", ["build-77"], "build-77"),
    ],
)
def test_the_highest_that_looks_like_a_version_is_named(
    version: str, tags: list[str], named: str | None
) -> None:
    for order in (tags, tags[::-1]):
        found = [one for one in chosen(version, order).rejected if one.reason == "NotAVersion"]
        assert [one.version for one in found] == ([named] if named else [])


def test_it_has_its_place_among_the_highest_that_were_rejected() -> None:
    tags = ["1.0.0", "2.2.0", "2.4.0", "2.3.0.1", *(f"3.0.{i}" for i in range(2))]
    names = [one.version for one in chosen("1.*", tags).rejected]
    assert names == ["3.0.1", "3.0.0", "2.4.0", "2.3.0.1", "2.2.0"]
    many = ["1.0.0", "1.2.3.4", *(f"3.0.{i}" for i in range(9))]
    choice = chosen("1.*", many, quarantined={"1.0.0"})
    names = [one.version for one in choice.rejected]
    assert names == ["3.0.8", "3.0.7", "3.0.6", "1.2.3.4", "1.0.0"]


@pytest.mark.parametrize(
    ("tag_filter", "named"),
    [("", "2025.01.0"), ("build-.*", "build-77"), (r"1\..*", None), (r".*[0-9]", "2025.01.0")],
)
def test_the_filter_decides_what_may_be_named(tag_filter: str, named: str | None) -> None:
    tags = ["1.0.0", "2025.01.0", "build-77"]
    found = [
        one.version
        for one in chosen("*", tags, tag_filter=tag_filter).rejected
        if one.reason == "NotAVersion"
    ]
    assert found == ([named] if named else [])


def test_it_is_said_where_no_tag_is_a_version() -> None:
    tags = ["1234", "1235", "latest"]
    assert explain(chosen("1.*", tags), "1.*") == (
        "No tag matches 1.*, as no tag is a version; rejected: 1235 (NotAVersion: it has one "
        "number, and a version has three; publish it as 1235.0.0 or set spec.version to this tag)"
    )
    filtered = chosen("*", ["1.0.0", "build-77"], tag_filter="build-.*")
    assert explain(filtered, "*").startswith(
        "No tag matches *, as no tag that spec.tagFilter admits is a version; rejected: build-77 ("
    )
    assert explain(chosen("1.*", ["2025.01.0", "2025.02.0"]), "1.*") == (
        "No tag matches 1.*; rejected: 2025.02.0 (OutOfRange), 2025.01.0 (OutOfRange); no tag is "
        "SemVer, so numbers and points count as versions"
    )
    some = explain(chosen("2.*", ["1.0.0", "1235"]), "2.*")
    assert some.startswith("No tag matches 2.*; rejected: 1235 (NotAVersion: ")


def test_says_why_higher_tags_were_passed_over() -> None:
    tags = ["1.2.0", "1.2.9", "1.3.0", "1.2.10-rc.1", "1.2.11", "1.1.0", "meta-x", "2.0.0-a"]

    choice = chosen("~1.2", tags, tag_filter=r"\d\.\d\.\d|.*-.*|1\.2\.0")

    assert choice.tag == "1.2.9"
    assert reasons(choice) == [
        ("2.0.0-a", "OutOfRange"),
        ("1.3.0", "OutOfRange"),
        ("1.2.11", "Filtered"),
        ("1.2.10-rc.1", "PreRelease"),
    ]
    assert choice.counts == {
        Rejection.OUT_OF_RANGE: 3,
        Rejection.FILTERED: 1,
        Rejection.PRE_RELEASE: 1,
        Rejection.NOT_A_VERSION: 1,
    }


def test_keeps_the_highest_five_of_many_however_they_come() -> None:
    tags = [f"2.{i}.0" for i in range(50)]
    expected = [(f"2.{i}.0", "OutOfRange") for i in (49, 48, 47, 46, 45)]

    for order in (tags, tags[::-1], tags + tags):
        assert reasons(chosen("1.*", order)) == expected


def test_a_better_match_that_failed_too_often_is_not_replaced_by_a_lower_one() -> None:
    choice = chosen("1.*", ["1.1.0", "1.2.0", "1.3.0"], quarantined={"1.3.0"}, deployed="1.1.0")

    assert (choice.verdict, choice.tag) == (Selection.QUARANTINED, "1.3.0")
    assert reasons(choice) == [("1.3.0", "Quarantined")]


def test_a_version_that_failed_too_often_is_still_among_those_that_gates_judge() -> None:
    tags = ["1.1.0", "1.2.0", "1.3.0", "2.0.0"]
    choice = chosen("1.*", tags, quarantined={"1.3.0"}, deployed="1.2.0", depth=5)
    assert choice.fitting == ("1.3.0", "1.2.0")
    choice = chosen("1.*", tags, quarantined={"1.2.0"}, deployed="1.2.0", depth=5)
    assert (choice.verdict, choice.fitting) == (Selection.CHOSEN, ("1.3.0", "1.2.0"))


def test_the_best_that_is_rejected_is_listed_last_after_the_highest_ones() -> None:
    others = [f"2.0.{n}" for n in range(7)]
    choice = chosen("1.*", [*others, "1.3.0"], quarantined={"1.3.0"})

    assert reasons(choice) == [
        *((tag, "OutOfRange") for tag in ("2.0.6", "2.0.5", "2.0.4", "2.0.3")),
        ("1.3.0", "Quarantined"),
    ]
    assert choice.counts == {Rejection.OUT_OF_RANGE: 7, Rejection.QUARANTINED: 1}


def test_it_is_known_whether_the_deployed_tag_fits_the_spec() -> None:
    assert chosen("1.*", ["1.3.0"], deployed="1.2.0").keeps
    assert not chosen("1.*", ["1.3.0"], deployed="2.0.0").keeps
    assert not chosen("1.*", ["1.3.0"]).keeps


def test_of_equal_versions_none_is_lower() -> None:
    tags = ["1.2.3", "v1.2.3", "V1.2.3", "1.2.3_b1"]
    found = [one for one in map(read_tag, tags) if one is not None]
    assert len(found) == 4
    assert not any(is_lower(one, other) for one in found for other in found)
    dotted, semver = read_tag("1.2"), read_tag("1.2.0")
    assert dotted is not None
    assert semver is not None
    assert not dotted.is_semver
    assert not is_lower(dotted, semver)
    assert not is_lower(semver, dotted)
    for order in (tags, tags[::-1]):
        assert chosen("1.*", order).tag == "1.2.3"
        assert chosen("1.*", [tag for tag in order if tag != "1.2.3"]).tag == "v1.2.3"


def test_nothing_is_downgraded_when_a_tag_is_gone() -> None:
    choice = chosen("1.*", ["1.1.0", "1.2.0"], deployed="1.3.0")

    assert (choice.verdict, choice.tag, choice.best) == (Selection.WOULD_DOWNGRADE, None, "1.2.0")
    assert reasons(choice) == [("1.2.0", "LowerThanDeployed")]
    assert choice.counts == {Rejection.LOWER_THAN_DEPLOYED: 1}


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("1.2.*", {}),
        ("<1.3", {}),
        ("1.*", {"tag_filter": r"1\.[012]\..*"}),
        ("1.*", {"deployed": None}),
    ],
)
def test_a_spec_that_asks_for_the_lower_version_is_obeyed(
    version: str, more: dict[str, Any]
) -> None:
    choice = chosen(version, ["1.1.0", "1.2.0"], **({"deployed": "1.3.0"} | more))

    assert (choice.verdict, choice.tag) == (Selection.CHOSEN, "1.2.0")


def test_pre_releases_that_are_no_longer_asked_for_are_left() -> None:
    choice = chosen("1.*", ["1.2.0", "1.3.0-rc.1"], deployed="1.3.0-rc.1")

    assert (choice.verdict, choice.tag) == (Selection.CHOSEN, "1.2.0")


@pytest.mark.parametrize("deployed", ["latest", "main", "1.2.0", "1.1.0"])
def test_an_upgrade_is_none_of_that(deployed: str) -> None:
    choice = chosen("*", ["1.2.0", "1.1.0"], deployed=deployed)

    assert (choice.verdict, choice.tag) == (Selection.CHOSEN, "1.2.0")


@pytest.mark.parametrize(
    ("version", "tags", "best"),
    [
        ("2024.*", ["2024.1", "2024.10", "2024.9", "2023.12"], "2024.10"),
        ("*", ["2024.01.15", "2024.02.01", "20240301", "latest"], "2024.02.01"),
        ("1.*", ["1.2.3.4", "1.2.3.10", "2.0.0.0"], "1.2.3.10"),
        ("1.*", ["1.2", "1.3rc1", "v1.1"], "1.2"),
        ("<=1.2", ["1.2", "1.3"], "1.2"),
    ],
)
def test_where_no_tag_is_semver_dotted_numbers_are_versions(
    version: str, tags: list[str], best: str
) -> None:
    for order in (tags, tags[::-1]):
        assert chosen(version, order).tag == best


def test_one_semver_tag_makes_the_others_no_versions() -> None:
    choice = chosen("*", ["2024.1", "2024.10", "1.0.0-rc.1"])

    assert choice.verdict is Selection.NO_MATCH
    assert reasons(choice) == [("2024.10", "NotAVersion"), ("1.0.0-rc.1", "PreRelease")]
    assert choice.counts == {Rejection.PRE_RELEASE: 1, Rejection.NOT_A_VERSION: 2}


def test_the_filter_decides_which_tags_are_there_at_all() -> None:
    choice = chosen("*", ["2024.1", "2024.10", "1.0.0"], tag_filter=r"2024\..*")

    assert choice.tag == "2024.10"
    assert choice.counts == {Rejection.FILTERED: 1}


def test_a_list_that_lost_its_semver_tags_takes_nothing_else_in_their_place() -> None:
    choice = chosen("*", ["2024.1"], deployed="1.2.3")

    assert choice.verdict is Selection.NO_MATCH


def test_dotted_numbers_are_not_downgraded_either() -> None:
    assert chosen("*", ["2024.1"], deployed="2024.2").verdict is Selection.WOULD_DOWNGRADE
    assert chosen("*", ["1.0.0"], deployed="2024.2").verdict is Selection.WOULD_DOWNGRADE


def test_explains_what_is_missing() -> None:
    none = chosen("1.*", ["2.0.0", "1.0.0-rc.1"])
    lower = chosen("1.*", ["1.0.0"], deployed="1.1.0")

    assert explain(none, "1.*") == (
        "No tag matches 1.*; rejected: 2.0.0 (OutOfRange), 1.0.0-rc.1 (PreRelease); "
        "spec.prerelease: true admits pre-releases"
    )
    assert explain(chosen("1.*", []), "1.*") == "No tag matches 1.*"
    assert explain(chosen("1.*", ["2.0.0"]), "1.*") == (
        "No tag matches 1.*; rejected: 2.0.0 (OutOfRange)"
    )
    assert explain(lower, "1.*", "1.1.0") == (
        "The best match of 1.* is 1.0.0, which is lower than the deployed 1.1.0; its tag may have "
        "been deleted. To downgrade, set spec.version to the desired version"
    )


@pytest.mark.measures
def test_memory_does_not_grow_with_the_list() -> None:
    found = parse_version("1.*")
    assert isinstance(found, VersionRange)
    selection = TagSelection(found)
    for i in range(20_000):
        selection.add(f"{i % 7}.{i}.{i % 11}{'-rc' if i % 3 else ''}")

    assert len(pickle.dumps(selection)) < 2_000


tags = st.builds(
    lambda v, a, b, c, rest: f"{v}{a}.{b}.{c}{rest}",
    st.sampled_from(["", "v"]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["", "", "-rc.1", "-rc.2", "_b1", ".1", "-rejected", "-01"]),
)


@given(
    st.lists(tags, max_size=20),
    st.sampled_from(["*", "1.*", "^1.1", ">=1.1.0-0", "<2 || 3.x", "~1.2 !=1.2.2"]),
    st.booleans(),
    st.one_of(st.none(), tags),
    st.randoms(use_true_random=False),
)
def test_the_choice_is_the_one_that_a_look_at_all_tags_gives(
    found: list[str], version: str, prerelease: bool, deployed: str | None, random: Any
) -> None:
    choice = chosen(version, found, prerelease=prerelease, deployed=deployed)

    shuffled = list(found)
    random.shuffle(shuffled)
    assert chosen(version, shuffled, prerelease=prerelease, deployed=deployed) == choice
    if choice.best is None:
        assert choice.verdict is Selection.NO_MATCH
        return
    best = read_tag(choice.best)
    assert best is not None
    assert choice.best in found
    fitting = [tag for tag in found if chosen(version, [tag], prerelease=prerelease).tag]
    readable = [
        one for tag in fitting if (one := read_tag(tag)) and one.is_semver == best.is_semver
    ]
    assert not any(is_lower(best, one) for one in readable)
    floor = read_tag(deployed) if deployed else None
    if choice.tag and floor and chosen(version, [floor.tag], prerelease=prerelease).tag:
        assert not is_lower(best, floor)


def fitting(version: str, tags: Iterable[str], **more: Any) -> tuple[str, ...]:
    return chosen(version, tags, **more).fitting


def test_without_gates_no_tags_are_kept() -> None:
    assert fitting("1.*", ["1.0.0", "1.1.0"]) == ()


def test_gates_judge_from_the_highest_tag_down_to_the_deployed_one() -> None:
    tags = ["1.0.0", "1.3.0", "1.1.0", "2.0.0", "1.2.0", "1.4.0-rc.1", "1.2.0"]
    assert fitting("1.*", tags, depth=50) == ("1.3.0", "1.2.0", "1.1.0", "1.0.0")
    assert fitting("1.*", tags, depth=50, deployed="1.1.0") == ("1.3.0", "1.2.0", "1.1.0")
    assert fitting("1.*", tags, depth=2) == ("1.3.0", "1.2.0")


@given(st.permutations([f"1.{minor}.0" for minor in range(12)]), st.integers(1, 5))
def test_the_highest_are_kept_whatever_the_order(tags: list[str], depth: int) -> None:
    expected = tuple(f"1.{minor}.0" for minor in range(11, 11 - depth, -1))
    assert fitting("1.*", tags, depth=depth) == expected


SPEC = BundleSpec(namespace="a", name="b", registry="r", repo="x", project_namespace="a")


@pytest.mark.parametrize(
    ("spec", "tag", "is_admitted"),
    [
        (replace(SPEC, version="1.2.x"), "1.2.9", True),
        (replace(SPEC, version="1.2.x"), "1.3.0", False),
        (replace(SPEC, version="1.2.x"), "1.2.9-rc.1", False),
        (replace(SPEC, version="1.2.x", prerelease=True), "1.2.9-rc.1", True),
        (replace(SPEC, version="1.2.x", tag_filter="1.2.8"), "1.2.9", False),
        (replace(SPEC, version="1.2.x"), "main", False),
        (replace(SPEC, version="main"), "main", True),
        (replace(SPEC, version="main"), "1.2.9", False),
    ],
)
def test_a_spec_admits_its_tag_or_what_is_in_its_range(
    spec: BundleSpec, tag: str, is_admitted: bool
) -> None:
    assert admits(spec, tag) is is_admitted


@pytest.mark.parametrize(
    ("tag", "other", "is_lower"),
    [
        ("1.2.3", "1.10.0", True),
        ("1.10.0", "1.2.3", False),
        ("1.2.3", "1.2.3", False),
        ("1.2.3_b1", "v1.2.3", False),
        ("1.2.3-rc.1", "1.2.3", True),
        ("1.2.3", "main", False),
        ("main", "1.2.3", False),
        ("", "", False),
    ],
)
def test_only_versions_are_below_each_other(tag: str, other: str, is_lower: bool) -> None:
    assert is_below(tag, other) is is_lower


# --- What a Bundle asks of a tag list, read from its spec and its status


ASKED = BundleSpec(
    namespace="n", name="b", registry="r", repo="app", version="1.*", project_namespace="n"
)
RANGE = parse_version("1.*")
assert isinstance(RANGE, VersionRange)


@pytest.mark.parametrize(
    ("reference", "floor"),
    [("r/app", "1.2.0"), (None, "1.2.0"), ("r/other", None), ("other/app", None)],
)
def test_only_a_deploy_from_the_same_repository_is_a_floor(
    reference: str | None, floor: str | None
) -> None:
    status = BundleStatus(deployed=Deployed(version="1.2.0", reference=reference))

    assert deployed_tag(status, "r/app") == floor


@pytest.mark.parametrize(
    ("outcome", "failures", "quarantined"),
    [
        (Outcome.FAILED, 3, "1.3.0"),
        (Outcome.FAILED, 2, None),
        (Outcome.SUCCEEDED, 3, None),
        (Outcome.INTERRUPTED, 9, None),
    ],
)
def test_a_tag_is_quarantined_when_its_failures_are_over_the_limit(
    outcome: Outcome, failures: int, quarantined: str | None
) -> None:
    attempted = Attempted(version="1.3.0", outcome=outcome, failures=failures)
    spec = replace(ASKED, retry=Retry(limit=2))

    found = criteria_of(spec, RANGE, BundleStatus(attempted=attempted))

    assert found.quarantined == quarantined


def test_criteria_are_what_the_spec_asks_and_what_became_of_it() -> None:
    spec = replace(ASKED, tag_filter="v.*", prerelease=True, retry=Retry(limit=0))
    status = BundleStatus(
        deployed=Deployed(version="1.2.0", reference="r/app"),
        attempted=Attempted(version="1.3.0", outcome=Outcome.FAILED, failures=1),
    )

    assert criteria_of(spec, RANGE, status, depth=9) == Criteria(
        RANGE, "v.*", prerelease=True, quarantined="1.3.0", deployed="1.2.0", depth=9
    )
    assert criteria_of(spec, RANGE, status).depth == 0


def test_equal_criteria_are_one() -> None:
    again = parse_version(" 1.* ")
    assert isinstance(again, VersionRange)

    assert len({Criteria(RANGE), Criteria(again), criteria_of(ASKED, again, BundleStatus())}) == 1


def test_a_selection_heeds_all_of_it() -> None:
    criteria = Criteria(RANGE, "1.*", prerelease=True, quarantined="1.3.0-rc.1", deployed="1.2.0")
    selection = criteria.selection()
    for tag in ("1.2.0", "1.3.0-rc.1", "v1.4.0"):
        selection.add(tag)

    choice = selection.result()

    assert (choice.verdict, choice.tag) == (Selection.QUARANTINED, "1.3.0-rc.1")
    assert [one.reason for one in choice.rejected] == ["Filtered", "Quarantined"]
