"""How certain a plan is has one wording, which the docs have too."""

from pathlib import Path

import pytest

from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.plans.plan_words import (
    AS_APPROVED,
    BOUND,
    ENFORCED,
    EXACT,
    PLAN_WORDS,
    PlanWord,
    describe_difference,
    find_lacking,
    find_uncertain,
)

DOCS = Path(__file__).parents[5] / "docs" / "approval.md"


@pytest.mark.parametrize("word", PLAN_WORDS, ids=lambda word: str(word.name))
def test_the_docs_have_the_table(word: PlanWord) -> None:
    row = f"| {word.name} | {word.subject} | {word.meaning} | {word.otherwise} |"
    assert row in DOCS.read_text().splitlines()


@pytest.mark.parametrize(
    ("plan", "lacking"),
    [
        (PlanStatus(enforced=True, bound=True), []),
        (PlanStatus(enforced=False, bound=True), [ENFORCED]),
        (PlanStatus(enforced=True, bound=False), [BOUND]),
        (PlanStatus(enforced=False, bound=False), [ENFORCED, BOUND]),
        (PlanStatus(), []),
        (PlanStatus(enforced=True, bound=True, exact=False), []),
        (PlanStatus(enforced=True, bound=False, exact=True), []),
        (PlanStatus(enforced=True, bound=False, exact=False), [BOUND, EXACT]),
        (PreviewPlan(bound=False), [BOUND]),
    ],
)
def test_what_was_judged_and_doesnt_hold_is_lacking(
    plan: PlanStatus | PreviewPlan, lacking: list[PlanWord]
) -> None:
    assert [*find_lacking(plan)] == lacking


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (PlanStatus(enforced=True, bound=True), []),
        (PlanStatus(enforced=True, exact=True, bound=False), []),
        (PlanStatus(enforced=True, bound=False, exact=False), [BOUND, EXACT]),
        (PlanStatus(exact=True), [ENFORCED]),
        (PlanStatus(), [ENFORCED, BOUND]),
    ],
)
def test_of_contents_one_word_is_enough_for_a_plan_to_be_certain(
    plan: PlanStatus, words: list[PlanWord]
) -> None:
    assert [*find_uncertain(plan)] == words


DRAWN = f"contents that a render draws though no template asks for it ({AS_APPROVED})"


@pytest.mark.parametrize(
    ("plan", "could"),
    [
        (PlanStatus(enforced=True, bound=True, exact=True), "nothing"),
        (PlanStatus(enforced=True, bound=False, exact=True), "nothing"),
        (PlanStatus(enforced=False, exact=True), "operations"),
        (PlanStatus(enforced=True, bound=True, exact=False), DRAWN),
        (PlanStatus(enforced=True, bound=True), DRAWN),
        (PlanStatus(enforced=True, bound=False), f"contents ({AS_APPROVED})"),
        (PlanStatus(enforced=False, bound=False), f"operations and contents ({AS_APPROVED})"),
        (PlanStatus(), ""),
    ],
)
def test_what_could_still_differ_follows_from_the_words(plan: PlanStatus, could: str) -> None:
    assert describe_difference(plan) == could


def test_the_forms_of_a_word() -> None:
    assert (BOUND.negation, BOUND.lack) == ("not bound", "contents aren't bound")
    assert ENFORCED.reasons(PlanStatus(unenforced="why")) == ("why",)
    assert ENFORCED.reasons(PreviewPlan()) == ()
