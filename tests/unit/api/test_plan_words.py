"""How certain a plan is has one wording, which the docs have too."""

from pathlib import Path

import pytest

from copyrator.api.plan_status import PlanStatus, PreviewPlan
from copyrator.api.plan_words import BOUND, ENFORCED, PLAN_WORDS, PlanWord, find_lacking

DOCS = Path(__file__).parents[3] / "docs" / "approval.md"


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
        (PreviewPlan(bound=False), [BOUND]),
    ],
)
def test_what_was_judged_and_doesnt_hold_is_lacking(
    plan: PlanStatus | PreviewPlan, lacking: list[PlanWord]
) -> None:
    assert [*find_lacking(plan)] == lacking


def test_the_forms_of_a_word() -> None:
    assert (BOUND.negation, BOUND.lack) == ("not bound", "contents aren't bound")
    assert ENFORCED.reasons(PlanStatus(unenforced="why")) == ("why",)
    assert ENFORCED.reasons(PreviewPlan()) == ()
