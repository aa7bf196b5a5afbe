"""How certain it is that a plan is what is deployed: the words for it, in one table. Pure.

The gate's messages, the commands, the local web page and docs/approval.md use these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from copyrator.api.text import count, said
from copyrator.bundles.plans.fields import PlanStatus, PlanSummary

UNKNOWN: Final = "it was made before this was judged"


@dataclass(frozen=True, slots=True)
class PlanWord:
    """A word, and what it says of a plan."""

    name: str
    subject: str
    """What it is said of."""
    meaning: str
    """What holds where it is said."""
    otherwise: str
    """What may be where it isn't."""
    judge: Callable[[PlanSummary], bool | None]
    """Whether it is said of a plan; None where that wasn't judged."""
    reasons: Callable[[PlanSummary], tuple[str, ...]]
    """Why it isn't."""

    @property
    def negation(self) -> str:
        """``not bound``."""
        return f"not {self.name}"

    @property
    def lack(self) -> str:
        """``contents aren't bound``."""
        return f"{self.subject} aren't {self.name}"


ENFORCED: Final = PlanWord(
    name="enforced",
    subject="operations",
    meaning="the API server refuses what isn't approved",
    otherwise="the deploy may write what isn't approved",
    judge=lambda plan: plan.enforced if isinstance(plan, PlanStatus) else None,
    reasons=lambda plan: (
        (plan.unenforced,) if isinstance(plan, PlanStatus) and plan.unenforced else ()
    ),
)
BOUND: Final = PlanWord(
    name="bound",
    subject="contents",
    meaning="what is deployed is what was planned",
    otherwise="what is deployed may differ from what is shown",
    judge=lambda plan: plan.bound,
    reasons=lambda plan: plan.unbound,
)
EXACT: Final = PlanWord(
    name="exact",
    subject="contents",
    meaning="what was checked is applied, without another render",
    otherwise="werf renders once more when it applies",
    judge=lambda plan: plan.exact,
    reasons=lambda plan: (plan.inexact,) if plan.inexact else (),
)
PLAN_WORDS: Final = (ENFORCED, BOUND, EXACT)
_CERTAIN: Final = (BOUND, EXACT)
"""Of contents one of them is enough."""


def find_lacking(plan: PlanSummary) -> Iterator[PlanWord]:
    """The words that were judged, aren't said of a plan, and are missing.

    Of contents one word is enough.
    """
    is_certain = any(word.judge(plan) for word in _CERTAIN)
    for word in PLAN_WORDS:
        if word.judge(plan) is False and not (word in _CERTAIN and is_certain):
            yield word


def find_uncertain(plan: PlanSummary) -> Iterator[PlanWord]:
    """The words that would have to be said of a plan for it to be certain; none where it is.

    A plan of which a word wasn't judged isn't certain; of contents the first word stands for both.
    """
    is_certain = any(word.judge(plan) for word in _CERTAIN)
    for word in PLAN_WORDS:
        is_said = bool(word.judge(plan)) or (word is EXACT and word.judge(plan) is None)
        if not is_said and not (word in _CERTAIN and is_certain):
            yield word


AS_APPROVED: Final = "the condition AsApproved says so afterwards"


def describe_difference(plan: PlanSummary) -> str:
    """What the deploy could still write differently than planned; empty: not judged."""
    if EXACT.judge(plan):
        contents = ""
    elif BOUND.judge(plan):
        contents = f"contents that a render draws though no template asks for it ({AS_APPROVED})"
    elif BOUND.judge(plan) is False:
        contents = f"contents ({AS_APPROVED})"
    else:
        return ""
    operations = "operations" if ENFORCED.judge(plan) is False else ""
    return " and ".join(filter(None, (operations, contents))) or "nothing"


def operation_counts(plan: PlanSummary) -> str:
    """``4 operations: 3 create, 1 delete; 1 risky``."""
    if not plan.operations:
        return "no operations"
    risky = f"; {plan.risky_operations} risky" if plan.risky_operations else ""
    from copyrator.bundles.plans.operations import describe_counts  # noqa: PLC0415 - not for lists

    return f"{count(plan.operations, 'operation')}: {describe_counts(plan.counts) or '-'}{risky}"


def first_texts(texts: Sequence[str], separator: str, total: int = 0) -> str:
    """The first three texts of a list, and how many more there are."""
    more = max(total, len(texts)) - 3
    shown = separator.join(said(one) for one in texts[:3])
    return f"{shown}{separator.strip(', ')} and {more} more" if more > 0 else shown


def contents(plan: PlanSummary) -> str:
    """Whether contents are bound, exact, hidden, in one line; empty where that wasn't judged."""
    text = "; ".join(filter(None, (certainty(BOUND, plan), certainty(EXACT, plan))))
    if text and plan.hidden:
        text += f"; the chart hides contents of {count(plan.hidden, 'object')}"
    return text


def certainty(word: PlanWord, plan: PlanSummary) -> str:
    """A word with what it means, or why it isn't said; empty: not judged."""
    match word.judge(plan):
        case None:
            return ""
        case True:
            return f"{word.name}: {word.meaning}"
    return f"{word.negation}: {first_texts(word.reasons(plan), '; ') or word.otherwise}"
