"""What is said of the rules that don't decide about an object."""

import pytest

from copyrator.cli.rules.why import count_rules


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (["copies objects of kind ConfigMap"], "1 other rule (--all)"),
        (["is being deleted", "is suspended; otherwise: requires it"], "2 other rules (--all)"),
        (
            ["is being deleted", "requires it, but it belongs to the rule a/b"],
            "2 other rules, 1 of which requires it, too (--all)",
        ),
        (["requires it, from a"] * 3, "3 other rules, 3 of which require it, too (--all)"),
    ],
)
def test_other_rules_are_a_count(answers, said):
    assert count_rules({str(number): answer for number, answer in enumerate(answers)}) == said
