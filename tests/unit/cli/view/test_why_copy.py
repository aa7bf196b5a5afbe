"""What is said of the rules that don't decide about an object."""

import pytest

from copyrator.cli.view.why_copy import RuleAnswer, count_rules, explain


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["copies objects of kind ConfigMap"], "1 other rule"),
        (["is being deleted", "is suspended; otherwise: requires it"], "2 other rules"),
        (
            ["is being deleted", "requires it, but it belongs to the rule a/b"],
            "2 other rules, 1 of which requires it, too",
        ),
        (["requires it, from a"] * 3, "3 other rules, 3 of which require it, too"),
    ],
)
def test_other_rules_are_a_count(answers, said):
    found = [RuleAnswer(str(number), answer) for number, answer in enumerate(answers)]
    assert count_rules(found) == said


def test_rules_with_the_same_answer_share_a_line_but_the_owner_has_its_own():
    found = [RuleAnswer("a/own", "requires it", is_owner=True)]
    found += [RuleAnswer(f"a/r{number}", "requires it") for number in range(3)]
    assert list(explain(found)) == [
        "rule a/own (its owner): requires it",
        "3 rules (a/r0, a/r1, …): requires it",
    ]
    assert list(explain(found[1:3])) == ["rule a/r0: requires it", "rule a/r1: requires it"]
